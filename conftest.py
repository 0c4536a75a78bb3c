"""Test-only plugins. The product's own plugin comes through its entry point."""

from __future__ import annotations

pytest_plugins = ["pytester"]
