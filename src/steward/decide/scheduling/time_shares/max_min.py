"""Max-min fairness (Gavel, OSDI'20): the job that gets least gets as much as possible.

What a job gets is its rate times its GPUs, as a part of the rate that an equal share of the
whole cluster's time would give it: least attained service, for clusters of several GPU types.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.scheduling.time_shares.interior_point import (
    CentralOptimum,
    ShareProgram,
    solve_centrally,
)
from steward.decide.scheduling.time_shares.packing_programs import best_level
from steward.decide.scheduling.time_shares.problem import TimeShareProblem, TimeShares

__all__ = ["MaxMin"]

Floats = NDArray[np.float64]
_SATURATED = 1e-4  # a job whose level could rise by less than this part is as high as it can be


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxMin:
    """Raise the lowest level; with `water_filling`, then the next lowest, and so on.

    Unless `aware`, all GPU types count as equally fast. `packed` lets two jobs share GPUs.
    """

    aware: bool = True
    packed: bool = False
    water_filling: bool = False
    fills_idle: bool = True
    min_recompute_s: float = 1920.0
    name: str = "max-min"

    def decide(self, problem: TimeShareProblem) -> TimeShares:
        rate = problem.rate if self.aware else np.ones_like(problem.rate)
        scale = problem.gpus / (problem.weight * _equal_rates(problem, rate))
        if self.packed:
            jobs, pairs = best_level(problem, rate, scale=scale)
        else:
            worth = rate * scale[:, None]
            jobs = _water_filled(problem, worth) if self.water_filling else _even(problem, worth)
            pairs = np.zeros((len(problem.pairs), len(problem.capacity)))
        return TimeShares(jobs=jobs, pairs=pairs, memory=problem.memory)


def _equal_rates(problem: TimeShareProblem, rate: Floats) -> Floats:
    """Return the rate of each job if it spent its time on all types in proportion to their size."""
    equal = (rate * (problem.capacity / problem.capacity.sum())).sum(axis=1)
    return np.where(equal > 0.0, equal, 1.0)


def _even(problem: TimeShareProblem, worth: Floats) -> Floats:
    jobs = len(problem)
    return _highest(problem, worth, rising=np.ones(jobs), held=np.zeros(jobs)).shares


def _highest(
    problem: TimeShareProblem, worth: Floats, *, rising: Floats, held: Floats
) -> CentralOptimum:
    """Raise the level of those who are `rising`; nobody may fall below what is `held`."""
    return solve_centrally(
        ShareProgram(
            gpus=problem.gpus,
            capacity=problem.capacity,
            rate=worth,
            base=held,
            slope=rising,
        )
    )


def _water_filled(problem: TimeShareProblem, worth: Floats) -> Floats:
    """Raise all, hold those who can rise no further, raise the others, until all are held.

    The optimum is central, so a job without slack in it has none in any optimum: bottlenecks are
    found without an integer program.
    """
    rising = np.ones(len(problem))
    held = np.zeros(len(problem))
    while True:
        best = _highest(problem, worth, rising=rising, held=held)
        reached = held + rising * max(best.level, 0.0)
        stuck = (rising > 0.0) & (best.slack <= _SATURATED * np.maximum(reached, 1e-12))
        held = np.where(rising > 0.0, reached * (1.0 - 1e-7), held)
        rising = np.where(stuck, 0.0, rising)
        if not stuck.any() or not rising.any():
            return best.shares
