"""Search for many literals in one buffer at once.

Hyperscan is fastest where little is found: each place costs a call of Python. Where much is
found, and on processors that Hyperscan does not support, the automaton is used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.terms.automaton import AutomatonSearch
from steward.decide.rules.terms.literals import Literal
from steward.model.rules import LogBlock

__all__ = ["HyperscanSearch", "Search", "has_hyperscan"]

Longs = NDArray[np.int64]
has_hyperscan = find_spec("hyperscan") is not None  # it exists for x86 only

_PIECE_BYTES = 1 << 28  # Hyperscan counts in 32 bits
_FREE_REPORTS = 64
# A report takes as long as the automaton takes longer than Hyperscan for so many bytes; in several
# threads, where it has to wait until it may call Python, for more.
_BYTES_PER_REPORT, _BYTES_PER_SHARED_REPORT = 256, 1500
_BUSY_BLOCKS = 15  # searched by the automaton before Hyperscan is tried again


class Search(Protocol):
    """Search for literals in entries, ignoring text between entries or across their ends."""

    def find(self, block: LogBlock, *, shared: bool = False) -> tuple[Longs, Longs]:
        """Return entries and literals, perhaps the same pair several times, in any order.

        `shared`: other threads search at the same time.
        """
        ...


class HyperscanSearch:
    """Search with Hyperscan while matches are sparse. Threads may share it."""

    def __init__(self, literals: Sequence[Literal], *, piece_bytes: int = _PIECE_BYTES) -> None:
        self._lengths = np.array([len(each.text) for each in literals], dtype=np.int64)
        self._overlap = int(self._lengths.max(initial=1)) - 1
        self._piece_bytes = piece_bytes
        self._automaton = AutomatonSearch(literals)
        self._busy_blocks = 0
        self._database, self._stopped = _compiled(literals)
        self._scratches: deque[Any] = deque()  # working memory of scans; each is for one at a time

    def find(self, block: LogBlock, *, shared: bool = False) -> tuple[Longs, Longs]:
        """Return entries and literals; both searches find the same."""
        if not len(block) or not len(self._lengths):
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        if not self._busy_blocks:
            # Other blocks may share the buffer: only the part with these entries is looked at.
            begin, end = int(block.start[0]), int(block.end[-1])
            per_report = _BYTES_PER_SHARED_REPORT if shared else _BYTES_PER_REPORT
            most = _FREE_REPORTS + (end - begin) // per_report
            literals, ends = self._reports(memoryview(block.buffer)[begin:end], begin, most)
            if len(ends) <= most:
                return self._in_entries(block, literals, ends)
            self._busy_blocks = _BUSY_BLOCKS + 1
        self._busy_blocks = max(self._busy_blocks - 1, 0)  # another thread may have counted
        return self._automaton.find(block)

    def _reports(self, view: memoryview, begin: int, most: int) -> tuple[list[int], list[int]]:
        """Return which literals end where; more than `most` when there are too many to go on."""
        literals: list[int] = []
        ends: list[int] = []
        note, end, at = literals.append, ends.append, 0

        def report(literal: int, _from: int, to: int, _flags: int, _context: object) -> bool | None:
            note(literal)
            end(begin + at + to)
            return True if len(ends) > most else None

        with self._scratch() as scratch:
            for at in range(0, len(view), self._piece_bytes):
                try:
                    piece = view[at : at + self._piece_bytes + self._overlap]
                    self._database.scan(piece, match_event_handler=report, scratch=scratch)
                except self._stopped:
                    break
        return literals, ends

    @contextmanager
    def _scratch(self) -> Iterator[Any]:
        try:
            scratch = self._scratches.pop()
        except IndexError:
            scratch = self._database.scratch.clone()
        try:
            yield scratch
        finally:
            self._scratches.append(scratch)

    def _in_entries(
        self, block: LogBlock, literals: list[int], ends: list[int]
    ) -> tuple[Longs, Longs]:
        which, to = np.array(literals, dtype=np.int64), np.array(ends, dtype=np.int64)
        entry = np.searchsorted(block.end, to, side="left")
        np.minimum(entry, len(block) - 1, out=entry)
        inside = (to - self._lengths[which] >= block.start[entry]) & (to <= block.end[entry])
        return entry[inside], which[inside]


def _compiled(literals: Sequence[Literal]) -> tuple[Any, type[Exception]]:
    """Return a database (its types leave out buffers that it takes) and what ends a scan early."""
    import hyperscan  # noqa: PLC0415 - only where it exists

    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    if literals:
        flag = hyperscan.HS_FLAG_CASELESS
        database.compile(
            expressions=[_escaped(each.text) for each in literals],
            ids=list(range(len(literals))),
            elements=len(literals),
            flags=[flag if each.caseless else 0 for each in literals],
        )
    return database, hyperscan.ScanTerminated


def _escaped(text: bytes) -> bytes:
    """Escape bytes for Hyperscan: a pattern ends at the first zero byte."""
    return b"".join(b"\\x%02x" % byte for byte in text)
