"""The most throughput for the money (Gavel, OSDI'20), with deadlines where jobs have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from steward.decide.scheduling.time_shares.packing_programs import best_sum
from steward.decide.scheduling.time_shares.problem import TimeShareProblem, TimeShares

__all__ = ["MinCost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MinCost:
    """Maximise steps/s per price of the GPUs; a job with a deadline gets the rate that meets it.

    If the deadlines cannot all be met, none is promised: the program without them is solved.
    GPUs that are not worth their price stay idle.
    """

    aware: ClassVar[bool] = True
    packed: bool = False
    fills_idle: bool = True
    min_recompute_s: float = 1920.0
    name: str = "min-cost"

    def decide(self, problem: TimeShareProblem) -> TimeShares:
        jobs, pairs = best_sum(problem, price=problem.price_per_gpu_h)
        return TimeShares(jobs=jobs, pairs=pairs, memory=problem.memory)
