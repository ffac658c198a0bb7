"""Gandiva's packing as Gavel's comparisons have it: random pairs, kept while they pay.

The system of the paper (OSDI'18) has no objective: it time-slices, packs two jobs on a GPU, looks
whether throughput grew, and undoes it if not. The stand-in keeps that core and drops migration
and growing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from steward.decide.scheduling.time_shares.problem import TimeShareProblem, TimeShares

__all__ = ["Gandiva"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gandiva:
    """Equal shares. When GPUs are short, jobs of equal size are paired at random.

    A pair stays together while the sum over both jobs and all types of packed over solo rate is
    at least `keep_from`, and both fit.
    """

    keep_from: float = 1.0
    aware: ClassVar[bool] = True
    packed: ClassVar[bool] = True
    fills_idle: bool = True
    min_recompute_s: float = 1920.0
    name: str = "gandiva"

    def decide(self, problem: TimeShareProblem) -> TimeShares:
        row = _pair_rows(problem)
        partner = self._worth_keeping(problem, row)
        if problem.gpus.sum() <= problem.capacity.sum():
            single = np.ones(len(problem), np.bool_)
            together = np.zeros(0, np.int64)
        else:
            partner = _paired_at_random(problem, row, partner)
            single = partner < 0
            first = np.flatnonzero(partner > np.arange(len(problem)))
            together = np.array([row[int(a), int(partner[a])] for a in first], np.int64)
        jobs, pairs = _equal_shares(problem, single, together)
        return TimeShares(jobs=jobs, pairs=pairs, memory=replace(problem.memory, partner=partner))

    def _worth_keeping(self, problem: TimeShareProblem, row: dict[tuple[int, int], int]) -> Ints:
        """Return the partners of those pairs that measure well enough to stay."""
        partner = problem.memory.partner.copy()
        for job in np.flatnonzero(partner >= 0):
            a, b = sorted((int(job), int(partner[job])))
            together = problem.pair_rate[row[a, b]] if (a, b) in row else np.zeros((1, 2))
            alone = problem.rate[[a, b]].T
            fits = bool((together > 0.0).all())
            if not fits or float((together / alone).sum()) < self.keep_from:
                partner[job] = -1
        return partner


def _pair_rows(problem: TimeShareProblem) -> dict[tuple[int, int], int]:
    return {(int(min(a, b)), int(max(a, b))): i for i, (a, b) in enumerate(problem.pairs)}


def _paired_at_random(
    problem: TimeShareProblem, row: dict[tuple[int, int], int], partner: Ints
) -> Ints:
    """Draw two jobs without partner as often as there are such jobs; equal sizes become pairs."""
    alone = [int(job) for job in np.flatnonzero(partner < 0)]
    draws = iter(problem.draws)
    for _ in range(len(alone)):
        if len(alone) < 2:
            break
        one = alone[int(next(draws) * len(alone))]
        others = [job for job in alone if job != one]
        other = others[int(next(draws) * len(others))]
        if (min(one, other), max(one, other)) not in row:
            continue  # of different size, or never measured together
        partner[one], partner[other] = other, one
        alone = [job for job in others if job != other]
    return partner


def _equal_shares(
    problem: TimeShareProblem, single: NDArray[np.bool_], together: Ints
) -> tuple[Floats, Floats]:
    """Split the cluster evenly over the units: single jobs and pairs."""
    types = len(problem.capacity)
    units = int(single.sum()) + len(together)
    jobs, pairs = np.zeros((len(problem), types)), np.zeros((len(problem.pairs), types))
    part = problem.capacity / units
    jobs[single] = part / problem.gpus[single, None]
    pairs[together] = part / problem.gpus[problem.pairs[together, 0], None]
    return _at_most_all(jobs), _at_most_all(pairs)


def _at_most_all(shares: Floats) -> Floats:
    """Scale down the shares of those who would be given more than all their time."""
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0))
