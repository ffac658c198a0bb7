"""From literals that are in entries to terms that may hold for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.rules.terms.literals import Literal, Need, Way

__all__ = ["Ways"]

Longs = NDArray[np.int64]


class _Lists(NamedTuple):
    """Lists of numbers one after the other, and where each begins."""

    values: Longs
    first: Longs


class Ways:
    """Which literals belong to which ways of matching, and these to which terms."""

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
        self._ways_of = _lists(list(owners.values()))
        self._terms_of = _lists(list(ways.values()))
        self._sizes = np.array([len(way) for way in ways], dtype=np.int64)
        self._terms = len(needs)

    def terms(self, entries: Longs, literals: Longs) -> Longs:
        """Return each pair of an entry and a term that may hold for it as `entry * terms + term`.

        Pairs of entries and literals may come in any order and several times.
        """
        if np.any(entries[1:] < entries[:-1]):
            order = np.argsort(entries, kind="stable")
            entries, literals = entries[order], literals[order]
        tables = (self._ways_of, self._terms_of, self._sizes)
        room = np.empty(0, dtype=np.int64)
        count = _join(entries, literals, tables, self._terms, room)
        found = np.empty(count, dtype=np.int64)
        _join(entries, literals, tables, self._terms, found)
        return found


def _lists(lists: Sequence[Sequence[int]]) -> _Lists:
    values = np.array([each for one in lists for each in one], dtype=np.int64)
    return _Lists(values, np.cumsum([0, *map(len, lists)]))


@njit
def _join(
    entries: Longs, literals: Longs, tables: tuple[_Lists, _Lists, Longs], terms: int, found: Longs
) -> int:
    """Write the pairs as far as there is room; return how many there are."""
    ways_of, terms_of, sizes = tables
    count = 0
    # For which entry each was seen last: nothing has to be cleared between entries.
    literal_seen = np.full(ways_of.first.size, -1, dtype=np.int64)
    way_seen = np.full(sizes.size, -1, dtype=np.int64)
    way_has = np.zeros(sizes.size, dtype=np.int64)
    term_seen = np.full(terms, -1, dtype=np.int64)
    for pair in range(entries.size):
        entry, literal = entries[pair], literals[pair]
        if literal_seen[literal] == entry:
            continue
        literal_seen[literal] = entry
        for at in range(ways_of.first[literal], ways_of.first[literal + 1]):
            way = ways_of.values[at]
            way_has[way] = way_has[way] + 1 if way_seen[way] == entry else 1
            way_seen[way] = entry
            if way_has[way] < sizes[way]:
                continue
            for place in range(terms_of.first[way], terms_of.first[way + 1]):
                term = terms_of.values[place]
                if term_seen[term] != entry:
                    term_seen[term] = entry
                    if count < found.size:
                        found[count] = entry * terms + term
                    count += 1
    return count
