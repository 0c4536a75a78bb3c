"""A cell of a real session goes the way that the architecture lists, in that order."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from quick import HOW, MAIN, require_clusters, run
from small import make_small

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "support"))

from cell_way import way_of_a_cell

CELL = f"audits/{MAIN}/study.yaml::test_cell[ms-m01-r01-healthy-O1]"
# In the session itself: which of the functions is called first, second, ...
FOLLOW = """\
import json
import sys
from pathlib import Path

sys.path.insert(0, SUPPORT)

from cell_way import resolve, way_of_a_cell

CODES = {resolve(name).__code__: name for name in way_of_a_cell()}
CALLED = []


def look(frame, event, _argument):
    if event == "call" and frame.f_code in CODES:
        CALLED.append(CODES.pop(frame.f_code))


sys.setprofile(look)


def pytest_unconfigure():
    sys.setprofile(None)
    Path("called.json").write_text(json.dumps(CALLED))
"""


def test_a_cell_goes_the_listed_way(tmp_path: Path) -> None:
    require_clusters()
    project = make_small(tmp_path)
    support = str(Path(__file__).parents[1] / "unit" / "support")
    (project / "conftest.py").write_text(FOLLOW.replace("SUPPORT", repr(support)))
    result = run(project, CELL, "--sremut-report=json:ledger-of-it.json", *HOW["no xdist"])
    assert (project / "ledger-of-it.json").exists(), result.out
    assert json.loads((project / "called.json").read_text()) == way_of_a_cell()
