"""`sremut import FILE --sremut-evidence=DIR`: published figures become records that can be judged.

The directory becomes a small project of its own: it has the definition of the study beside the
records, so `pytest --sremut-adjudicate --rootdir=DIR --sremut-evidence=DIR` needs nothing else.
Existing files are never overwritten. The same import twice changes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_sremut.errors import EvidenceError, InputError
from pytest_sremut.evidence.identity import file_digests
from pytest_sremut.ground.durable.atomic import make_directory, write_new
from pytest_sremut.ground.formats.canonical import canonical_json
from pytest_sremut.ledger.published.inputs import parse_input
from pytest_sremut.ledger.published.records import SOURCE
from pytest_sremut.ledger.published.shipped import definitions, shipped_study
from pytest_sremut.ledger.renderings.document import checked

__all__ = ["import_file"]


def import_file(file: Path, directory: Path) -> tuple[str, int]:
    """Import one published file.

    Returns:
        The study's id, and how many files were written.

    Raises:
        InputError: The file cannot be read, or its content is not allowed.
        EvidenceError: The directory has another file under one of the names.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InputError(
            file=str(file), found=str(error.strerror), allowed="a readable file"
        ) from None
    source = parse_input(data, str(file))
    study = shipped_study(source.study)
    with definitions() as root:
        records = source.records(study, file_digests(root, study.frozen))
        definition = {str(name): (root / name).read_bytes() for name in study.frozen.values()}
    where = f"published/{study.id}"
    wanted = {f"{where}/{SOURCE}": data, **definition}
    wanted |= {f"{where}/{record['run']}.json": _bytes(record) for record in records}
    for name in [name for name, body in wanted.items() if _stands(directory / name, body)]:
        del wanted[name]
    for name, body in wanted.items():
        make_directory((directory / name).parent)
        write_new(directory / name, body)
    return study.id, len(wanted)


def _bytes(record: dict[str, Any]) -> bytes:
    checked("published", record, what=f"{record['run']}.json")
    return canonical_json(record)


def _stands(path: Path, data: bytes) -> bool:
    """Whether the file exists with these bytes. Raises EvidenceError if it has others."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read: {error.strerror}") from error
    if found != data:
        raise EvidenceError(f"{path}: stands there with other bytes; nothing was written")
    return True
