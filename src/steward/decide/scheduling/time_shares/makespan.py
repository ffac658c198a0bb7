"""The shortest makespan (Gavel, OSDI'20): all jobs that are there now end as early as possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.scheduling.time_shares.interior_point import (
    ShareProgram,
    solve_centrally,
)
from steward.decide.scheduling.time_shares.packing_programs import best_level
from steward.decide.scheduling.time_shares.problem import TimeShareProblem, TimeShares

__all__ = ["Makespan"]

Floats = NDArray[np.float64]
_FIRST_SPAN_S = (100.0, 1_000_000.0)
_TOLERANCE = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Makespan:
    """Find the shortest time in which all can end, to 5 %, and central shares that do it.

    The slack of those 5 % is what keeps the shares of equal jobs equal.
    """

    aware: bool = True
    packed: bool = False
    fills_idle: bool = True
    min_recompute_s: float = 1920.0
    name: str = "makespan"

    def decide(self, problem: TimeShareProblem) -> TimeShares:
        rate = problem.rate if self.aware else problem.blind_rate
        if self.packed:
            parts = _FIRST_SPAN_S[1] / np.maximum(problem.steps_left, 1e-9)
            jobs, pairs = best_level(problem, rate, scale=parts)
        else:
            jobs = _in_time(problem, rate)
            pairs = np.zeros((len(problem.pairs), len(problem.capacity)))
        return TimeShares(jobs=jobs, pairs=pairs, memory=problem.memory)


def _in_time(problem: TimeShareProblem, rate: Floats) -> Floats:
    """Return shares with which every job ends within the span that bisection settles on."""
    alone_s = problem.steps_left / np.maximum(rate.max(axis=1), 1e-12)
    guess_s = max(float(alone_s.max()), float(alone_s @ problem.gpus / problem.capacity.sum()))
    nothing = np.zeros(len(problem))
    fastest = solve_centrally(
        ShareProgram(
            gpus=problem.gpus,
            capacity=problem.capacity,
            rate=rate,
            base=nothing,
            slope=problem.steps_left / guess_s,
        )
    )
    span_s = _bisected(guess_s / max(fastest.level, 1e-9))
    return solve_centrally(
        ShareProgram(
            gpus=problem.gpus,
            capacity=problem.capacity,
            rate=rate,
            base=problem.steps_left / span_s,
        )
    ).shares


def _bisected(shortest_s: float) -> float:
    """Return the end of the bisection that Gavel does, whose answer is up to 5 % too long."""
    low_s, high_s = _FIRST_SPAN_S
    while high_s < shortest_s:
        low_s, high_s = high_s, high_s * 10.0
    while _TOLERANCE * low_s < high_s:
        middle_s = (low_s + high_s) / 2.0
        if middle_s >= shortest_s:
            high_s = middle_s
        else:
            low_s = middle_s
    return high_s
