"""Frequent itemsets of baskets: all, the closed ones, the maximal ones.

Counts are exact integers. An itemset is a row of levels, one for each group, `ABSENT` where it has
no item of the group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from steward.batch import Batch, Workers, run_batch
from steward.errors import StewardError
from steward.learn.patterns.baskets import ABSENT, Baskets
from steward.learn.patterns.cube import Cube, add_cubes, count_cube, cube_cells
from steward.learn.patterns.distinct_rows import DistinctRows, add_rows, count_rows

__all__ = [
    "Item",
    "ItemCounts",
    "Itemsets",
    "Kind",
    "add_counts",
    "baskets_of",
    "count_items",
    "count_parts",
    "exact_share",
    "frequent_bounded",
    "frequent_itemsets",
    "items_of",
    "least_count",
    "selected",
]

ItemCounts = Cube | DistinctRows
_MOST_BYTES = 512 * 2**20  # of a cube: 13 groups of 3 levels take 268 MB
_FEW_CELLS = 2**22  # 10 ms; with more, the cells must not be far more than the windows
_CELLS_PER_WINDOW = 64
_MOST_READ = 50_000  # where nobody says how frequent: more take minutes to test, and fill no page


class Kind(Enum):
    """Which of the frequent itemsets: closed have no equally frequent superset, maximal none."""

    ALL = "all"
    CLOSED = "closed"
    MAXIMAL = "maximal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One level of one group."""

    group: str
    level: str

    def __str__(self) -> str:
        return f"{self.group}={self.level}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Itemsets:
    """Itemsets as rows, the most frequent first, and how many windows hold each."""

    groups: tuple[str, ...]
    level_names: tuple[tuple[str, ...], ...]
    windows: int
    codes: NDArray[np.uint8]  # itemsets x groups
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Return how many items each has."""
        return np.asarray(np.count_nonzero(self.codes != ABSENT, axis=1), np.int64)

    def items(self, row: int) -> tuple[Item, ...]:
        """Return the items of one itemset, in the order of the groups."""
        return items_of(self.codes[row], self.groups, self.level_names)

    def places_of(self, codes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the row of each itemset, -1 where it is none of these."""
        if not len(self):
            return np.full(len(codes), -1, np.int64)
        mine, wanted = _words(self.codes), _words(codes)
        order = np.argsort(mine)
        place = order[np.minimum(np.searchsorted(mine, wanted, sorter=order), len(mine) - 1)]
        return np.where(mine[place] == wanted, place, -1)

    def taken(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Itemsets:
        """Return some of them."""
        return Itemsets(
            groups=self.groups,
            level_names=self.level_names,
            windows=self.windows,
            codes=self.codes[rows],
            counts=self.counts[rows],
        )


def items_of(
    code: NDArray[np.uint8], groups: tuple[str, ...], level_names: tuple[tuple[str, ...], ...]
) -> tuple[Item, ...]:
    """Return the items of a row of levels."""
    return tuple(
        Item(group=groups[g], level=level_names[g][code[g]])
        for g in range(len(groups))
        if code[g] != ABSENT
    )


def exact_share(share: float) -> Fraction:
    """Return the share as it is written: 0.8 is 4/5, whatever its nearest binary number.

    >>> exact_share(0.8)
    Fraction(4, 5)
    """
    if not 0 < share <= 1:
        problem = f"a share of {share} is not between 0 and 1"
        raise StewardError(problem, hint="0.01 is one window in a hundred")
    return Fraction(repr(share))


def least_count(share: float, windows: int) -> int:
    """Return the smallest whole number that is at least this share.

    >>> least_count(0.01, 150)
    2
    """
    exact = exact_share(share)
    return max(1, -(-exact.numerator * windows // exact.denominator))


def count_items(baskets: Baskets, *, most_bytes: int = _MOST_BYTES) -> ItemCounts:
    """Return what holds the count of every itemset: a cube, or distinct rows where it is too big.

    A cube is also left out where its cells would be far more than there are windows.
    """
    cells = cube_cells(tuple(len(names) for names in baskets.level_names))
    if _suits_cube(cells, len(baskets), most_bytes):
        return count_cube(baskets)
    return count_rows(baskets)


def _suits_cube(cells: int, windows: int, most_bytes: int) -> bool:
    if cells * 4 > most_bytes:
        return False
    return cells <= max(_FEW_CELLS, windows * _CELLS_PER_WINDOW)


def add_counts(one: ItemCounts, other: ItemCounts) -> ItemCounts:
    """Return the counts of the windows of both; the answer does not depend on the parts."""
    if isinstance(one, Cube) and isinstance(other, Cube):
        return add_cubes(one, other)
    if isinstance(one, DistinctRows) and isinstance(other, DistinctRows):
        return add_rows(one, other)
    problem = "a cube and distinct rows do not add up"
    raise StewardError(problem, where="baskets", hint="count all parts in the same way")


def count_parts(
    baskets: Baskets, parts: int, *, workers: Workers | None = None, most_bytes: int = _MOST_BYTES
) -> ItemCounts:
    """Count so many parts apart, wherever `workers` are, and add them up."""
    cells = cube_cells(tuple(len(names) for names in baskets.level_names))
    cubes = _suits_cube(cells, len(baskets), most_bytes)
    batch = Batch(
        partition=partial(_row_ranges, parts=parts),
        map=_count_cube_part if cubes else _count_rows_part,
        merge=add_counts,
        finish=_unchanged,
    )
    return run_batch(batch, baskets, workers)


def _row_ranges(baskets: Baskets, parts: int) -> list[tuple[int, int]]:
    cuts = np.linspace(0, len(baskets), max(1, parts) + 1).astype(int).tolist()
    return list(pairwise(cuts))


def _count_cube_part(baskets: Baskets, part: tuple[int, int]) -> ItemCounts:
    return count_cube(baskets_of(baskets, slice(*part)))


def _count_rows_part(baskets: Baskets, part: tuple[int, int]) -> ItemCounts:
    return count_rows(baskets_of(baskets, slice(*part)))


def _unchanged(counts: ItemCounts) -> ItemCounts:
    return counts


def baskets_of(baskets: Baskets, rows: slice | NDArray[np.bool_]) -> Baskets:
    """Return some of the windows."""
    return replace(
        baskets,
        levels=baskets.levels[rows],
        run=baskets.run[rows],
        start_s=baskets.start_s[rows],
    )


def frequent_itemsets(
    baskets: Baskets,
    share: float,
    counts: ItemCounts | None = None,
    *,
    longest: int | None = None,
) -> Itemsets:
    """Return all itemsets that at least this share of the windows hold.

    `counts`, if they are known already, are those of the same groups, of these windows or more.
    `longest` is how many items one may have.
    """
    counts = count_items(baskets) if counts is None else counts
    return _ordered(baskets, counts, counts.frequent(_least(share, counts), longest=longest))


def frequent_bounded(
    baskets: Baskets, share: float, counts: ItemCounts | None = None, *, most: int = _MOST_READ
) -> tuple[Itemsets, float]:
    """Return at most so many itemsets, and the share that was asked of them: more if need be."""
    counts = count_items(baskets) if counts is None else counts
    while True:
        least = _least(share, counts)
        if isinstance(counts, Cube):
            fits = int(np.count_nonzero(counts.cells >= least)) - 1 <= most
            found = counts.frequent(least) if fits else None
        else:
            found = counts.frequent_if_few(least, most=most)
        if found is not None or share == 1.0:
            break
        share = min(1.0, round(share * 1.5, 3))
    if found is None:  # all windows are alike: what is in each of them is what there is
        found = counts.frequent(least)
    return _ordered(baskets, counts, found), share


def _least(share: float, counts: ItemCounts) -> int:
    return least_count(share, counts.windows)


def _ordered(
    baskets: Baskets, counts: ItemCounts, found: tuple[NDArray[np.uint8], NDArray[np.int64]]
) -> Itemsets:
    codes, numbers = found
    order = np.lexsort((_words(codes), -numbers)) if len(numbers) else np.empty(0, np.int64)
    return Itemsets(
        groups=baskets.groups,
        level_names=baskets.level_names,
        windows=counts.windows,
        codes=codes[order],
        counts=numbers[order],
    )


def selected(itemsets: Itemsets, kind: Kind) -> Itemsets:
    """Return the closed or the maximal ones of all frequent itemsets."""
    if kind is Kind.ALL or not len(itemsets):
        return itemsets
    kept = np.ones(len(itemsets), np.bool_)
    for group in range(len(itemsets.groups)):
        longer = np.flatnonzero(itemsets.codes[:, group] != ABSENT)
        shorter = itemsets.codes[longer].copy()
        shorter[:, group] = ABSENT
        places = itemsets.places_of(shorter)
        there = places >= 0
        if kind is Kind.CLOSED:
            there &= itemsets.counts[places] == itemsets.counts[longer]
        kept[places[there]] = False
    return itemsets.taken(kept)


def _words(codes: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Return each row as one value that can be sorted; 255 becomes 0, which sorts first."""
    shifted = np.ascontiguousarray(codes + np.uint8(1))
    return shifted.view(f"S{max(1, codes.shape[1])}").ravel()
