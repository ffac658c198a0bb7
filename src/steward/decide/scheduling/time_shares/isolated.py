"""Every job has its own part of the cluster, whatever the others do. The yardstick of fairness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from steward.decide.scheduling.time_shares.problem import TimeShareProblem, TimeShares

__all__ = ["Isolated", "isolated_rates", "isolated_shares"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolated:
    """One N-th of every GPU type for each of N jobs; who needs less than that leaves the rest."""

    name: str = "isolated"
    aware: ClassVar[bool] = False
    packed: ClassVar[bool] = False
    fills_idle: bool = True
    min_recompute_s: float = 1920.0

    def decide(self, problem: TimeShareProblem) -> TimeShares:
        return TimeShares(
            jobs=isolated_shares(problem),
            pairs=np.zeros((len(problem.pairs), len(problem.capacity))),
            memory=problem.memory,
        )


def isolated_shares(problem: TimeShareProblem) -> Floats:
    """Return each job's share of each type when all have equal parts of the cluster."""
    parts = (problem.capacity / len(problem))[None, :] / problem.gpus[:, None]
    return np.asarray(parts / np.maximum(parts.sum(axis=1, keepdims=True), 1.0))


def isolated_rates(problem: TimeShareProblem, rate: Floats) -> Floats:
    """Return the steps/s each job would have on its own part."""
    return np.asarray((isolated_shares(problem) * rate).sum(axis=1))
