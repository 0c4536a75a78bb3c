"""Whether an attempt's evidence is of what was registered: its files, its graders, its product.

Evidence names the study's files by role and the modules that its graders were made of; a seal names
the product. All of these stand in the registration, or in the commit that its tree stamps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_sremut.attestation.errors import CheckoutError
from pytest_sremut.attestation.registration.checkout import open_checkout, product_at
from pytest_sremut.attestation.registration.code import ROLE, code_roles
from pytest_sremut.attestation.registration.manifest import Manifest
from pytest_sremut.attestation.registration.result import RegistrationReport
from pytest_sremut.evidence.seal.checks import Report

__all__ = ["compare_attempt", "compare_product"]

_OURS = "pytest_sremut"
_OF_THE_PROJECT = frozenset({"in-process", "isolated"})


def compare_attempt(directory: Path, manifest: Manifest, report: Report, where: str) -> None:
    """Compare what an attempt says it was of with its registration.

    Args:
        directory: The attempt's.
        manifest: Of the registration that it names.
        report: Told of each difference; its places are relative to `where`.
        where: The attempt, as `study/run/aNN`.
    """
    problems = [*_files(directory, manifest, where), *_modules(directory, manifest, where)]
    report.told(f"{where} registered", problems, "files and graders are the registered ones")


def compare_product(
    root: Path, registration: RegistrationReport, product: str, report: Report, where: str
) -> None:
    """Compare the product that an attempt was sealed by with that of the stamped commit.

    By git's objects. Nothing is said where the commit is not at hand, which the registration's own
    check tells, and where it holds no product.

    Args:
        root: The project's root.
        registration: That the attempt names.
        product: The digest in its seal.
        report: Told of the difference.
        where: The attempt.
    """
    if registration.tree is None:
        return
    commit = registration.tree.commit
    try:
        stamped = product_at(open_checkout(root), commit)
    except CheckoutError:
        return
    if not stamped:
        return
    if product != stamped:
        report.failed(
            f"{where} product",
            f"sealed by the product {product}, commit {commit} holds {stamped}",
            f"{where}/seal/seal.json",
        )
    else:
        report.passed(f"{where} product", f"that of commit {commit}, by its objects")


def _files(directory: Path, manifest: Manifest, where: str) -> Iterator[tuple[str, str]]:
    identity = _read(directory / "attempt.json")
    recorded: Mapping[str, Any] = identity.get("files", {})
    registered = {
        role: file.sha256 for role, file in manifest.files.items() if not role.startswith(ROLE)
    }
    for role in sorted({*recorded, *registered}):
        here, there = recorded.get(role, "none"), registered.get(role, "none")
        if identity and here != there:
            yield f"{where}/attempt.json", f"files.{role}: {here}, registered {there}"


def _modules(directory: Path, manifest: Manifest, where: str) -> Iterator[tuple[str, str]]:
    if not manifest.has_code:
        return
    registered = {
        role.removeprefix(ROLE): file.sha256 for role, file in code_roles(manifest).items()
    }
    for path in sorted((directory / "states").glob("*.json")):
        for reading in _read(path).get("readings", ()):
            if reading.get("instrument") not in _OF_THE_PROJECT:
                continue  # a benchmark's modules are pinned by the study
            modules: Mapping[str, str] = reading.get("instrument_facts", {}).get("modules", {})
            for name, here in sorted(modules.items()):
                there = registered.get(name, "nothing")
                if name.partition(".")[0] != _OURS and here != there:
                    yield (
                        f"{where}/states/{path.name}",
                        f"{reading.get('oracle')} {reading.get('instrument')} was made of {name} "
                        f"{here}, registered {there}",
                    )


def _read(path: Path) -> dict[str, Any]:
    """A document of the evidence; empty where it is none, which its own check tells."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
