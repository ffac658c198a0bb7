"""Looking for many literals in one buffer at once: with Hyperscan, or one by one without.

Both tell for each entry which literals are in it, and leave out what lies between entries or
across their ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.terms.literals import Literal
from steward.model.rules import LogBlock

__all__ = ["HyperscanSearch", "PlainSearch", "Search", "has_hyperscan"]

Longs = NDArray[np.int64]
has_hyperscan = find_spec("hyperscan") is not None  # it exists for x86 only

_PIECE_BYTES = 1 << 28  # Hyperscan counts in 32 bits
_FREE_REPORTS = 4096
_REPORTS_PER_ENTRY = 2
_BYTES_PER_REPORT = 64


class Search(Protocol):
    """Finds literals in blocks."""

    @property
    def frequent(self) -> frozenset[Literal]:
        """What is looked for one by one."""
        ...

    def find(self, block: LogBlock) -> tuple[Longs, Longs]:
        """Return entries and literals, perhaps the same pair several times, in any order."""
        ...


class PlainSearch:
    """Looks for one literal after the other; no entry is looked at twice for the same one."""

    def __init__(self, literals: Sequence[Literal], which: Iterable[int] | None = None) -> None:
        self._literals = literals
        self.which = set(range(len(literals)) if which is None else which)

    @property
    def frequent(self) -> frozenset[Literal]:
        """What is looked for: all of it one by one."""
        return frozenset(self._literals[number] for number in self.which)

    def find(self, block: LogBlock) -> tuple[Longs, Longs]:
        entries: list[int] = []
        numbers: list[int] = []
        if not self.which or not len(block):
            return _longs(entries), _longs(numbers)
        lowered = b""
        if any(self._literals[number].caseless for number in self.which):
            lowered = block.buffer.lower()
        starts, ends = block.start.tolist(), block.end.tolist()
        for number in sorted(self.which):
            text, caseless = self._literals[number]
            found = _entries_with(text, lowered if caseless else block.buffer, starts, ends)
            entries += found
            numbers += [number] * len(found)
        return _longs(entries), _longs(numbers)


class HyperscanSearch:
    """Looks for all literals in one pass.

    Each place where a literal ends is reported, which costs a call of Python. Literals that are
    nearly everywhere are handed to a plain search, which skips to the next entry after one.
    """

    def __init__(self, literals: Sequence[Literal], *, piece_bytes: int = _PIECE_BYTES) -> None:
        self._literals = literals
        self._lengths = _longs([len(each.text) for each in literals])
        self._overlap = max(map(len, (each.text for each in literals)), default=1) - 1
        self._piece_bytes = piece_bytes
        self._frequent = PlainSearch(literals, ())
        self._compile()

    @property
    def frequent(self) -> frozenset[Literal]:
        """What turned out to be nearly everywhere."""
        return self._frequent.frequent

    def find(self, block: LogBlock) -> tuple[Longs, Longs]:
        if not len(block):
            return _longs([]), _longs([])
        most = _FREE_REPORTS + _REPORTS_PER_ENTRY * len(block)
        most += len(block.buffer) // _BYTES_PER_REPORT
        while True:
            numbers, ends = self._reports(block.buffer, most)
            if len(ends) <= most:
                break
            self._set_aside(numbers)
        entries, held = self._in_entries(block, numbers, ends)
        more_entries, more_numbers = self._frequent.find(block)
        return np.concatenate([entries, more_entries]), np.concatenate([held, more_numbers])

    def _compile(self) -> None:
        import hyperscan  # noqa: PLC0415 - only where it exists

        which = [n for n in range(len(self._literals)) if n not in self._frequent.which]
        self._stopped = hyperscan.ScanTerminated
        self._database: Any = None  # its types leave out buffers that it takes
        if which:
            flag = hyperscan.HS_FLAG_CASELESS
            self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            self._database.compile(
                expressions=[_escaped(self._literals[n].text) for n in which],
                ids=which,
                elements=len(which),
                flags=[flag if self._literals[n].caseless else 0 for n in which],
            )

    def _reports(self, buffer: bytes, most: int) -> tuple[list[int], list[int]]:
        """Return which literals end where; more than `most` when there are too many to go on."""
        numbers: list[int] = []
        ends: list[int] = []
        if self._database is None:
            return numbers, ends
        note, end, at = numbers.append, ends.append, 0

        def report(number: int, _from: int, to: int, _flags: int, _context: object) -> bool | None:
            note(number)
            end(at + to)
            return True if len(ends) > most else None

        view = memoryview(buffer)
        for at in range(0, len(buffer), self._piece_bytes):
            try:
                piece = view[at : at + self._piece_bytes + self._overlap]
                self._database.scan(piece, match_event_handler=report)
            except self._stopped:
                break
        return numbers, ends

    def _set_aside(self, numbers: list[int]) -> None:
        often = np.bincount(numbers)
        self._frequent.which.update(np.flatnonzero(often * 4 >= often.max()).tolist())
        self._compile()

    def _in_entries(
        self, block: LogBlock, numbers: list[int], ends: list[int]
    ) -> tuple[Longs, Longs]:
        which, to = _longs(numbers), _longs(ends)
        entry = np.searchsorted(block.end, to, side="left")
        np.minimum(entry, len(block) - 1, out=entry)
        inside = (to - self._lengths[which] >= block.start[entry]) & (to <= block.end[entry])
        return entry[inside], which[inside]


def _entries_with(text: bytes, buffer: bytes, starts: list[int], ends: list[int]) -> list[int]:
    found: list[int] = []
    at = buffer.find(text)
    while at >= 0:
        entry = bisect_left(ends, at + len(text))
        if entry == len(ends):
            break
        if at >= starts[entry]:
            found.append(entry)
            at = ends[entry]
        else:
            at += 1
        at = buffer.find(text, at)
    return found


def _escaped(text: bytes) -> bytes:
    """Write bytes so that they mean themselves: a pattern ends at the first zero byte."""
    return b"".join(b"\\x%02x" % byte for byte in text)


def _longs(values: list[int]) -> Longs:
    return np.array(values, dtype=np.int64)
