"""Finish-time fairness as a program (Gavel's form of Themis): nobody ends much later than alone.

A job's ratio is the time from its submission to its forecast end, over the time it would have
taken on its own N-th of the cluster. The largest ratio is made as small as possible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from steward.decide.scheduling.time_shares.interior_point import (
    ShareProgram,
    solve_centrally,
)
from steward.decide.scheduling.time_shares.isolated import isolated_rates, isolated_shares
from steward.decide.scheduling.time_shares.problem import PolicyNotes, TimeShareProblem, TimeShares

__all__ = ["FinishTimeFairness"]

Floats = NDArray[np.float64]
_MAX_PROGRAMS = 30
_SETTLED = 1e-4
_LEEWAY = 1.001  # room for shares that are not at the edge of what is possible


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishTimeFairness:
    """Minimise the largest ratio. The time alone is summed up over the shares it had so far."""

    aware: bool = True
    packed: ClassVar[bool] = False
    fills_idle: bool = True
    min_recompute_s: float = 1920.0
    name: str = "finish-time-fairness"

    def decide(self, problem: TimeShareProblem) -> TimeShares:
        rate = problem.rate if self.aware else problem.blind_rate
        memory = remember_isolated(problem, rate)
        left_s = problem.steps_left / np.maximum(memory.isolated_rate, 1e-12)
        alone_s = np.maximum(memory.isolated_s + left_s, 1e-9)
        ratio = _least_ratio(problem, rate, alone_s) * _LEEWAY
        shares = _shares_at(problem, rate, alone_s, ratio)
        pairs = np.zeros((len(problem.pairs), len(problem.capacity)))
        return TimeShares(jobs=shares, pairs=pairs, memory=memory)


def remember_isolated(problem: TimeShareProblem, rate: Floats) -> PolicyNotes:
    """Add the time that the steps since the last decision would have taken alone."""
    last = problem.memory
    known = ~np.isnan(last.steps_left)
    done = np.where(known, last.steps_left - problem.steps_left, 0.0)
    spent_s = np.where(known, done / np.maximum(last.isolated_rate, 1e-12), 0.0)
    return replace(
        last,
        isolated_s=last.isolated_s + spent_s,
        isolated_rate=isolated_rates(problem, rate),
        steps_left=problem.steps_left.copy(),
    )


def _least_ratio(problem: TimeShareProblem, rate: Floats, alone_s: Floats) -> float:
    """Return the smallest ratio that all can have, by Newton's method.

    How much too fast the jobs would have to be for a ratio is convex in it, and a program's
    prices are its slope: a handful of programs is enough.
    """
    waited = problem.elapsed_s / alone_s
    lowest = float(waited.max())
    ratio = _ratio(problem, rate, isolated_shares(problem), alone_s)
    for _ in range(_MAX_PROGRAMS):
        needed = problem.steps_left / alone_s / (ratio - waited)
        found = solve_centrally(
            ShareProgram(
                gpus=problem.gpus,
                capacity=problem.capacity,
                rate=rate,
                base=np.zeros(len(problem)),
                slope=needed,
            )
        )
        fall = float(found.price @ (needed / (ratio - waited)))
        better = max(ratio + (1.0 - found.level) / max(fall, 1e-12), (ratio + lowest) / 2.0)
        moved, ratio = abs(better / ratio - 1.0), better
        if moved < _SETTLED:
            break
    return ratio


def _shares_at(problem: TimeShareProblem, rate: Floats, alone_s: Floats, ratio: float) -> Floats:
    """Return central shares with which no job's ratio is above this one."""
    found = solve_centrally(
        ShareProgram(
            gpus=problem.gpus,
            capacity=problem.capacity,
            rate=rate,
            base=problem.steps_left / (ratio * alone_s - problem.elapsed_s),
        )
    )
    return found.shares if found.converged else isolated_shares(problem)


def _ratio(problem: TimeShareProblem, rate: Floats, shares: Floats, alone_s: Floats) -> float:
    """Return the worst ratio that these shares lead to."""
    speed = np.maximum((rate * shares).sum(axis=1), 1e-12)
    return float(((problem.elapsed_s + problem.steps_left / speed) / alone_s).max())
