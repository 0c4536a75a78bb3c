"""`sremut import FILE --sremut-evidence=DIR`. Cheap to import: work loads late."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_arguments", "run"]


def add_arguments(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare `sremut import`."""
    parser = commands.add_parser("import", help="turn published figures into records")
    parser.add_argument("file", metavar="FILE", help="mutant_study.json or fix_oracle_study.json")
    parser.add_argument(
        "--sremut-evidence", metavar="DIR", required=True, help="where the records go"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """The sub-command. Raises InputError and EvidenceError."""
    from pytest_sremut.ledger.published.importing import import_file

    directory = Path(arguments.sremut_evidence)
    study, written = import_file(Path(arguments.file), directory)
    told = f"{written} files written" if written else "nothing new, all of it stands there already"
    print(f"{study}: published records in {directory}: {told}")
    print(
        f"judge them: pytest --sremut-adjudicate --rootdir={directory} "
        f"--sremut-evidence={directory} {directory}/audits"
    )
    return 0
