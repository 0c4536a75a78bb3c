"""Runs problems. Needs a library that nobody who only reads oracles has."""

import minibench_campaign_library

from minibench.harness.problems.registry import PROBLEMS


class Campaign:
    """All problems, in order."""

    library = minibench_campaign_library.VERSION

    def problems(self):
        return sorted(PROBLEMS)
