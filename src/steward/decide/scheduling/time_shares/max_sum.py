"""The most throughput (Gavel, OSDI'20): steps per second of all jobs together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steward.decide.scheduling.time_shares.interior_point import (
    ShareProgram,
    solve_centrally,
)
from steward.decide.scheduling.time_shares.packing_programs import best_sum
from steward.decide.scheduling.time_shares.problem import TimeShareProblem, TimeShares

__all__ = ["MaxSum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxSum:
    """Give GPUs to whoever makes most steps with them. Fair it is not."""

    aware: bool = True
    packed: bool = False
    fills_idle: bool = True
    min_recompute_s: float = 1920.0
    name: str = "max-sum"

    def decide(self, problem: TimeShareProblem) -> TimeShares:
        rate = problem.rate if self.aware else problem.blind_rate
        if self.packed:
            jobs, pairs = best_sum(problem, price=np.ones_like(problem.capacity))
            return TimeShares(jobs=jobs, pairs=pairs, memory=problem.memory)
        found = solve_centrally(
            ShareProgram(
                gpus=problem.gpus,
                capacity=problem.capacity,
                rate=np.zeros_like(rate),
                base=np.full(len(problem), -1.0),  # no job is owed anything
                gain=rate,
            )
        )
        pairs = np.zeros((len(problem.pairs), len(problem.capacity)))
        return TimeShares(jobs=found.shares, pairs=pairs, memory=problem.memory)
