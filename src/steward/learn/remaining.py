"""What is left of jobs that have run for some time, from their chances of lasting."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.learn.survival import EDGES_S, LEVELS, level_at, run_time_s, share_ended

__all__ = ["Remaining", "mean_run_time_s", "remaining_of"]

Array = NDArray[Any]


class Remaining(NamedTuple):
    """One row per job. Ranks and typical times change from level to level only."""

    low_s: Array  # left, in one of ten cases less
    mid_s: Array
    high_s: Array
    rank_s: Array  # least expected run time for each end, over all horizons: smaller goes first
    typical_s: Array  # median left from the level that it last reached


def remaining_of(left: Array, ran_s: Array, curve: Array) -> Remaining:
    """Return what is left of jobs; `left` has their chances of lasting, one row each.

    `curve` says what share of jobs really ended below each place of their distribution.
    """
    found = Remaining(*np.empty((5, len(left))))
    _fill(np.ascontiguousarray(left), ran_s.astype(np.float64), curve[0], curve[1], *found)
    return found


@njit
def _fill(  # noqa: PLR0913, PLR0917 - compiled: one argument for each array
    left: Array,
    ran_s: Array,
    place: Array,
    below: Array,
    low_s: Array,
    mid_s: Array,
    high_s: Array,
    rank_s: Array,
    typical_s: Array,
) -> None:
    for i in range(len(left)):
        # what was forecast says how far it is; what really ended there, how much is left
        gone = np.interp(share_ended(left[i], ran_s[i]), place, below)
        for share, out in ((0.1, low_s), (0.5, mid_s), (0.9, high_s)):
            at = np.interp(gone + (1.0 - gone) * share, below, place)
            out[i] = max(run_time_s(left[i], min(at, 1.0 - 1e-9)) - ran_s[i], 0.0)
        level = level_at(ran_s[i] * (1.0 + 1e-9) + 1e-6)  # rounding must not hide it
        rank_s[i] = _rank(left[i], level)
        half = 1.0 - 0.5 * left[i, level]
        typical_s[i] = max(run_time_s(left[i], min(half, 1.0 - 1e-9)) - EDGES_S[level], 0.0)


@njit
def _rank(left: Array, level: int) -> float:
    """Return the inverse of the Gittins index of a job that has reached a level."""
    now, spent, best = max(left[level], 1e-300), 0.0, np.inf
    for k in range(level, LEVELS):
        low = EDGES_S[k]
        high = EDGES_S[k + 1] if k + 1 < LEVELS else 2.0 * low
        after = left[k + 1] if k + 1 < LEVELS else 0.0
        spent += 0.5 * (left[k] + after) * (high - low)
        ended = now - after
        if ended > 0.0 and spent / ended < best:
            best = spent / ended
    return float(best)


@njit
def mean_run_time_s(left: Array) -> float:
    """Return the mean run time of a job that has not begun."""
    mean = 0.0
    for k in range(LEVELS):
        high = EDGES_S[k + 1] if k + 1 < LEVELS else 2.0 * EDGES_S[k]
        after = left[k + 1] if k + 1 < LEVELS else 0.0
        mean += 0.5 * (left[k] + after) * (high - EDGES_S[k])
    return float(mean)
