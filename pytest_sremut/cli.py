"""`sremut`: what is done outside a pytest session.

Exit codes: 0 done, 1 the thing asked about is not as it should be, 2 misuse, 3 not known;
`cluster run` exits as its command did. A user's mistake is one sentence on stderr, no traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sremut import __version__
from pytest_sremut.attestation.cli import add_arguments as add_attestation
from pytest_sremut.census.report.cli import add_arguments as add_census
from pytest_sremut.cluster.kind.images_command import add_arguments as add_images
from pytest_sremut.errors import SremutError, UsageError
from pytest_sremut.ledger.baseline.command import add_arguments as add_baseline
from pytest_sremut.ledger.published.command import add_arguments as add_import
from pytest_sremut.session.recovery_command import add_arguments as add_recover
from pytest_sremut.study.matrix_command import add_arguments as add_matrix

if TYPE_CHECKING:
    from pytest_sremut.embedded import EmbeddedCluster, Options

__all__ = ["main"]

_SELF_TEST_SECONDS = 120.0
_DEFAULT = "dev"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the `sremut` console script."""
    from pytest_sremut.embedded import EmbeddedError

    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except UsageError as error:
        return _complain(error, 2)
    except (SremutError, EmbeddedError) as error:
        return _complain(error, 1)
    except BrokenPipeError:
        # The reader of our output has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def _complain(error: Exception, code: int) -> int:
    print(f"sremut: {error}", file=sys.stderr)
    more = error.diagnostics() if isinstance(error, SremutError) else ""
    if more:
        print(more, file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sremut", description="Mutation testing for the graders of live SRE benchmarks."
    )
    parser.add_argument("--version", action="version", version=f"sremut {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    add_attestation(commands)
    add_census(commands)
    add_import(commands)
    add_baseline(commands)
    add_matrix(commands)
    add_recover(commands)
    _add_cluster(commands)
    doctor = commands.add_parser("doctor", help="say what this machine lacks, and what to do")
    doctor.add_argument("--json", action="store_true", help="machine-readable")
    doctor.set_defaults(run=_doctor)
    return parser


def _add_cluster(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    cluster = commands.add_parser(
        "cluster", help="an embedded cluster that outlives a session; rights on an existing one"
    )
    verbs = cluster.add_subparsers(metavar="VERB", required=True)

    def verb(name: str, text: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text)
        sub.add_argument("--name", default=_DEFAULT, help="name of the cluster (default: dev)")
        return sub

    up = verb("up", "bring one up and leave it running")
    run = verb("run", "bring one up, run a command with KUBECONFIG set, take it down")
    for sub in (up, run):
        sub.add_argument("--routing", choices=("auto", "nft", "forwarder"), default="auto")
        sub.add_argument(
            "--no-endpoints", choices=("reject", "reject-all", "drop"), default="reject"
        )
        sub.add_argument("--tools", choices=("auto", "machine", "own"), default="auto")
        sub.add_argument("--nodes", type=int, choices=range(1, 5), default=1, metavar="1..4")
        sub.add_argument(
            "--pace",
            default="none",
            help="how slow it pretends to be: none, real, or delay:20ms,jitter:10ms,pods:1s-3s,"
            "limit:50",
        )
    up.add_argument("--port", type=int, default=0, help="of the API (default: a free one)")
    up.set_defaults(run=_cluster_up)
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD")
    run.set_defaults(run=_cluster_run)
    verb("status", "what it is and whether its self-test passed").set_defaults(run=_cluster_status)
    verb("kubeconfig", "print the path of its kubeconfig").set_defaults(run=_cluster_kubeconfig)
    down = verb("down", "take it down")
    down.add_argument(
        "--orphans",
        action="store_true",
        help="take down the kind clusters that ended sessions left behind, and no others",
    )
    down.add_argument(
        "--dirty", action="store_true", help="with --orphans: also those that were left mutated"
    )
    down.set_defaults(run=_cluster_down)
    rights = verbs.add_parser("rbac", help="print the least rights an existing cluster must grant")
    rights.add_argument("--namespace", required=True, help="the study's; create it beforehand")
    rights.add_argument("--account", default="sremut", help="service account (default: sremut)")
    rights.add_argument(
        "--observe", action="store_true", help="grant reads that make the record richer, too"
    )
    rights.add_argument(
        "--configmaps",
        action="store_true",
        help="grant what an application needs whose manifests hold ConfigMaps, too",
    )
    rights.set_defaults(run=_cluster_rbac)
    add_images(verbs)


def _directory(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--name: found {name!r}; allowed: up to 40 lower-case letters, digits and hyphens, "
            "no hyphen at an end"
        )
    from pytest_sremut.cluster.embedded import named_directory

    return named_directory(name)


def _options(arguments: argparse.Namespace) -> Options:
    from pytest_sremut.embedded import Options

    port = getattr(arguments, "port", 0)
    if not 0 <= port <= 65535:
        raise UsageError(f"--port: found {port}; allowed: 0 to 65535")
    return Options(
        routing=arguments.routing,
        no_endpoints=arguments.no_endpoints,
        tools=arguments.tools,
        nodes=arguments.nodes,
        port=port,
        pace=arguments.pace,
    )


def _self_test(cluster: EmbeddedCluster) -> int:
    """Wait for the self-test and say how it went. 1 when verdicts would be refused."""
    report = cluster.selftest(_SELF_TEST_SECONDS)
    for deviation in report.deviations:
        print(f"self-test: {deviation}", file=sys.stderr)
    return 0 if report.ok else 1


def _cluster_up(arguments: argparse.Namespace) -> int:
    from pytest_sremut import embedded
    from pytest_sremut.cluster.embedded import images

    cluster = embedded.up(
        directory=_directory(arguments.name),
        name=arguments.name,
        images=images(),
        options=_options(arguments),
        detach=True,
    )
    code = _self_test(cluster)
    print(f"cluster {arguments.name} is up at {cluster.server}")
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    print(f"export KUBECACHEDIR={cluster.directory / 'kubectl-cache'}")
    return code


def _cluster_run(arguments: argparse.Namespace) -> int:
    from pytest_sremut import embedded
    from pytest_sremut.cluster.embedded import images

    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise UsageError("cluster run: found no command; allowed: sremut cluster run -- CMD ...")
    with tempfile.TemporaryDirectory(prefix="sremut-") as directory:
        cluster = embedded.up(
            directory=Path(directory),
            name=arguments.name,
            images=images(),
            options=_options(arguments),
        )
        try:
            if _self_test(cluster) != 0:
                return 1
            environment = {
                **os.environ,
                "KUBECONFIG": str(cluster.kubeconfig),
                "KUBECACHEDIR": str(cluster.directory / "kubectl-cache"),
            }
            try:
                return subprocess.run(command, env=environment, check=False).returncode
            except OSError as error:
                raise UsageError(f"{command[0]}: {error.strerror}") from None
        finally:
            cluster.close()


def _cluster_status(arguments: argparse.Namespace) -> int:
    from pytest_sremut import embedded
    from pytest_sremut.cluster.kind import orphans
    from pytest_sremut.cluster.kind.records import directories

    directory = _directory(arguments.name)
    wanted = [
        item for item in directories(os.environ) if arguments.name in {_DEFAULT, item.path.name}
    ]
    embedded_too = (directory / "state.json").exists()  # then stdout is one JSON document
    for item in wanted:
        line = orphans.look(item, os.environ).line()
        print(line, file=sys.stderr if embedded_too else sys.stdout)
    if wanted and not embedded_too:
        return 0
    cluster = embedded.attach(directory)
    print(json.dumps(cluster.status(), indent=2, sort_keys=True))
    return _self_test(cluster)


def _cluster_kubeconfig(arguments: argparse.Namespace) -> int:
    from pytest_sremut import embedded
    from pytest_sremut.cluster.kind import orphans
    from pytest_sremut.cluster.kind.records import directory_of

    if orphans.known(arguments.name, os.environ):
        print(directory_of(arguments.name, os.environ).kubeconfig)
        return 0
    print(embedded.attach(_directory(arguments.name)).kubeconfig)
    return 0


def _cluster_rbac(arguments: argparse.Namespace) -> int:
    from pytest_sremut.cluster.rbac import manifest

    text = manifest(
        arguments.namespace,
        arguments.account,
        observe=arguments.observe,
        configmaps=arguments.configmaps,
    )
    print(text, end="")
    return 0


def _cluster_down(arguments: argparse.Namespace) -> int:
    from pytest_sremut import embedded
    from pytest_sremut.cluster.kind import orphans

    if arguments.orphans:
        lines, clean = orphans.take_down_orphans(os.environ, dirty=arguments.dirty)
        print("\n".join(lines or ["no kind cluster was left behind"]))
        return 0 if clean else 1
    if arguments.dirty:
        raise UsageError("cluster down: --dirty: allowed only with --orphans")
    if orphans.known(arguments.name, os.environ):
        print("\n".join(orphans.take_down(arguments.name, os.environ)))
        return 0
    embedded.attach(_directory(arguments.name)).close()
    print(f"cluster {arguments.name} is down")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from pytest_sremut.cluster.kind import preflight
    from pytest_sremut.embedded import diagnose

    checks = [*diagnose(), *preflight.diagnose(os.environ)]
    if arguments.json:
        from dataclasses import asdict

        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        for check in checks:
            # What is not needed may be missing: a study does without.
            mark = "OK  " if check.ok else "LACK" if check.needed else "no  "
            print(f"{mark} {check.name}: {check.detail}")
            if check.step:
                print(f"     failed to {check.step} (errno {check.errno})")
            if not check.ok and check.advice:
                print(f"     {check.advice}")
    return 0 if all(check.ok or not check.needed for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
