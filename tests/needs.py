"""What a machine may lack. A test that needs it is skipped with the reason, or fails if required.

    @needs.program("openssl")
    def test_the_other_program_agrees() -> None: ...

Rules kept here:

* ``SREMUT_REQUIRE_<NAME>=1`` says that the machine has it: what would be skipped fails then. So a
  hole in the tests cannot hide in a skip. The name is in capitals, as in ``SREMUT_REQUIRE_NFT``;
* ``SREMUT_REQUIRE_ALL=1`` says the same of every skip whose reason is not in `ELSEWHERE`: what
  those need, no machine of CI has.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import NoReturn

import pytest

__all__ = ["ELSEWHERE", "MARK", "is_required", "lacking", "located", "program", "unexcused"]

MARK = "needs_program"
# Where the product looks as well: a user's PATH has no administrators' programs.
_PLACES = {"nft": "/usr/sbin:/sbin"}

ELSEWHERE = re.compile(
    r"SREMUT_\w+ names no |SREMUT_SLOW=1 runs it"
    # Recordings of a real cluster and of real authorities, too large for this repository.
    r"|the (recordings|golden corpus|recorded \w+|shared tokens|published \w+) (is|are) not "
    r"(here|beside this)"
    # Clients come from registries; `.ci/run` prints how many were there.
    r"|is not here: see \.ci/clients|no node on this machine"
    # Other interpreters: `.ci/run` says which it tests.
    r"|no Python 3\.\d+ here"
    # Which of two things a test is about is seen only when it runs.
    r"|the API defaults completions|the published pin is "
)
"""Reasons of skips that even a machine with every program has."""


def is_required(name: str) -> bool:
    """Whether this machine is said to have it."""
    return os.environ.get(f"SREMUT_REQUIRE_{name.upper()}") == "1"


def lacking(name: str, reason: str) -> NoReturn:
    """Skip the test for want of `name`; fail it where that is required."""
    if is_required(name):
        pytest.fail(f"{name} is required: {reason}", pytrace=False)
    pytest.skip(reason)


def located(name: str) -> str:
    """The path of a program; without it the test is skipped or fails."""
    found = shutil.which(name) or shutil.which(name, path=_PLACES.get(name, ""))
    if found is None:
        lacking(name, f"{name} is not on this machine")
    return found


def program(*names: str) -> pytest.MarkDecorator:
    """Mark tests that need programs; `tests/conftest.py` looks for them before each."""
    return getattr(pytest.mark, MARK)(*names)


def unexcused(reason: str) -> bool:
    """Whether a skip is a failure, for all that a test may need is said to be here."""
    return is_required("all") and ELSEWHERE.search(reason) is None
