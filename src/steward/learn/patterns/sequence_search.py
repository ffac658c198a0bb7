"""Compiled depth-first searches for sequential patterns.

Without constraints the first end of a pattern in a run is enough: a table gives, from every moment
on, the distance to the next occurrence of each item, and one row of it counts all extensions at
once. With constraints on time all ends are kept, each with the latest start that leads to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit

__all__ = ["NONE", "fill_table", "search_constrained", "search_table"]

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
Table = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.uint32]
NONE = {np.uint8: 255, np.uint16: 65_535, np.uint32: 4_294_967_295}


@njit
def fill_table(
    table: Table, none: int, moments_from: Numbers, items_from: Numbers, item: NDArray[np.int32]
) -> None:
    """Write, for each moment and item, how many moments later it happens next; `none` if never.

    A run has one row more than moments: the one behind its end.
    """
    for run in range(len(moments_from) - 1):
        row = moments_from[run + 1] + run
        table[row, :] = none
        for moment in range(moments_from[run + 1] - 1, moments_from[run] - 1, -1):
            row -= 1
            for x in range(table.shape[1]):
                later = table[row + 1, x]
                table[row, x] = later if later == none else later + 1
            for i in range(items_from[moment], items_from[moment + 1]):
                table[row, item[i]] = 0


@njit
def _count_next(table: Table, none: int, rows: NDArray[np.int64], counts: Numbers) -> None:
    counts[:] = 0
    for row in rows:
        for x in range(table.shape[1]):
            counts[x] += table[row, x] != none


@njit
def _grown(steps: NDArray[np.int32], found: Numbers, many: int) -> Any:  # noqa: ANN401 - both
    """Return both with room for one more."""
    if many < len(found):
        return steps, found
    return (
        np.concatenate((steps, np.empty_like(steps))),
        np.concatenate((found, np.empty_like(found))),
    )


@njit
def _advance(table: Table, none: int, stack: Numbers, span: tuple[int, int], x: int) -> int:
    """Write behind `span` of the stack where its rows go on after item x; return the new end."""
    end = span[1]
    for i in range(span[0], span[1]):
        distance = table[stack[i], x]
        if distance != none:
            stack[end] = stack[i] + np.int64(distance) + 1
            end += 1
    return end


@njit
def search_table(
    table: Table, none: int, begin: Numbers, limits: tuple[int, int, int]
) -> tuple[NDArray[np.int32], Numbers, bool]:
    """Return patterns, in how many runs each is, and whether there were at most so many.

    `begin` are the first rows of the runs; limits: fewest runs, most steps, most patterns.
    """
    least, longest, most = limits
    items = table.shape[1]
    steps = np.full((1024, longest), -1, np.int32)
    found = np.empty(1024, np.int64)
    many = 0
    stack = np.empty(max(1024, 2 * len(begin)), np.int64)  # rows to go on from, for each depth
    stack[: len(begin)] = begin
    first = np.zeros(longest + 2, np.int64)
    first[1] = len(begin)
    counts = np.zeros((longest + 1, items), np.int64)
    at = np.zeros(longest + 1, np.int64)
    pattern = np.full(longest, -1, np.int32)
    _count_next(table, none, stack[: first[1]], counts[0])
    depth = 0
    while depth >= 0:
        while at[depth] < items and counts[depth, at[depth]] < least:
            at[depth] += 1
        if at[depth] == items:
            depth -= 1
            pattern[depth] = -1  # of depth -1: the last, which is -1
            continue
        x = at[depth]
        at[depth] += 1
        if many == most:
            return steps[:many], found[:many], False
        steps, found = _grown(steps, found, many)
        pattern[depth] = x
        steps[many] = pattern
        found[many] = counts[depth, x]
        many += 1
        if depth + 1 == longest:
            pattern[depth] = -1
            continue
        if len(stack) < first[depth + 1] + counts[depth, x]:
            stack = np.concatenate((stack, np.empty_like(stack)))
        end = _advance(table, none, stack, (first[depth], first[depth + 1]), x)
        depth += 1
        first[depth + 1] = end
        at[depth] = 0
        _count_next(table, none, stack[first[depth] : end], counts[depth])
    return steps[:many], found[:many], True


@njit
def _extend(
    ends: Numbers,
    starts: Floats,
    moments: Numbers,
    when: tuple[Floats, NDArray[np.int32], tuple[float, float, float]],
) -> tuple[Numbers, Floats, int]:
    """Return the ends of a pattern with one item more, their latest starts, and in how many runs.

    `moments` are those of the item. The later an end, the later its latest start: the last end
    that is early enough decides.
    """
    when_s, run, (shortest, widest, whole) = when
    new_ends = np.empty(len(moments), np.int64)
    new_starts = np.empty(len(moments), np.float64)
    many, runs, last, behind = 0, 0, -1, 0
    for moment in moments:
        while behind < len(ends) and (
            run[ends[behind]] < run[moment]
            or (ends[behind] < moment and when_s[moment] - when_s[ends[behind]] >= shortest)
        ):
            behind += 1
        if behind == 0:
            continue
        end = ends[behind - 1]
        if run[end] != run[moment] or when_s[moment] - when_s[end] > widest:
            continue
        if when_s[moment] - starts[behind - 1] <= whole:
            new_ends[many] = moment
            new_starts[many] = starts[behind - 1]
            many += 1
            if run[moment] != last:
                runs += 1
                last = run[moment]
    return new_ends[:many], new_starts[:many], runs


@njit
def search_constrained(  # noqa: C901 - one loop, compiled
    moments: Numbers,
    moments_begin: Numbers,
    when: tuple[Floats, NDArray[np.int32], tuple[float, float, float]],
    limits: tuple[int, int, int],
) -> tuple[NDArray[np.int32], Numbers, bool]:
    """Return the same as `search_table`, where steps follow each other within limits of time.

    `moments[moments_begin[x] : moments_begin[x + 1]]` are those of item x. `when` has the time and
    the run of each moment, and the shortest gap, the widest gap and the longest whole span.
    """
    least, longest, most = limits
    items = len(moments_begin) - 1
    steps = np.full((1024, longest), -1, np.int32)
    found = np.empty(1024, np.int64)
    many = 0
    ends = np.empty(0, np.int64)
    starts = np.empty(0, np.float64)
    first = np.zeros(longest + 2, np.int64)
    at = np.zeros(longest + 1, np.int64)
    follows = np.ones((items, items), np.bool_)  # pairs that may be frequent, once that is known
    pattern = np.full(longest, -1, np.int32)
    depth = 0
    while depth >= 0:
        if at[depth] == items:
            depth -= 1
            pattern[depth] = -1  # of depth -1: the last, which is -1
            continue
        x = at[depth]
        at[depth] += 1
        if depth and not follows[pattern[depth - 1], x]:
            continue
        mine = moments[moments_begin[x] : moments_begin[x + 1]]
        if depth:
            now = slice(first[depth], first[depth + 1])
            new_ends, new_starts, runs = _extend(ends[now], starts[now], mine, when)
        else:
            new_ends, new_starts = mine, when[0][mine]
            runs = len(np.unique(when[1][mine]))
        if runs < least:
            if depth == 1:
                follows[pattern[0], x] = False
            continue
        if many == most:
            return steps[:many], found[:many], False
        steps, found = _grown(steps, found, many)
        pattern[depth] = x
        steps[many] = pattern
        found[many] = runs
        many += 1
        if depth + 1 == longest:
            pattern[depth] = -1
            continue
        ends = np.concatenate((ends[: first[depth + 1]], new_ends))
        starts = np.concatenate((starts[: first[depth + 1]], new_starts))
        depth += 1
        first[depth + 1] = len(ends)
        at[depth] = 0
    return steps[:many], found[:many], True
