"""What changes with the size of the windows: how many there are, and whether levels agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.learn.patterns.baskets import ABSENT, Baskets

__all__ = ["GroupStability", "WindowSize", "compare_sizes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStability:
    """One group at one window size. `agreement` is NaN where nothing can be compared."""

    shares: Mapping[str, float]  # level: of the windows with a value
    absent_share: float
    changes_per_minute: float
    agreement: float  # share of time with the level that the first window size gives


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSize:
    """Baskets of one window size, beside those of the first."""

    window_s: float
    windows: int
    runs: int
    distinct: int  # different baskets
    agreement: float  # mean over groups
    groups: Mapping[str, GroupStability]


def compare_sizes(first: Baskets, others: Sequence[Baskets]) -> tuple[WindowSize, ...]:
    """Return one row per window size, the first one's first."""
    return tuple(_row(first, each) for each in (first, *others))


def _row(first: Baskets, baskets: Baskets) -> WindowSize:
    pairs = _at_the_same_time(first, baskets)
    groups = {
        group: _group(first, baskets, place, pairs) for place, group in enumerate(baskets.groups)
    }
    agreements = [each.agreement for each in groups.values() if not np.isnan(each.agreement)]
    distinct = len(np.unique(np.ascontiguousarray(baskets.levels), axis=0)) if len(baskets) else 0
    return WindowSize(
        window_s=baskets.window_s,
        windows=len(baskets),
        runs=len(np.unique(baskets.run)),
        distinct=distinct,
        agreement=float(np.mean(agreements)) if agreements else float("nan"),
        groups=groups,
    )


def _group(
    first: Baskets,
    baskets: Baskets,
    place: int,
    pairs: tuple[NDArray[np.intp], NDArray[np.intp]],
) -> GroupStability:
    names, levels = baskets.level_names[place], baskets.levels[:, place]
    known = levels != ABSENT
    counts = np.bincount(levels[known], minlength=len(names))
    total = max(1, int(counts.sum()))
    return GroupStability(
        shares={name: float(counts[i] / total) for i, name in enumerate(names)},
        absent_share=float(1 - known.mean()) if len(known) else 0.0,
        changes_per_minute=_changes(baskets, levels),
        agreement=_agreement(first, baskets, place, pairs),
    )


def _changes(baskets: Baskets, levels: NDArray[np.uint8]) -> float:
    known = (levels[1:] != ABSENT) & (levels[:-1] != ABSENT)
    together = known & (np.diff(baskets.run) == 0)
    changed = together & (levels[1:] != levels[:-1])
    minutes = together.sum() * baskets.window_s / 60.0
    return float(changed.sum() / minutes) if minutes else 0.0


def _at_the_same_time(one: Baskets, other: Baskets) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return places of windows of both that lie in each other: the smaller are in the larger."""
    small, large = (one, other) if one.window_s <= other.window_s else (other, one)
    places = {name: place for place, name in enumerate(large.runs)}
    run = np.array([places.get(name, -1) for name in small.runs], np.int64)[small.run]
    begin = min((small.start_s.min(), large.start_s.min())) if len(small) and len(large) else 0.0
    ends = [each.start_s.max() + each.window_s for each in (small, large) if len(each)]
    span = (max(ends, default=1.0) - begin) * 2.0
    middle = small.start_s + small.window_s / 2
    at = np.searchsorted(large.run * span + (large.start_s - begin), run * span + middle - begin)
    at = at - 1
    inside = (run >= 0) & (at >= 0)
    rows = np.flatnonzero(inside)
    at = at[inside]
    late = middle[rows] - large.start_s[at]
    fits = (large.run[at] == run[rows]) & (late >= 0) & (late < large.window_s)
    rows, at = rows[fits], at[fits]
    return (rows, at) if small is one else (at, rows)


def _agreement(
    first: Baskets,
    baskets: Baskets,
    place: int,
    pairs: tuple[NDArray[np.intp], NDArray[np.intp]],
) -> float:
    group = baskets.groups[place]
    if group not in first.groups:
        return float("nan")
    there = first.groups.index(group)
    names = {name: i for i, name in enumerate(first.level_names[there])}
    mine = np.array([names.get(n, 254) for n in baskets.level_names[place]] + [ABSENT], np.uint8)
    theirs = first.levels[pairs[0], there]
    levels = baskets.levels[pairs[1], place]
    ours = mine[np.where(levels == ABSENT, len(mine) - 1, levels)]
    known = (theirs != ABSENT) & (ours != ABSENT)
    return float((theirs[known] == ours[known]).mean()) if known.any() else float("nan")
