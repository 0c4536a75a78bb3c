"""`sremut freeze`, `sremut verify` and `sremut tsa serve`.

Exit codes: 0 it holds, 1 invalid, 2 misuse, 3 cannot be verified (an authority that does not
answer belongs here too). `verify` prints one line a check and nothing that it did not check.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import TYPE_CHECKING

from pytest_sremut.attestation.errors import Fault, VerificationError
from pytest_sremut.errors import InputError, SremutError, UsageError

if TYPE_CHECKING:
    from pytest_sremut.attestation.registration.result import RegistrationReport
    from pytest_sremut.attestation.rfc3161.trust import TrustStore
    from pytest_sremut.study.model import Study

__all__ = ["add_arguments", "exit_code"]

_CODES = {Fault.INVALID: 1, Fault.MISUSE: 2, Fault.UNVERIFIABLE: 3, Fault.AUTHORITY: 3}
_AUDITS = "audits"
_TRUST = "attestation/trust.yaml"
_STUDY_FILE = "study.yaml"


def add_arguments(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Mount the three commands; each sets `run`, a function of the arguments to an exit code."""
    freeze = commands.add_parser(
        "freeze", help="register a study: digests, stamped by a timestamp authority"
    )
    freeze.add_argument("study", metavar="STUDY", help="id of the study, or its file")
    freeze.add_argument(
        "--tsa", required=True, metavar="URL|self", help="an RFC 3161 authority, or our own"
    )
    freeze.add_argument(
        "--tree", action="store_true", help="stamp the checked-out commit, as the second token"
    )
    freeze.add_argument("--hash", default="sha256", choices=("sha256", "sha384", "sha512"))
    freeze.add_argument("--policy", metavar="OID", help="the policy to ask for (default: none)")
    freeze.add_argument(
        "--timeout", type=_seconds, default=15.0, metavar="SECONDS", help="for one answer"
    )
    _add_root(freeze)
    freeze.set_defaults(run=_told(_freeze))

    verify = commands.add_parser("verify", help="check registrations offline, a line a check")
    verify.add_argument(
        "what",
        nargs="?",
        metavar="STUDY|EVIDENCE",
        help="a study, or the evidence directory of a session or of one attempt in it, with its "
        "seals (default: every study)",
    )
    verify.add_argument("--json", action="store_true", help="machine-readable")
    verify.add_argument("--revision", type=int, metavar="N", help="default: the newest")
    verify.add_argument("--trust", type=Path, metavar="FILE", help=f"default: {_TRUST}")
    verify.add_argument("--reply", type=Path, metavar="FILE", help="verify one reply or token")
    verify.add_argument("--data", type=Path, metavar="FILE", help="what --reply stamps")
    verify.add_argument("--query", type=Path, metavar="FILE", help="the query of --reply")
    _add_root(verify)
    verify.set_defaults(run=_told(_verify))

    tsa = commands.add_parser("tsa", help="a self-issued timestamp authority")
    serve = tsa.add_subparsers(metavar="VERB", required=True).add_parser(
        "serve", help="serve one over HTTP until interrupted; its key is never written"
    )
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=0, help="default: a free one")
    serve.add_argument("--key", choices=("ec", "rsa"), default="ec", help="kind of keys")
    serve.add_argument("--chain", type=int, choices=(1, 2, 3), default=2, help="certificates")
    serve.set_defaults(run=_told(_serve))


def exit_code(error: SremutError) -> int:
    """The exit code that an error stands for."""
    if isinstance(error, VerificationError):
        return _CODES[error.fault]
    return 2 if isinstance(error, UsageError | InputError) else 1


def _add_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="the project: where audits/ and attestation/ lie (default: here)",
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 600:
        raise argparse.ArgumentTypeError(f"found {text}; allowed: 0 to 600 seconds")
    return value


