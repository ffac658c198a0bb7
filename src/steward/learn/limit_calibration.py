"""Limits that hold as often as they promise: how often past run times were beyond them.

A forecast gives for each job where in its distribution it ended (0 to 1). Were forecasts perfect,
that would be uniform; what it really was is learned here, with jobs that still run counted as
beyond where they are, and limits are taken from it. What still misses moves them a little further.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit

__all__ = [
    "LimitCalibration",
    "blank_calibration",
    "curve",
    "learn_limits",
    "learn_place",
    "place_of",
]

Array = NDArray[Any]

_PLACES: Array = np.concatenate(
    (
        [0.0, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.075],
        np.arange(0.1, 0.901, 0.04),
        [0.925, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 0.9975],
    )
)
_BINS = len(_PLACES)
_PSEUDO = 20.0  # jobs: what a perfect forecast counts for
_KEPT = 1.0 - 1.0 / 500.0  # of what is remembered, for each job
_PACE = 0.001
_TAIL = 0.05
_LEAST, _MOST = 0.005, 0.06


class LimitCalibration(NamedTuple):
    """By place in the forecast distribution: how many jobs came there, and ended there."""

    reached: Array
    ended: Array
    tails: Array  # what share is aimed at below the lower limit and above the upper one


def blank_calibration() -> LimitCalibration:
    """Return what is believed before any job has ended: that forecasts are perfect."""
    return LimitCalibration(reached=np.zeros(_BINS), ended=np.zeros(_BINS), tails=np.full(2, _TAIL))


@njit
def _bin(place: float) -> int:
    return int(np.searchsorted(_PLACES, place, side="right") - 1)


@njit
def learn_place(known: LimitCalibration, first: float, last: float, *, ends: bool) -> None:
    """Learn that a job got from one place of its distribution to another, and ended there or not.

    `first` is below 0 for a job of which nothing was learned yet.
    """
    low, high = (_bin(first) if first >= 0.0 else 0), _bin(last)
    for i in range(low, high + int(ends)):
        known.reached[i] = known.reached[i] * _KEPT + 1.0
        known.ended[i] *= _KEPT
    if ends:
        known.ended[high] += 1.0


def learn_limits(known: LimitCalibration, *, below: bool, above: bool) -> None:
    """Move the limits a little after a job that ended below, within or above them."""
    for side, missed in enumerate((below, above)):
        tail = known.tails[side] + _PACE * (_TAIL - float(missed))
        known.tails[side] = min(max(tail, _LEAST), _MOST)


def curve(known: LimitCalibration) -> Array:
    """Return for places in forecast distributions (first row) what share really ended below."""
    even = np.diff(np.append(_PLACES, 1.0)) / (1.0 - _PLACES)
    ends = (known.ended + _PSEUDO * even) / (known.reached + _PSEUDO)
    left = np.cumprod(1.0 - np.minimum(ends, 1.0))
    left[-1] = 0.0  # nothing is left beyond the last place
    return np.stack((np.append(_PLACES, 1.0), np.append(0.0, 1.0 - left)))


def place_of(known: LimitCalibration, ended_below: Array, share: float) -> float:
    """Return the place in a forecast distribution below which a share of run times really is."""
    if share < 0.5:
        share *= known.tails[0] / _TAIL
    elif share > 0.5:
        share = 1.0 - (1.0 - share) * known.tails[1] / _TAIL
    place, below = ended_below  # what `curve` gave, if some jobs ago
    return float(np.interp(share, below, place))
