"""Problems by name."""

from minibench.harness.problems.gone_service import GoneService

PROBLEMS = {"gone_service": GoneService}
