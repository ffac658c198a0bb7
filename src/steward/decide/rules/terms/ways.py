"""From literals that are in entries to terms that may hold for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.terms.literals import Literal, Need, Way

__all__ = ["Ways"]

Longs = NDArray[np.int64]


class Ways:
    """Which literals belong to which ways of matching, and these to which terms; all columnar."""

    def __init__(self, needs: Sequence[Need | None]) -> None:
        ways: dict[Way, list[int]] = {}
        for term, need in enumerate(needs):
            for way in need.ways if need else ():
                ways.setdefault(way, []).append(term)
        self.literals: list[Literal] = sorted({each for way in ways for each in way})
        owners: dict[Literal, list[int]] = {each: [] for each in self.literals}
        for number, way in enumerate(ways):
            for each in way:
                owners[each].append(number)
        self._ways_of = _Lists(list(owners.values()))
        self._terms_of = _Lists(list(ways.values()))
        self._sizes = np.array([len(way) for way in ways], dtype=np.int64)
        self._terms = len(needs)

    def terms(self, entries: Longs, literals: Longs) -> Longs:
        """Return pairs of entries and terms as `entry * terms + term`, perhaps several times.

        Pairs of entries and literals may come in any order and several times.
        """
        pairs = np.unique(entries * max(len(self.literals), 1) + literals)
        entries, literals = np.divmod(pairs, max(len(self.literals), 1))
        origin, ways = self._ways_of.of(literals)
        pairs, often = np.unique(
            entries[origin] * max(len(self._sizes), 1) + ways, return_counts=True
        )
        entries, ways = np.divmod(pairs, max(len(self._sizes), 1))
        whole = often == self._sizes[ways]
        origin, terms = self._terms_of.of(ways[whole])
        found: Longs = entries[whole][origin] * self._terms + terms
        return found


class _Lists:
    """Lists of numbers, one after the other in one array."""

    def __init__(self, lists: Sequence[Sequence[int]]) -> None:
        self._values = np.array([each for one in lists for each in one], dtype=np.int64)
        self._first = np.cumsum([0, *map(len, lists)])

    def of(self, which: Longs) -> tuple[Longs, Longs]:
        """Return the values of these lists, and before them whose place in `which` each has."""
        often = self._first[which + 1] - self._first[which]
        origin = np.repeat(np.arange(len(which)), often)
        within = np.arange(len(origin)) - np.repeat(np.cumsum(often) - often, often)
        return origin, self._values[self._first[which][origin] + within]
