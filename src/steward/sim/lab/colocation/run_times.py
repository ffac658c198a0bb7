"""Run times of similar jobs that have ended, as an estimate for a new one."""

from __future__ import annotations

from steward.model.trace import Trace
from steward.sim.lab.rigid.replay import similar

__all__ = ["MeanRunTimes"]

_BEFORE_ANY_S = 3600.0  # expected while no job has ended
_STRENGTH = 10.0  # a class needs so many jobs of its own to outweigh the one above it


class MeanRunTimes:
    """Mean run times by class: all jobs, one size, one tenant, one user and model.

    A class that has seen little leans on the one above it. Only jobs that have ended count.
    """

    def __init__(self, trace: Trace) -> None:
        parent, leaf = similar(trace)
        self._parent: list[int] = parent.tolist()
        self._leaf: list[int] = leaf.tolist()
        self._total_s = [0.0] * len(self._parent)
        self._ended = [0] * len(self._parent)

    def expected_s(self, job: int) -> float:
        """Return how long the job will take alone, as estimated now."""
        chain = []
        at = self._leaf[job]
        while at >= 0:
            chain.append(at)
            at = self._parent[at]
        expected = _BEFORE_ANY_S
        for at in reversed(chain):
            seen = self._ended[at]
            if seen:
                expected = (self._total_s[at] + _STRENGTH * expected) / (seen + _STRENGTH)
        return expected

    def remember(self, job: int, run_s: float) -> None:
        """Count a job that has ended after so much work."""
        at = self._leaf[job]
        while at >= 0:
            self._total_s[at] += run_s
            self._ended[at] += 1
            at = self._parent[at]
