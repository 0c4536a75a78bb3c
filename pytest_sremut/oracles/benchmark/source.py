"""Importing modules from a checkout so that what runs is exactly the bytes that were hashed.

Rules kept here:

* a module of the checkout is compiled from its source each time; no bytecode cache beside it is
  read or written, so the checkout stays as it is and cannot smuggle anything in;
* the SHA-256 is taken of the very bytes that are compiled;
* under light imports a package that the layout lists is entered without running its `__init__`.

Standard library only.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_sremut.errors import HarnessError
from pytest_sremut.oracles.exact import exact_hook

__all__ = ["CheckoutImports"]


class CheckoutImports:
    """Makes the modules of one checkout importable in this process.

    Args:
        checkout: The benchmark's directory.
        path: Its directories that modules are imported from.
        light: Packages to enter without their `__init__`.
    """

    def __init__(self, checkout: Path, path: Sequence[str], light: Sequence[str]) -> None:
        self.checkout = checkout.resolve()
        self.digests: dict[str, str] = {}  # file inside the checkout -> SHA-256 as compiled
        sys.path_hooks.insert(0, exact_hook(self.checkout, self._seen))
        for entry in reversed(path):
            sys.path.insert(0, str((self.checkout / entry).resolve()))
        sys.path_importer_cache.clear()
        for package in light:
            self._enter(package)

    def load(self, module: str) -> ModuleType:
        """Import a module. Raises HarnessError with the cause: no reading can be taken then."""
        try:
            return importlib.import_module(module)
        except BaseException as error:  # a foreign module may raise anything, and may call exit()
            if isinstance(error, KeyboardInterrupt):
                raise
            raise HarnessError(
                f"cannot import {module}: {type(error).__name__}: {error}"
            ) from error

    def find(self, place: str) -> Any:
        """What stands under `module:name`. Raises HarnessError."""
        module, _, name = place.partition(":")
        found = getattr(self.load(module), name, None)
        if not callable(found):
            raise HarnessError(f"{module} has no class {name}")
        return found

    def file_of(self, module: str) -> str:
        """The checkout's file that a loaded module came from; empty for one from elsewhere."""
        origin = getattr(sys.modules.get(module), "__file__", None)
        return self._relative(origin) if origin else ""

    def _seen(self, file: str, data: bytes) -> None:
        self.digests[self._relative(file)] = hashlib.sha256(data).hexdigest()

    def _relative(self, file: str) -> str:
        path = Path(file).resolve()
        return (
            path.relative_to(self.checkout).as_posix() if path.is_relative_to(self.checkout) else ""
        )

    def _enter(self, package: str) -> None:
        parent, _, name = package.rpartition(".")
        above = self.load(parent) if parent else None
        search = list(above.__path__) if above is not None else sys.path
        folders = [str(Path(entry) / name) for entry in search if (Path(entry) / name).is_dir()]
        if not folders:
            raise HarnessError(f"the checkout has no package {package}")
        module = ModuleType(package)
        module.__path__ = folders
        module.__spec__ = ModuleSpec(package, None, is_package=True)
        module.__spec__.submodule_search_locations = folders
        module.__package__ = package
        sys.modules[package] = module
        if above is not None:
            setattr(above, name, module)
