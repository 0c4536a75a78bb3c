"""What a run may be called: a table over every combination, and who knows the word at all."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

import pytest_sremut
from pytest_sremut.evidence.seal.anchor import AnchorState
from pytest_sremut.evidence.seal.standing import Standing, claim_refusals, label, weakest
from pytest_sremut.study.verdict import Registration

EVERYTHING = Standing(
    regime=Registration.SEALED,
    registration=AnchorState.INDEPENDENT,
    sealed=True,
    complete=True,
    guards_held=True,
    anchor=AnchorState.INDEPENDENT,
    closed=True,
)
WORD = "OFFICIAL_FROZEN_ATTEMPT"
STATES = (*AnchorState, None)


def test_everything_together_may_be_claimed() -> None:
    assert claim_refusals(EVERYTHING) == ()
    assert label(EVERYTHING) == WORD


@pytest.mark.parametrize(
    ("lacking", "told"),
    [
        ({"regime": Registration.EXPLORATORY}, "EXPLORATORY"),
        ({"regime": Registration.PREREGISTERED}, "PREREGISTERED"),
        ({"registration": AnchorState.SELF_ISSUED}, "SEALED [registration self-issued]"),
        ({"registration": AnchorState.UNANCHORED}, "SEALED [registration not verified]"),
        ({"registration": None}, "SEALED [registration not verified]"),
        ({"sealed": False}, "SEALED [no seal that holds]"),
        ({"complete": False}, "SEALED [partial]"),
        ({"guards_held": False}, "SEALED [not every guard held]"),
        ({"anchor": AnchorState.SELF_ISSUED}, "SEALED [anchor self-issued]"),
        ({"anchor": AnchorState.UNANCHORED}, "SEALED [unanchored]"),
        ({"anchor": None}, "SEALED [anchor not verified]"),
        ({"closed": False}, "SEALED [session not closed]"),
    ],
)
def test_anything_that_lacks_is_said_and_refuses_the_claim(
    lacking: dict[str, object], told: str
) -> None:
    standing = replace(EVERYTHING, **lacking)
    assert label(standing) == told
    assert claim_refusals(standing)


def test_of_all_combinations_exactly_one_may_be_claimed() -> None:
    booleans = (False, True)
    claimed = []
    for values in itertools.product(
        Registration, STATES, booleans, booleans, booleans, STATES, booleans
    ):
        names = (
            "regime",
            "registration",
            "sealed",
            "complete",
            "guards_held",
            "anchor",
            "closed",
        )
        standing = Standing(**dict(zip(names, values, strict=True)))
        text = label(standing)
        if "official" in text.lower():
            claimed.append(standing)
        else:
            assert text == standing.regime.value or text.startswith("SEALED [")
    assert claimed == [EVERYTHING]


def test_nothing_known_is_nothing_claimed() -> None:
    assert label(Standing(regime=Registration.SEALED)) == (
        "SEALED [registration not verified; no seal that holds]"
    )


def test_several_together_are_as_weak_as_the_weakest() -> None:
    unanchored = replace(EVERYTHING, anchor=AnchorState.UNANCHORED)
    own = replace(EVERYTHING, registration=AnchorState.SELF_ISSUED, guards_held=False)
    both = weakest([EVERYTHING, unanchored, own])
    assert both == replace(
        EVERYTHING,
        registration=AnchorState.SELF_ISSUED,
        anchor=AnchorState.UNANCHORED,
        guards_held=False,
    )
    assert weakest([]) is None
    mixed = weakest([EVERYTHING, replace(EVERYTHING, regime=Registration.PREREGISTERED)])
    assert mixed is not None
    assert label(mixed) == "EXPLORATORY"


def test_no_other_module_knows_the_word() -> None:
    package = Path(pytest_sremut.__file__).parent
    knowing = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*")
        if file.suffix in {".py", ".json", ".j2", ".html"}
        and WORD in file.read_text(encoding="utf-8")
    }
    assert knowing == {"evidence/seal/standing.py"}
