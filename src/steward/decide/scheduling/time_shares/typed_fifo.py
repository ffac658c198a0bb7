"""First come, first served over several GPU types (the FIFO of Gavel's comparisons)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from steward.decide.scheduling.time_shares.problem import TimeShareProblem, TimeShares

__all__ = ["TypedFifo"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedFifo:
    """In order of arrival, each job takes a type that has room; the first that finds none blocks.

    Unless `aware`, the type is drawn at random and kept for good; if `aware`, the fastest free
    type is taken, and types are given anew whenever somebody comes or goes.
    """

    aware: bool = True
    packed: ClassVar[bool] = False
    fills_idle: bool = False
    min_recompute_s: float = 1920.0
    name: str = "typed-fifo"

    def decide(self, problem: TimeShareProblem) -> TimeShares:
        jobs, types = problem.rate.shape
        held = np.full(jobs, -1) if self.aware else problem.memory.held_type.copy()
        free = problem.capacity.copy()
        for job in np.flatnonzero(held >= 0):
            free[held[job]] -= problem.gpus[job]
        draws = iter(problem.draws)
        for job in np.flatnonzero(held < 0):
            room = free >= problem.gpus[job]
            if not room.any():
                break
            fits = np.flatnonzero(room & (problem.rate[job] > 0.0))
            if not len(fits):
                continue  # there is room, only not of a kind it can run on: it holds up nobody
            if self.aware:
                kind = int(fits[np.argmax(problem.rate[job, fits])])
            else:
                kind = int(fits[int(next(draws) * len(fits))])
            held[job] = kind
            free[kind] -= problem.gpus[job]
        shares = np.zeros((jobs, types))
        given = np.flatnonzero(held >= 0)
        shares[given, held[given]] = 1.0
        memory = replace(problem.memory, held_type=held)
        return TimeShares(jobs=shares, pairs=np.zeros((len(problem.pairs), types)), memory=memory)