def _told(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The command with its errors told on stderr, as their exit codes."""

    def run(arguments: argparse.Namespace) -> int:
        try:
            return command(arguments)
        except SremutError as error:
            print(f"sremut: {error}", file=sys.stderr)
            if error.diagnostics():
                print(_indented(error.diagnostics()), file=sys.stderr)
            return exit_code(error)

    return run


def _indented(text: str) -> str:
    return "\n".join(f"     {line}" for line in text.splitlines())


def _load(root: Path, name: str) -> Study:
    """The study of that id, directory or file."""
    from pytest_sremut.study.load import load_study

    file = PurePosixPath(_AUDITS, name, _STUDY_FILE)
    if not (root / file).exists():
        given = Path(name) / _STUDY_FILE if Path(name).is_dir() else Path(name)
        try:
            file = PurePosixPath(given.resolve(strict=True).relative_to(root.resolve()))
        except (OSError, ValueError):
            known = ", ".join(_studies(root)) or "none here"
            raise UsageError(
                f"{name!r} is no study; allowed: a study file, or one of {known}"
            ) from (None)
    return load_study(root, file)


def _studies(root: Path) -> list[str]:
    return sorted(path.parent.name for path in root.glob(f"{_AUDITS}/*/{_STUDY_FILE}"))


# -- freeze -------------------------------------------------------------------------------------


def _freeze(arguments: argparse.Namespace) -> int:
    from pytest_sremut.attestation.registration.freeze import freeze, freeze_tree
    from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority
    from pytest_sremut.attestation.rfc3161.transport import HttpAuthority

    root: Path = arguments.root
    study = _load(root, arguments.study)
    make = freeze_tree if arguments.tree else freeze
    options = {"hash_algorithm": arguments.hash, "policy": arguments.policy}
    if arguments.tsa == "self":
        authority = SelfIssuedAuthority()
        try:
            made = make(root, study, authority, **options)
        finally:
            authority.discard_key()
    else:
        http = HttpAuthority(url=arguments.tsa, timeout=arguments.timeout)
        made = make(root, study, http, **options)
    token = made.token
    print(f"{made.study} revision {made.revision}: sha256:{made.digest}")
    print(f"stamped at {token.gen_time.isoformat()} by {token.root}: {token.independence}")
    for name in made.files:
        print(f"  {made.directory / name}")
    return 0


# -- verify -------------------------------------------------------------------------------------


def _verify(arguments: argparse.Namespace) -> int:
    from pytest_sremut.attestation.rfc3161.trust import load_trust

    if (arguments.reply is None) != (arguments.data is None):
        raise UsageError("--reply and --data go together")
    trust = None if arguments.trust is None else load_trust(arguments.trust)
    if arguments.reply is not None:
        if arguments.what is not None:
            raise UsageError("--reply verifies one token; name no study with it")
        return _verify_reply(arguments, trust or load_trust(arguments.root / _TRUST))
    if arguments.what is not None:
        from pytest_sremut.attestation.registration.evidence import is_recorded

        given = Path(arguments.what)
        if is_recorded(given):
            return _verify_evidence(arguments, given, trust)
    return _verify_studies(arguments, trust)


def _verify_evidence(
    arguments: argparse.Namespace, directory: Path, trust: TrustStore | None
) -> int:
    from pytest_sremut.attestation.registration.evidence import verify_recorded

    report = verify_recorded(
        directory,
        arguments.root,
        lambda name: _load(arguments.root, name),
        trust=trust,
        revision=arguments.revision,
    )
    if arguments.json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        for registration in report.registrations:
            _print_report(registration)
        print(f"{directory}:")
        for check in report.checks:
            print(check.line())
        for place, label in report.labels.items():
            print(f"{place}: {label}")
        if (first := report.first_broken) is not None:
            print(f"first broken link: {first.place or first.name}: {first.detail}")
    return 0 if report.fault is None else _CODES[report.fault]


def _verify_studies(arguments: argparse.Namespace, trust: TrustStore | None) -> int:
    from pytest_sremut.attestation.registration.check import check

    root: Path = arguments.root
    what = arguments.what
    names: Sequence[str] = _studies(root) if what is None else [what]
    if not names:
        raise UsageError(f"{root / _AUDITS}: no study there")
    reports = []
    for name in names:
        study = _load(root, name)
        reports.append(check(root, study, trust=trust, revision=arguments.revision))
    if arguments.json:
        print(json.dumps([report.to_json() for report in reports], indent=2))
    else:
        for report in reports:
            _print_report(report)
    codes = [_CODES[report.fault] for report in reports if report.fault is not None]
    return next((code for code in (1, 2, 3) if code in codes), 0)


def _print_report(report: RegistrationReport) -> None:
    print(f"{report.study}:")
    for result in report.results:
        print(result.line())
        if result.diagnostics:
            print(_indented(result.diagnostics))
    if report.openssl:
        print("To verify without us (OpenSSL 3.0 or newer):")
        for command in report.openssl:
            print(f"  {command}")
    print(f"{'OK  ' if report.ok else 'FAIL'} {report.header()}")


def _verify_reply(arguments: argparse.Namespace, trust: TrustStore) -> int:
    from pytest_sremut.attestation.rfc3161.verify import verify

    query = None if arguments.query is None else _bytes(arguments.query)
    failure: VerificationError | None = None
    try:
        token = verify(_bytes(arguments.reply), _bytes(arguments.data), trust, query=query)
        checks = token.checks
    except VerificationError as error:
        failure, checks = error, error.passed
    if arguments.json:
        print(
            json.dumps(
                {
                    "ok": failure is None,
                    "token": token.to_json() if failure is None else None,
                    "checks": [{"name": name, "detail": detail} for name, detail in checks],
                    "error": None if failure is None else type(failure).__name__,
                    "fault": None if failure is None else failure.fault.value,
                    "detail": "" if failure is None else str(failure),
                },
                indent=2,
            )
        )
    else:
        for name, detail in checks:
            print(f"{'--  ' if detail.startswith('not checked') else 'OK  '} {name}: {detail}")
        if failure is None:
            print(f"OK   token: {token.gen_time.isoformat()} by {token.root}, {token.independence}")
        else:
            print(f"FAIL token: {failure}")
            if failure.diagnostics():
                print(_indented(failure.diagnostics()))
    return 0 if failure is None else _CODES[failure.fault]


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None


# -- tsa serve ----------------------------------------------------------------------------------


def _serve(arguments: argparse.Namespace) -> int:
    from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority
    from pytest_sremut.attestation.rfc3161.server import serve

    authority = SelfIssuedAuthority(kind=arguments.key, length=arguments.chain)
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    try:
        with serve(authority, host=arguments.host, port=arguments.port) as server:
            print(f"{server.url}  ({authority.root.independence})")
            print(f"root SHA-256 {authority.root.sha256}, at {server.url}root.pem", flush=True)
            ended.wait()
    except OSError as error:
        raise UsageError(f"{arguments.host}:{arguments.port}: {error.strerror}") from None
    finally:
        authority.discard_key()
    return 0
