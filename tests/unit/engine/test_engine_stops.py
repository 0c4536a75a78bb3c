from __future__ import annotations

import pytest

from pytest_sremut import errors
from pytest_sremut.engine.stops import RunStoppedError, outcome_of
from pytest_sremut.study.verdict import Outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (
            RunStoppedError(Outcome.MUTANT_ACTIVATION_FAILURE, "inert"),
            Outcome.MUTANT_ACTIVATION_FAILURE,
        ),
        (errors.ClusterUnavailableError("gone"), Outcome.INFRASTRUCTURE_FAILURE),
        (errors.ClusterError("refused", status=422), Outcome.INFRASTRUCTURE_FAILURE),
        (errors.GuardRefusedError("no"), Outcome.PROTOCOL_VIOLATION),
        (errors.HarnessError("worker died"), Outcome.DRIVER_ABORTED),
        (errors.EvidenceError("disk full"), Outcome.DRIVER_ABORTED),
        (KeyboardInterrupt(), Outcome.DRIVER_ABORTED),
        (ZeroDivisionError(), Outcome.DRIVER_ABORTED),
    ],
)
def test_no_error_is_a_verdict(error: BaseException, outcome: Outcome) -> None:
    assert outcome_of(error) is outcome
    assert outcome_of(error) is not Outcome.COMPLETE
