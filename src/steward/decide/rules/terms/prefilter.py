"""Prefilter: match all terms of all rules against a whole block at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.terms.jq_program import needed_by_program
from steward.decide.rules.terms.literal_search import LiteralSearch
from steward.decide.rules.terms.literals import Literal, Need
from steward.decide.rules.terms.search import has_hyperscan
from steward.decide.rules.terms.syntax import needed_by
from steward.decide.rules.terms.term import Test, compile_term, longest_bytes
from steward.model.rules import LogBlock, Term

__all__ = ["Prefilter", "TermHits"]

Longs = NDArray[np.int64]
_SPACES = b" \t\n\r"
_JSON_ENDS = {b"{": b"}", b"[": b"]", b'"': b'"', b"t": b"e", b"f": b"e", b"n": b"l"}
_DIGITS = b"0123456789"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TermHits:
    """Pairs of an entry and a term that holds for it, in the order of entries, then of terms."""

    entry: Longs
    term: Longs
    too_long: int = 0  # pairs that were not tried: the entry is too long for the jq program

    def __len__(self) -> int:
        return len(self.entry)


class Prefilter:
    """Find exactly the entries that match terms, in one pass over a block.

    For most terms there are literals of which a matching entry has at least one. These are looked
    for in the whole buffer; only entries that have one are tested. Threads may share it.
    """

    def __init__(self, terms: Sequence[Term], *, accelerate: bool = has_hyperscan) -> None:
        self.terms = tuple(terms)
        self._tests: list[Test] = [compile_term(each) for each in self.terms]
        needs = [_need(each) for each in self.terms]
        self._sure = np.array([need is not None and need.enough for need in needs], dtype=bool)
        self._json = np.array([each.kind == "jq" for each in self.terms], dtype=bool)
        self._longest = _longs([longest_bytes(each) for each in self.terms])
        self._everywhere = _longs([n for n, need in enumerate(needs) if need is None])
        self._search = LiteralSearch(needs, accelerate=accelerate)

    @property
    def unfiltered(self) -> tuple[Term, ...]:
        """The terms without literals: each entry is tested for them (jq: each JSON)."""
        return tuple(self.terms[number] for number in self._everywhere.tolist())

    def find(self, block: LogBlock, *, shared: bool = False) -> TermHits:
        """Return which terms hold for which entries: all of them, and no others.

        `shared`: other threads search at the same time, for which another search may be faster.
        """
        suspected = self._search.terms(block, shared=shared)
        pairs = np.sort(np.concatenate([suspected, self._unfiltered_pairs(block)]))
        entry, term = np.divmod(pairs, max(len(self.terms), 1))
        entry, term, too_long = self._leave_out_no_json(block, entry, term)
        holds = self._sure[term]
        doubtful = np.flatnonzero(~holds)
        holds[doubtful] = self._test(block, entry[doubtful], term[doubtful])
        return TermHits(entry=entry[holds], term=term[holds], too_long=too_long)

    def _test(self, block: LogBlock, entry: Longs, term: Longs) -> list[bool]:
        """Test entries one by one."""
        tests, holds, last, text, buffer = self._tests, [], -1, b"", block.buffer
        columns = (entry, block.start[entry], block.end[entry], term)
        for one, begin, end, which in zip(*(each.tolist() for each in columns), strict=True):
            if one != last:
                last, text = one, buffer[begin:end]
            holds.append(tests[which](text))
        return holds

    def _unfiltered_pairs(self, block: LogBlock) -> Longs:
        """Return each entry paired with each unfiltered term."""
        entries = np.arange(len(block), dtype=np.int64)
        pairs: Longs = entries[:, None] * len(self.terms) + self._everywhere[None, :]
        return pairs.ravel()

    def _leave_out_no_json(
        self, block: LogBlock, entry: Longs, term: Longs
    ) -> tuple[Longs, Longs, int]:
        """Drop entries that are no JSON for jq terms; return how many are too long for them."""
        json = self._json[term]
        if not json.any():
            return entry, term, 0
        may = _may_be_json(block, entry[json])
        short = (block.end - block.start)[entry[json]] <= self._longest[term[json]]
        keep = ~json
        keep[json] = may & short
        return entry[keep], term[keep], int(np.count_nonzero(may & ~short))


def _need(term: Term) -> Need | None:
    if term.kind == "value":
        return Need(alternatives=frozenset({frozenset({Literal(term.text.encode())})}), enough=True)
    return needed_by(term.text) if term.kind == "regex" else needed_by_program(term.text)


def _may_be_json(block: LogBlock, entries: Longs) -> NDArray[np.bool_]:
    """Tell by the first and the last byte of entries whether they can be JSON values."""
    data = np.frombuffer(block.buffer, dtype=np.uint8)
    start, end = block.start[entries], block.end[entries]
    filled = end > start
    may = np.zeros(len(entries), dtype=bool)
    may[filled] = _ENDS[data[start[filled]], data[end[filled] - 1]]
    return may


def _json_ends() -> NDArray[np.bool_]:
    """Return a table: can a JSON value begin with this byte and end with that one?"""
    table = np.zeros((256, 256), dtype=bool)
    for begin, end in _JSON_ENDS.items():
        table[begin[0], end[0]] = True
    table[np.ix_(list(b"-" + _DIGITS), list(_DIGITS))] = True
    table[list(_SPACES), :] = True
    table[:, list(_SPACES)] = True
    return table


_ENDS = _json_ends()


def _longs(values: list[int]) -> Longs:
    return np.array(values, dtype=np.int64)
