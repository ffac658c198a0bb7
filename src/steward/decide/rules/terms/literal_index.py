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
Bytes = NDArray[np.uint8]

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
        found = np.empty(len(entries) + 64, dtype=np.int64)
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
def _may_have(entry: Bytes, text: Bytes, fold_bit: np.uint8) -> bool:
    """Return whether the first and the last byte of a text stand as far apart in an entry.

    It has no branch, so that it is compiled to vector instructions.
    """
    last = text.size - 1
    first_byte, last_byte = text[0] | fold_bit, text[last] | fold_bit
    begins, ends = entry[: entry.size - last], entry[last:]
    found = np.uint8(0)
    for at in range(begins.size):
        found |= np.uint8((begins[at] | fold_bit) == first_byte) & np.uint8(
            (ends[at] | fold_bit) == last_byte
        )
    return bool(found != 0)


@njit
def _has(entry: Bytes, literal: int, texts: _Texts, fold: Bytes) -> bool:
    """Return whether a literal is in an entry."""
    text = texts.bytes[texts.first[literal] : texts.first[literal + 1]]
    caseless = texts.caseless[literal]
    if text.size > entry.size or not _may_have(entry, text, np.uint8(32 * caseless)):
        return False
    for at in range(entry.size - text.size + 1):
        same = np.uint64(0)  # unsigned: no wrapping
        while same < text.size:
            byte = entry[np.uint64(at) + same]
            if (fold[byte] if caseless else byte) != text[same]:
                break
            same += np.uint64(1)
        if same == text.size:
            return True
    return False


@njit
def _has_all(
    entry: Bytes, literals: Longs, texts: _Texts, fold: Bytes, known: NDArray[np.int8]
) -> bool:
    """Return whether all these literals are in an entry; `known` caches answers: 1 or 0."""
    for literal in literals:
        if known[literal] < 0:
            known[literal] = _has(entry, literal, texts, fold)
        if not known[literal]:
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
def _join(
    block: tuple[Bytes, Longs, Longs],
    entries: Longs,
    literals: Longs,
    tables: tuple[tuple[_Lists, _Lists, _Lists], _Texts, Bytes, int],
    found: Longs,
) -> int:
    """Write the pairs as far as there is room; return how many there are."""
    buffer, start, end = block
    (sets_of, others_of, terms_of), texts, fold, terms = tables
    count, last = 0, -1
    # The entry at which each was last found: nothing has to be cleared between entries.
    literal_seen = np.full(sets_of.first.size, -1, dtype=np.int64)
    term_seen = np.full(terms, -1, dtype=np.int64)
    known = np.full(texts.caseless.size, -1, dtype=np.int8)
    for pair in range(entries.size):
        entry, literal = entries[pair], literals[pair]
        if entry != last:
            known[:] = -1
            last = entry
        if literal_seen[literal] == entry:
            continue
        literal_seen[literal] = entry
        for at in range(sets_of.first[literal], sets_of.first[literal + 1]):
            literal_set = sets_of.values[at]
            others = others_of.values[
                others_of.first[literal_set] : others_of.first[literal_set + 1]
            ]
            if not _has_all(buffer[start[entry] : end[entry]], others, texts, fold, known):
                continue
            mine = terms_of.values[terms_of.first[literal_set] : terms_of.first[literal_set + 1]]
            count = _note(entry, mine, term_seen, found, count)
    return count
