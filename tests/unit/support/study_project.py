"""Where the shipped study stands, and what its four files are called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath

REPOSITORY = Path(__file__).parents[3]
STUDY = PurePosixPath("audits/missing_service_social_network/study.yaml")
PREDICTIONS = STUDY.with_name("predictions.yaml")
MUTANTS = PurePosixPath("mutants/missing_service.yaml")
CONTRACT = PurePosixPath("contracts/missing_service_social_network.yaml")

Edit = Callable[..., Path]
