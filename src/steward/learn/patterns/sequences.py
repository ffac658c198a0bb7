"""Frequent sequential patterns over runs: what happens, and then what, in how many of them.

Steps follow each other at later moments, with anything between them unless the search says
otherwise. Each step is one item.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.patterns.event_lists import EventLists
from steward.learn.patterns.itemsets import Item, least_count
from steward.learn.patterns.sequence_search import (
    NONE,
    fill_table,
    search_constrained,
    search_table,
)

__all__ = ["SequenceSearch", "Sequences", "closed_sequences", "find_bounded", "find_sequences"]

_MOST_TABLE_BYTES = 2**30
Steps = NDArray[np.int32]
_Found = tuple[Steps, NDArray[np.int64], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceSearch:
    """Which sequences are wanted. Gaps are between steps, the span is from first to last.

    `contiguous` asks for directly following moments, and replaces limits on gaps.
    """

    share: float = 0.1  # of the runs
    longest: int = 4  # steps
    min_gap_s: float = 0.0
    max_gap_s: float = inf
    max_span_s: float = inf
    contiguous: bool = False
    most: int = 200_000  # patterns

    def __post_init__(self) -> None:
        faults = []
        if self.longest < 1:
            faults.append(f"a sequence of {self.longest} steps is none")
        if not 0 <= self.min_gap_s <= self.max_gap_s:
            faults.append(f"no gap is between {self.min_gap_s:g} and {self.max_gap_s:g} s")
        if self.max_span_s < 0:
            faults.append(f"a span of {self.max_span_s:g} s is below 0")
        if faults:
            raise StewardError("; ".join(faults), where="sequences", hint="see --help")

    @property
    def is_constrained(self) -> bool:
        """Return whether it matters when steps happen, and not only in which order."""
        return self.contiguous or self.min_gap_s > 0 or min(self.max_gap_s, self.max_span_s) < inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequences:
    """Sequences as rows of places in `items`, -1 behind the last, those of most runs first."""

    items: tuple[Item, ...]
    runs: int
    steps: Steps
    counts: NDArray[np.int64]  # runs with it

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Return how many steps each has."""
        return np.asarray(np.count_nonzero(self.steps >= 0, axis=1), np.int64)

    def of(self, row: int) -> tuple[Item, ...]:
        """Return the steps of one."""
        return tuple(self.items[step] for step in self.steps[row].tolist() if step >= 0)

    def taken(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Sequences:
        """Return some of them."""
        return Sequences(
            items=self.items, runs=self.runs, steps=self.steps[rows], counts=self.counts[rows]
        )


def find_sequences(events: EventLists, search: SequenceSearch | None = None) -> Sequences:
    """Return all sequences that at least this share of the runs has."""
    search = search or SequenceSearch()
    limits = (least_count(search.share, events.runs), search.longest, search.most)
    if not len(events):
        none = np.empty((0, search.longest), np.int32)
        return Sequences(
            items=events.items, runs=events.runs, steps=none, counts=np.empty(0, np.int64)
        )
    find = _constrained if search.is_constrained else _unconstrained
    steps, counts, complete = find(events, search, limits)
    if not complete:
        raise StewardError(
            f"more than {search.most:,} sequences are in that many runs",
            where="sequences",
            hint="ask for a larger support, fewer steps, or a shorter gap",
        )
    order = np.lexsort((*(steps.T[::-1]), -counts))
    return Sequences(items=events.items, runs=events.runs, steps=steps[order], counts=counts[order])


def find_bounded(events: EventLists, search: SequenceSearch) -> tuple[Sequences, SequenceSearch]:
    """Return the sequences and the search that found them: with more support if there are many."""
    while True:
        try:
            return find_sequences(events, search), search
        except StewardError:
            if search.share == 1.0:
                if search.longest == 1:
                    raise
                search = replace(search, longest=search.longest - 1)
            search = replace(search, share=min(1.0, round(search.share * 1.5, 3)))


def closed_sequences(sequences: Sequences) -> Sequences:
    """Return those without a longer one, among all of these, that as many runs have.

    The longest ones that were looked for count as closed: what is longer is not known.
    """
    known = {row.tobytes(): place for place, row in enumerate(sequences.steps)}
    lengths, counts = sequences.lengths, sequences.counts
    kept = np.ones(len(sequences), np.bool_)
    for gone in range(sequences.steps.shape[1]):
        rows = np.flatnonzero((lengths > gone) & (lengths > 1))
        end = np.full((len(rows), 1), -1, np.int32)
        shorter = np.hstack([np.delete(sequences.steps[rows], gone, axis=1), end])
        for row, code in zip(rows.tolist(), shorter, strict=True):
            place = known.get(code.tobytes())
            if place is not None and counts[place] == counts[row]:
                kept[place] = False
    return sequences.taken(kept)


def _unconstrained(
    events: EventLists, search: SequenceSearch, limits: tuple[int, int, int]
) -> _Found:
    longest_run = int(np.max(np.diff(events.moments_from), initial=0))
    kind = next(each for each in NONE if longest_run < NONE[each])
    rows = len(events.when_s) + events.runs
    if rows * len(events.items) * np.dtype(kind).itemsize > _MOST_TABLE_BYTES:
        raise StewardError(
            f"{rows:,} moments of {len(events.items):,} items do not fit into memory at once",
            where="sequences",
            hint=f"set a limit to gaps ({search.max_gap_s:g} s now), or take changes only",
        )
    table = np.empty((rows, len(events.items)), kind)
    fill_table(table, NONE[kind], events.moments_from, events.items_from, events.item)
    begin = events.moments_from[:-1] + np.arange(events.runs)
    found: _Found = search_table(table, NONE[kind], begin, limits)
    return found


def _constrained(
    events: EventLists, search: SequenceSearch, limits: tuple[int, int, int]
) -> _Found:
    run = np.repeat(np.arange(events.runs, dtype=np.int32), np.diff(events.moments_from))
    moment = np.repeat(np.arange(len(events.when_s)), np.diff(events.items_from))
    order = np.argsort(events.item, kind="stable")
    begin = np.searchsorted(events.item[order], np.arange(len(events.items) + 1))
    when, gaps = events.when_s, (search.min_gap_s, search.max_gap_s, search.max_span_s)
    if search.contiguous:  # counted in moments; a span in time makes no sense beside it
        when, gaps = np.arange(len(events.when_s), dtype=np.float64), (1.0, 1.0, inf)
    found: _Found = search_constrained(moment[order], begin, (when, run, gaps), limits)
    return found
