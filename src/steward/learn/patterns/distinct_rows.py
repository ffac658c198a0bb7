"""Frequent itemsets where a cube would not fit: distinct windows with their numbers, projected.

Each distinct basket is kept once. A depth-first search keeps the rows that hold an itemset and
counts all levels of the groups behind it in one pass over them, as LCM does. The rows of parts add
up to the rows of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.errors import StewardError
from steward.learn.patterns.baskets import ABSENT, Baskets
from steward.learn.patterns.cube import unnamed_level

__all__ = ["DistinctRows", "add_rows", "count_rows"]

Levels = NDArray[np.uint8]
Numbers = NDArray[np.int64]
_MOST = 5_000_000  # itemsets; more are of no use to anybody, and would fill the memory


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctRows:
    """The distinct baskets, in order, and how many windows have each."""

    sizes: tuple[int, ...]  # levels of each group
    windows: int
    rows: Levels
    weights: Numbers

    def frequent(
        self, least: int, *, longest: int | None = None, most: int = _MOST
    ) -> tuple[Levels, Numbers]:
        """Return the itemsets in at least `least` windows, and in how many; not the empty one."""
        found = self.frequent_if_few(least, longest=longest, most=most)
        if found is None:
            raise StewardError(
                f"more than {most:,} itemsets are that frequent",
                where="support",
                hint="ask for a larger support, or for fewer groups",
            )
        return found

    def frequent_if_few(
        self, least: int, *, longest: int | None = None, most: int = _MOST
    ) -> tuple[Levels, Numbers] | None:
        """Return the same, or None where there are more than `most`."""
        widest = max(self.sizes, default=1) or 1
        limits = (max(1, least), longest or len(self.sizes), most)
        codes, counts, complete = _search(self.rows, self.weights, widest, limits)
        return (codes, counts) if complete else None


def count_rows(baskets: Baskets) -> DistinctRows:
    """Return the distinct baskets."""
    sizes = tuple(len(names) for names in baskets.level_names)
    levels = baskets.levels
    if ((levels >= np.array(sizes, np.int64)) & (levels != ABSENT)).any():
        raise unnamed_level(baskets)
    rows, weights = _distinct(levels, np.ones(len(levels), np.int64))
    return DistinctRows(sizes=sizes, windows=len(levels), rows=rows, weights=weights)


def add_rows(one: DistinctRows, other: DistinctRows) -> DistinctRows:
    """Return the rows of the windows of both."""
    if one.sizes != other.sizes:
        problem = f"baskets of {one.sizes} and {other.sizes} levels do not add up"
        raise StewardError(problem, where="baskets", hint="make all parts with the same cuts")
    rows, weights = _distinct(
        np.concatenate([one.rows, other.rows]), np.concatenate([one.weights, other.weights])
    )
    windows = one.windows + other.windows
    return DistinctRows(sizes=one.sizes, windows=windows, rows=rows, weights=weights)


def _distinct(levels: Levels, weights: Numbers) -> tuple[Levels, Numbers]:
    if not levels.size:
        return levels[:0], weights[:0]
    words = np.ascontiguousarray(levels).view(np.dtype((np.void, levels.shape[1]))).ravel()
    _, first, place = np.unique(words, return_index=True, return_inverse=True)
    total = np.zeros(len(first), np.int64)
    np.add.at(total, place, weights)
    return levels[first], total


@njit
def _count(
    rows: Levels, weights: Numbers, listed: NDArray[np.int32], first: int, counts: Numbers
) -> None:
    """Write into `counts` the windows with each level of the groups from `first` on."""
    counts[:] = 0
    for row in listed:
        for group in range(first, rows.shape[1]):
            level = rows[row, group]
            if level != 255:
                counts[group, level] += weights[row]


@njit
def _search(  # noqa: C901 - one loop, compiled
    rows: Levels, weights: Numbers, widest: int, limits: tuple[int, int, int]
) -> tuple[Levels, Numbers, bool]:
    """Return frequent itemsets, their counts, and whether these are all.

    The limits are their least count, the most items of one, and how many are kept.
    """
    least, longest, most = limits
    groups = rows.shape[1]
    codes = np.empty((1024, groups), np.uint8)
    found = np.empty(1024, np.int64)
    many = 0
    stack = np.arange(len(rows)).astype(np.int32)  # rows that hold the itemset, for each depth
    begin = np.zeros(groups + 2, np.int64)
    begin[1] = len(rows)
    counts = np.zeros((groups + 1, groups, widest), np.int64)
    at = np.zeros(groups + 1, np.int64)  # the next item to try at each depth
    itemset = np.full(groups, 255, np.uint8)
    _count(rows, weights, stack, 0, counts[0])
    depth = 0
    while depth >= 0:
        if depth:
            itemset[(at[depth - 1] - 1) // widest :] = 255
            itemset[(at[depth - 1] - 1) // widest] = (at[depth - 1] - 1) % widest
        else:
            itemset[:] = 255
        while at[depth] < groups * widest:
            if counts[depth, at[depth] // widest, at[depth] % widest] >= least:
                break
            at[depth] += 1
        if at[depth] == groups * widest:
            depth -= 1
            continue
        group, level = at[depth] // widest, at[depth] % widest
        at[depth] += 1
        if many == most:
            return codes[:many], found[:many], False
        if many == len(codes):
            codes = np.concatenate((codes, np.empty_like(codes)))
            found = np.concatenate((found, np.empty_like(found)))
        codes[many] = itemset
        codes[many, group] = level
        found[many] = counts[depth, group, level]
        many += 1
        if group == groups - 1 or depth + 1 >= longest:
            continue
        end = begin[depth + 1]
        while len(stack) < 2 * end - begin[depth]:
            stack = np.concatenate((stack, np.empty_like(stack)))
        for i in range(begin[depth], begin[depth + 1]):
            if rows[stack[i], group] == level:
                stack[end] = stack[i]
                end += 1
        depth += 1
        begin[depth + 1] = end
        at[depth] = (group + 1) * widest
        _count(rows, weights, stack[begin[depth] : end], group + 1, counts[depth])
    return codes[:many], found[:many], True
