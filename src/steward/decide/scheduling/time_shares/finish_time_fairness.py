"""Finish-time fairness as a program (Gavel's form of Themis): nobody ends much later than alone.

A job's ratio is the time from its submission to its forecast end, over the time it would have
taken on its own N-th of the cluster. The largest ratio is made as small as possible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steward.decide.scheduling.time_shares.isolated import isolated_rates, isolated_shares
from steward.decide.scheduling.time_shares.problem import Memory, TimeShareProblem, TimeShares
from steward.decide.scheduling.time_shares.programs.central import (
    ShareProgram,
    solve_centrally,
)

__all__ = ["FinishTimeFairness"]

Floats = NDArray[np.float64]
_MAX_PROGRAMS = 30
_SETTLED = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishTimeFairness:
    """Minimise the largest ratio. The time alone is summed up over the shares it had so far."""

    aware: bool = True
    packed: bool = False
    fills_idle: bool = True
    min_recompute_s: float = 1920.0
    name: str = "finish-time-fairness"

    def decide(self, problem: TimeShareProblem) -> TimeShares:
        rate = problem.rate if self.aware else problem.blind_rate
        memory = remember_isolated(problem, rate)
        left_s = problem.steps_left / np.maximum(memory.isolated_rate, 1e-12)
        alone_s = np.maximum(memory.isolated_s + left_s, 1e-9)
        shares = _least_ratio(problem, rate, alone_s)
        pairs = np.zeros((len(problem.pairs), len(problem.capacity)))
        return TimeShares(jobs=shares, pairs=pairs, memory=memory)


def remember_isolated(problem: TimeShareProblem, rate: Floats) -> Memory:
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


def _least_ratio(problem: TimeShareProblem, rate: Floats, alone_s: Floats) -> Floats:
    """Come down from the ratio of isolated shares; each program's optimum proves a lower one."""
    shares = isolated_shares(problem)
    ratio = _ratio(problem, rate, shares, alone_s)
    for _ in range(_MAX_PROGRAMS):
        needed = problem.steps_left / (ratio * alone_s - problem.elapsed_s)
        found = solve_centrally(
            ShareProgram(
                gpus=problem.gpus,
                capacity=problem.capacity,
                rate=rate,
                base=np.zeros(len(problem)),
                slope=needed,
            )
        )
        lower = _ratio(problem, rate, found.shares, alone_s)
        if not found.converged or not lower < ratio:
            break
        shares, gained, ratio = found.shares, 1.0 - lower / ratio, lower
        if gained < _SETTLED:
            break
    return shares


def _ratio(problem: TimeShareProblem, rate: Floats, shares: Floats, alone_s: Floats) -> float:
    """Return the worst ratio that these shares lead to."""
    speed = np.maximum((rate * shares).sum(axis=1), 1e-12)
    return float(((problem.elapsed_s + problem.steps_left / speed) / alone_s).max())
