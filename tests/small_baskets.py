"""Small baskets, and what brute force finds in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import strategies as st

from steward.learn.patterns.baskets import ABSENT, Baskets

Pairs = tuple[tuple[int, int], ...]


def baskets(rows: Sequence[Sequence[int]], **given: Any) -> Baskets:
    """Return baskets of these levels; one run, a window a second, three levels, if not given."""
    levels = np.array(rows, np.uint8).reshape(len(rows), -1 if len(rows) else 3)
    groups = given.pop("groups", tuple(f"g{i}" for i in range(levels.shape[1])))
    run = np.array(given.pop("run", [0] * len(rows)), np.int32)
    many = int(run.max(initial=0)) + 1
    return Baskets(
        groups=groups,
        level_names=given.pop("level_names", (("low", "mid", "high"),) * len(groups)),
        levels=levels,
        runs=given.pop("runs", tuple(f"run-{i}" for i in range(many))),
        run=run,
        start_s=np.array(given.pop("start_s", range(len(rows))), np.float64),
        window_s=given.pop("window_s", 1.0),
        labels=given.pop("labels", ()),
    )


@st.composite
def any_baskets(draw: st.DrawFn, *, most_windows: int = 12, most_groups: int = 4) -> Baskets:
    """Return baskets with one to three levels a group, with and without absent ones."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=most_groups))
    row = st.tuples(*(st.sampled_from([*range(size), ABSENT]) for size in sizes))
    rows = draw(st.lists(row, min_size=1, max_size=most_windows))
    run = sorted(draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))))
    names = tuple(tuple("abc"[:size]) for size in sizes)
    return baskets(rows, run=run, level_names=names)


def windows_with(given: Baskets, itemset: Pairs) -> list[int]:
    """Return the windows that hold all of these (group, level)."""
    return [
        w
        for w in range(len(given))
        if all(given.levels[w, group] == level for group, level in itemset)
    ]


def all_itemsets(given: Baskets) -> Iterator[Pairs]:
    """Yield every itemset that can be: at most one level of each group."""
    items = [(g, lv) for g, names in enumerate(given.level_names) for lv in range(len(names))]
    for many in range(1, len(given.groups) + 1):
        for itemset in combinations(items, many):
            if len({group for group, _ in itemset}) == many:
                yield itemset


def pairs(code: np.ndarray[Any, np.dtype[np.uint8]]) -> Pairs:
    """Return a row of levels as (group, level)."""
    return tuple((g, int(level)) for g, level in enumerate(code) if level != ABSENT)
