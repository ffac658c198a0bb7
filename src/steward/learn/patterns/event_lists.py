"""What happens in each run, in order: the items that begin, or all that hold, window by window."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from steward.learn.patterns.baskets import ABSENT, Baskets
from steward.learn.patterns.itemsets import Item

__all__ = ["EventLists", "Events", "event_lists", "symbol_lists"]


class Events(Enum):
    """What an event is: a level that begins (its group had another one before), or that holds."""

    CHANGES = "changes"
    LEVELS = "levels"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLists:
    """Moments of runs, ordered by run and time, each with one item or several.

    `moments_from[r]` is the first moment of run r, `items_from[m]` the first item of moment m; both
    have one place more for the end.
    """

    items: tuple[Item, ...]
    moments_from: NDArray[np.int64]
    when_s: NDArray[np.float64]  # per moment
    items_from: NDArray[np.int64]
    item: NDArray[np.int32]  # places in `items`

    @property
    def runs(self) -> int:
        return len(self.moments_from) - 1

    def __len__(self) -> int:
        return len(self.item)


def event_lists(
    baskets: Baskets, events: Events = Events.CHANGES, *, every_moment: bool = False
) -> EventLists:
    """Return the events of all runs; moments without an event are left out unless asked for.

    Windows are put in order of time first, should they not be.
    """
    order = np.lexsort((baskets.start_s, baskets.run))
    levels, run = baskets.levels[order], baskets.run[order]
    happens = levels != ABSENT
    if events is Events.CHANGES:
        happens &= _changed(levels, run)
    window, group = np.nonzero(happens)
    counts = np.bincount(window, minlength=len(baskets))
    moments = np.arange(len(baskets)) if every_moment else np.flatnonzero(counts)
    first_item = _starts(np.array([len(names) for names in baskets.level_names], np.int64))
    run_sizes = np.bincount(run[moments], minlength=len(baskets.runs))
    return EventLists(
        items=tuple(
            Item(group=name, level=level)
            for name, names in zip(baskets.groups, baskets.level_names, strict=True)
            for level in names
        ),
        moments_from=_starts(run_sizes),
        when_s=baskets.start_s[order][moments],
        items_from=_starts(counts[moments]),
        item=(first_item[group] + levels[window, group]).astype(np.int32),
    )


def symbol_lists(sequences: list[NDArray[np.int32]], symbols: int) -> EventLists:
    """Return plain sequences of numbered symbols as event lists, one moment each second."""
    sizes = np.array([len(each) for each in sequences], np.int64)
    every = np.concatenate([np.empty(0, np.int32), *sequences])
    return EventLists(
        items=tuple(Item(group=str(symbol), level="") for symbol in range(symbols)),
        moments_from=_starts(sizes),
        when_s=np.concatenate([np.empty(0), *(np.arange(size) * 1.0 for size in sizes)]),
        items_from=np.arange(len(every) + 1),
        item=every.astype(np.int32),
    )


def _changed(levels: NDArray[np.uint8], run: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return where a level differs from the last known one of the run; the first is no change."""
    changed = np.zeros(levels.shape, np.bool_)
    for group in range(levels.shape[1]):
        known = np.flatnonzero(levels[:, group] != ABSENT)
        before, after = known[:-1], known[1:]
        differs = levels[before, group] != levels[after, group]
        changed[after[differs & (run[before] == run[after])], group] = True
    return changed


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
