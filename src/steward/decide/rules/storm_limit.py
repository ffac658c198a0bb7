"""Limit of a storm: of the lines of one stream that hold for one term, the first in each window.

Windows are of the stream's own clock, not of turns or blocks: a log gives the same matches and the
same counts live and over a file, however it is cut into blocks. Entries of a log without times are
numbered, a nanosecond each, and have no rate: the first seconds of 1970 have no limit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.prefiltered_block import PrefilteredBlock
from steward.decide.rules.terms import TermHits

__all__ = ["WINDOW_NS", "StormWindow", "limit_storm"]

Longs = NDArray[np.int64]
WINDOW_NS = 10 * 10**9


@dataclass(slots=True)
class StormWindow:
    """The window that a stream has reached, and how many lines of each term it has had in it."""

    number: int = 0
    lines: Counter[int] = field(default_factory=Counter)


def limit_storm(
    block: PrefilteredBlock, clock_ns: Longs, window: StormWindow, most_lines: int
) -> PrefilteredBlock:
    """Return a block with the first `most_lines` of each term in each window, and update `window`.

    A term of which a rule needs more lines has more.
    """
    if block.route is None or not len(block.found):
        return block
    term, numbers = block.found.term, clock_ns[block.found.entry] // WINDOW_NS
    earlier = window.lines if window.number == numbers[0] else Counter[int]()
    _advance(window, term, numbers)
    most_before = max(earlier.values(), default=0)
    if len(term) + most_before <= most_lines:
        return block
    most = np.maximum(block.route.needed, most_lines)
    before = np.array([earlier[each] for each in range(len(most))], dtype=np.int64)[term]
    before[numbers != numbers[0]] = 0
    kept = (numbers == 0) | (before + _rank(term, numbers) < most[term])
    if kept.all():
        return block
    found = TermHits(entry=block.found.entry[kept], term=term[kept], too_long=block.found.too_long)
    return replace(block, found=found, place=block.place[kept])


def _advance(window: StormWindow, term: Longs, numbers: Longs) -> None:
    last = int(numbers[-1])
    if window.number != last:
        window.number, window.lines = last, Counter()
    else:
        window.lines = window.lines.copy()  # the caller has the counts from before
    window.lines.update(term[numbers == last].tolist())


def _rank(term: Longs, numbers: Longs) -> Longs:
    """Return how many of the same term and window stand before each."""
    order = np.lexsort((term, numbers))  # stable
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (np.diff(term[order]) != 0) | (np.diff(numbers[order]) != 0)
    at = np.arange(len(order))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = at - np.maximum.accumulate(np.where(begins, at, 0))
    return rank
