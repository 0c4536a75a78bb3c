"""Twenty real processes race for one cluster: never two hold it, and none waits for a dead one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RACERS = 20

RACE = """\
import json, os, signal, sys
from pathlib import Path
from pytest_sremut.cluster.lease import Lease
from pytest_sremut.cluster.port import ClusterIdentity
from pytest_sremut.errors import UsageError

directory, mode, racers = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
cluster = ClusterIdentity(kube_system_uid="uid-1", server_version="v1", server="http://a")
start, go = os.pipe()

def race(number, told):
    os.close(go)
    os.read(start, 1)  # until the parent closes its end: all begin together
    for turn in range(5):
        try:
            lease = Lease.acquire(
                cluster, directory=directory, holder=f"s{number}",
                timeout=120.0 if mode != "at-once" else 0.0,
            )
        except UsageError as error:
            told.append("refused" if "in use by" in str(error) else str(error))
            continue
        # Only a holder comes here, and of holders there is one.
        try:
            os.close(os.open(directory / "held", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            told.append("TWO HOLDERS")
            break
        os.unlink(directory / "held")
        if mode == "killed" and number % 4 == turn == 0:
            os.kill(os.getpid(), signal.SIGKILL)  # with the lease in its hand
        lease.release()
        told.append("held")

children = []
for number in range(racers):
    pid = os.fork()
    if pid == 0:
        told = []
        try:
            race(number, told)
        except BaseException as error:
            told.append(repr(error))
        (directory / f"told-{number}").write_text(json.dumps(told))
        os._exit(0)
    children.append(pid)
os.close(start)
os.close(go)
killed = sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9 for pid in children)
told = [word for file in directory.glob("told-*") for word in json.loads(file.read_text())]
print(json.dumps({"killed": killed, **{word: told.count(word) for word in set(told)}}))
"""


@pytest.mark.parametrize("mode", ["waiting", "at-once", "killed"])
def test_twenty_sessions_race_for_one_cluster(tmp_path: Path, mode: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", RACE, str(tmp_path), mode, str(RACERS)],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    told = json.loads(ended.stdout)
    if mode == "waiting":
        assert told == {"killed": 0, "held": 5 * RACERS}
    elif mode == "at-once":
        assert told["held"] >= 1
        assert told["held"] + told.get("refused", 0) == 5 * RACERS
        assert set(told) <= {"killed", "held", "refused"}
    else:
        assert told == {"killed": RACERS // 4, "held": 5 * (RACERS - RACERS // 4)}
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith("told-")}
    assert left <= ({"uid-1.lock", "uid-1.holder"} if mode == "killed" else set())
