"""Index from literals found in entries to the terms that may match them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.rules.terms.literals import Literal, LiteralSet, Need, rarity
from steward.model.rules import LogBlock

__all__ = ["FOLD", "LiteralIndex"]

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]
Bytes = NDArray[np.uint8]

_PAIRS = 4096  # places in the table of pairs of bytes: it stays in the nearest cache

FOLD = np.arange(256, dtype=np.uint8)  # to lower case, ASCII only
FOLD[ord("A") : ord("Z") + 1] += 32


class _Lists(NamedTuple):
    """Lists of numbers one after the other, and where each begins."""

    values: Longs
    first: Longs


class _Texts(NamedTuple):
    """Literals one after the other, where each begins, and which of them are caseless."""

    bytes: Bytes
    first: Longs
    caseless: NDArray[np.bool_]


class LiteralIndex:
    """Sets of literals, and the terms that may hold where all literals of a set are found.

    Of each set of literals only one is searched for everywhere (`literals`): that of `chosen`, or
    the one that is probably rarest. Where it is found, the entry is searched for the others.
    """

    def __init__(
        self,
        needs: Sequence[Need | None],
        *,
        chosen: Mapping[LiteralSet, Literal] = MappingProxyType({}),
    ) -> None:
        alternatives: dict[LiteralSet, list[int]] = {}
        for term, need in enumerate(needs):
            for literal_set in need.alternatives if need else ():
                alternatives.setdefault(literal_set, []).append(term)
        rarest = [chosen.get(each) or _rarest_first(each)[0] for each in alternatives]
        self.literals: list[Literal] = sorted(set(rarest))
        owners: dict[Literal, list[int]] = {each: [] for each in self.literals}
        for number, each in enumerate(rarest):
            owners[each].append(number)
        others = sorted({each for literal_set in alternatives for each in literal_set})
        places = {each: place for place, each in enumerate(others)}
        left = [
            literal_set - {each} for literal_set, each in zip(alternatives, rarest, strict=True)
        ]
        self._tables = (
            _lists(list(owners.values())),
            _lists([[places[each] for each in _rarest_first(literal_set)] for literal_set in left]),
            _lists(list(alternatives.values())),
        )
        self._texts = _texts(others)
        self._terms = len(needs)
        self._sets = tuple(alternatives)
        self._owners = owners

    def sets_of(self, literal: Literal) -> list[LiteralSet]:
        """Return the sets for which a literal is searched for everywhere."""
        return [self._sets[number] for number in self._owners[literal]]

    def terms(self, block: LogBlock, entries: Longs, literals: Longs) -> Longs:
        """Return each pair of an entry and a term that may hold for it as `entry * terms + term`.

        Pairs of entries and literals may be unordered and repeated.
        """
        if np.any(entries[1:] < entries[:-1]):
            order = np.argsort(entries, kind="stable")
            entries, literals = entries[order], literals[order]
        text = np.frombuffer(block.buffer, dtype=np.uint8), block.start, block.end
        found = np.empty(4 * len(entries) + 64, dtype=np.int64)
        while True:
            tables = (self._tables, self._texts, FOLD, self._terms)
            count = _join(text, entries, literals, tables, found)
            if count <= len(found):
                return found[:count]
            found = np.empty(count, dtype=np.int64)


def _rarest_first(literal_set: LiteralSet) -> list[Literal]:
    return sorted(literal_set, key=lambda each: (-rarity(each.text), each))


def _lists(lists: Sequence[Sequence[int]]) -> _Lists:
    values = np.array([each for one in lists for each in one], dtype=np.int64)
    return _Lists(values, np.cumsum([0, *map(len, lists)]))


def _texts(literals: Sequence[Literal]) -> _Texts:
    text = b"".join(each.text for each in literals)
    first = np.cumsum([0, *(len(each.text) for each in literals)])
    caseless = np.array([each.caseless for each in literals], dtype=bool)
    return _Texts(np.frombuffer(text, dtype=np.uint8), first, caseless)


@njit
def _place_of_pair(bytes_: Bytes, at: int) -> np.uint64:
    """Return the place of two bytes, without case, in the table of pairs; others may share it."""
    first = np.uint64(bytes_[np.uint64(at)]) | np.uint64(32)
    second = np.uint64(bytes_[np.uint64(at + 1)]) | np.uint64(32)
    return (first ^ second << np.uint64(5)) & np.uint64(_PAIRS - 1)


@njit
def _is_in(buffer: Bytes, span: tuple[int, int], literal: int, texts: _Texts, fold: Bytes) -> bool:
    """Return whether a literal stands in a part of a buffer."""
    first, caseless = texts.first[literal], texts.caseless[literal]
    size = texts.first[literal + 1] - first
    for at in range(span[0], span[1] - size + 1):
        same = np.uint64(0)  # unsigned: no wrapping
        while np.int64(same) < size:
            byte = buffer[np.uint64(at) + same]
            if (fold[byte] if caseless else byte) != texts.bytes[np.uint64(first) + same]:
                break
            same += np.uint64(1)
        if np.int64(same) == size:
            return True
    return False


@njit
def _may_be_in(literal: int, texts: _Texts, pairs: Ints, entry: int) -> bool:
    """Return whether an entry has all pairs of bytes of a literal."""
    for at in range(texts.first[literal], texts.first[literal + 1] - 1):
        if pairs[_place_of_pair(texts.bytes, at)] != entry:
            return False
    return True


@njit
def _note(entry: int, terms: Longs, term_seen: Longs, found: Longs, count: int) -> int:
    """Write the terms of an entry that were not written yet; return how many there are now."""
    for term in terms:
        if term_seen[term] != entry:
            term_seen[term] = entry
            if count < found.size:
                found[count] = entry * term_seen.size + term
            count += 1
    return count


@njit
def _has_all(
    block: tuple[Bytes, Longs, Longs],
    entry: int,
    literals: tuple[Longs, int, int],
    texts: tuple[_Texts, Bytes],
    known: tuple[Ints, Ints, Ints],
) -> bool:
    """Return whether all these literals are in an entry. Changes `known`.

    `known` has by literal the entry in which it was looked for last and that in which it was
    found, and by pair of bytes the last entry that has it: most literals are ruled out by these.
    """
    buffer, start, end = block
    values, first, last = literals
    looked_for, found, pairs = known
    for at in range(first, last):
        literal = values[at]
        if looked_for[literal] != entry:
            looked_for[literal] = entry
            if looked_for[-1] != entry:  # its pairs are not noted yet
                looked_for[-1] = entry
                for place in range(start[entry], end[entry] - 1):
                    pairs[_place_of_pair(buffer, place)] = entry
            span = (start[entry], end[entry])
            if _may_be_in(literal, texts[0], pairs, entry) and _is_in(
                buffer, span, literal, texts[0], texts[1]
            ):
                found[literal] = entry
        if found[literal] != entry:
            return False
    return True


@njit
def _join(
    block: tuple[Bytes, Longs, Longs],
    entries: Longs,
    literals: Longs,
    tables: tuple[tuple[_Lists, _Lists, _Lists], _Texts, Bytes, int],
    found: Longs,
) -> int:
    """Write the pairs as far as there is room; return how many there are."""
    (sets_of, others_of, terms_of), texts, fold, terms = tables
    count = 0
    # The entry at which each was last found: nothing has to be cleared between entries.
    literal_seen = np.full(sets_of.first.size, -1, dtype=np.int64)
    term_seen = np.full(terms, -1, dtype=np.int64)
    known = (
        np.full(texts.caseless.size + 1, -1, dtype=np.int32),
        np.full(texts.caseless.size, -1, dtype=np.int32),
        np.full(_PAIRS, -1, dtype=np.int32),
    )
    for pair in range(entries.size):
        entry, literal = entries[pair], literals[pair]
        if literal_seen[literal] == entry:
            continue
        literal_seen[literal] = entry
        for at in range(sets_of.first[literal], sets_of.first[literal + 1]):
            literal_set = sets_of.values[at]
            others = (
                others_of.values,
                others_of.first[literal_set],
                others_of.first[literal_set + 1],
            )
            if not _has_all(block, entry, others, (texts, fold), known):
                continue
            mine = terms_of.values[terms_of.first[literal_set] : terms_of.first[literal_set + 1]]
            count = _note(entry, mine, term_seen, found, count)
    return count
