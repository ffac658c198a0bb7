"""Motifs: stretches of windows that come back nearly the same, by an exact matrix profile.

The distance of two stretches is the number of their cells (a window and a group) that differ. Every
stretch is compared with every other one that does not overlap it, diagonal by diagonal, where the
distance of the next pair follows from the last in one step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.errors import StewardError
from steward.learn.patterns.baskets import Baskets

__all__ = ["Motif", "Motifs", "find_motifs"]

_MOST_WINDOWS = 12_000  # compared with each other: 72 million pairs
_FAR = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Motif:
    """A stretch and where it comes back: the window of each beginning, and its distance."""

    first: int
    places: tuple[int, ...]
    distances: tuple[int, ...]  # cells that differ from the first


@dataclass(frozen=True, slots=True, kw_only=True)
class Motifs:
    """The motifs of some runs, the closest first; `windows_left_out` were not compared."""

    length: int
    cells: int  # of a stretch
    windows: int
    windows_left_out: int
    found: tuple[Motif, ...]


def find_motifs(baskets: Baskets, length: int, *, most: int = 5, radius: float = 0.1) -> Motifs:
    """Return the motifs of so many windows; in all occurrences `radius` of the cells may differ.

    Stretches in which nothing changes are no motif. Beyond 12,000 windows whole runs are left out,
    the later ones first.
    """
    if not 2 <= length <= 1_000:
        problem = f"a motif of {length} windows is not possible"
        raise StewardError(problem, where="motifs", hint="2 to 1,000 windows")
    kept = min(len(baskets), _MOST_WINDOWS)
    while 0 < kept < len(baskets) and baskets.run[kept - 1] == baskets.run[kept]:
        kept -= 1
    kept = kept or min(len(baskets), _MOST_WINDOWS)
    levels, run = np.ascontiguousarray(baskets.levels[:kept]), baskets.run[:kept]
    cells = length * len(baskets.groups)
    starts = _beginnings(levels, run, length)
    profile = np.full(kept, _FAR, np.int64)
    if starts.any():
        _profile(levels, starts, length, profile)
    found: list[Motif] = []
    free = starts.copy()
    allowed = int(radius * cells)
    while len(found) < most:
        nearest = np.where(free, profile, _FAR)
        if not len(nearest) or nearest.min() > allowed:
            break
        motif = _occurrences(levels, free, int(nearest.argmin()), length, allowed)
        for place in (motif.first, *motif.places):
            free[max(0, place - length + 1) : place + length] = False
        if motif.places:
            found.append(motif)
    return Motifs(
        length=length,
        cells=cells,
        windows=kept,
        windows_left_out=len(baskets) - kept,
        found=tuple(found),
    )


def _beginnings(
    levels: NDArray[np.uint8], run: NDArray[np.int32], length: int
) -> NDArray[np.bool_]:
    """Return where a stretch may begin: inside one run, and with a change in it."""
    starts = np.zeros(len(levels), np.bool_)
    last = len(levels) - length + 1
    if last <= 0:
        return starts
    changes = np.concatenate(([0], np.cumsum((levels[1:] != levels[:-1]).any(axis=1))))
    starts[:last] = (run[:last] == run[length - 1 :]) & (changes[length - 1 :] > changes[:last])
    return starts


def _occurrences(
    levels: NDArray[np.uint8], free: NDArray[np.bool_], first: int, length: int, allowed: int
) -> Motif:
    """Return where else the stretch occurs, the nearest first, without overlap."""
    spans = np.lib.stride_tricks.sliding_window_view(levels, length, axis=0)  # places, groups, time
    distance = np.count_nonzero(spans != spans[first], axis=(1, 2))
    distance = np.where(free[: len(distance)], distance, _FAR)
    distance[max(0, first - length + 1) : first + length] = _FAR
    places, distances = [], []
    while distance.min() <= allowed:
        place = int(distance.argmin())
        places.append(place)
        distances.append(int(distance[place]))
        distance[max(0, place - length + 1) : place + length] = _FAR
    return Motif(first=first, places=tuple(places), distances=tuple(distances))


@njit
def _profile(
    levels: NDArray[np.uint8],
    starts: NDArray[np.bool_],
    length: int,
    profile: NDArray[np.int64],
) -> None:
    """Write the distance to the nearest stretch elsewhere into `profile`."""
    windows, groups = levels.shape
    differs = np.empty(windows, np.int32)
    for lag in range(length, windows - length + 1):
        total = 0
        for i in range(windows - lag):
            different = 0
            for group in range(groups):
                different += levels[i, group] != levels[i + lag, group]
            differs[i] = different
            total += different
            if i >= length:
                total -= differs[i - length]
            begin = i - length + 1
            if begin >= 0 and starts[begin] and starts[begin + lag]:
                profile[begin] = min(profile[begin], total)
                profile[begin + lag] = min(profile[begin + lag], total)
