"""Search of blocks for literals, and so for terms that may match; it adapts to the logs it reads.

Which literal of a set is rarest is a guess until logs have been read: "handshake" is in every
second line of some. One that is found often is replaced by another literal of its set. That costs
or saves time and changes no result: an entry needs all literals of a set, whichever is first.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.terms.automaton import AutomatonSearch
from steward.decide.rules.terms.literal_index import LiteralIndex
from steward.decide.rules.terms.literals import Literal, LiteralSet, Need, rarity
from steward.decide.rules.terms.search import HyperscanSearch, Search
from steward.model.rules import LogBlock

__all__ = ["LiteralSearch"]

Longs = NDArray[np.int64]
_CHECK_BYTES = 4 * 2**20  # searched before literals are chosen anew; then twice as many, and so on
_CHECK_BYTES_PER_LITERAL = 2048  # compiling takes as long as searching so many
_SAMPLE_BYTES = 2**20  # in which literals are counted
_BYTES_PER_FREQUENT = 16 * 1024  # a literal found more often than once in so many is frequent


class _Compiled:
    """An index, its search, and how often each literal was found since the last check."""

    __slots__ = ("bytes", "counts", "index", "search")

    def __init__(self, index: LiteralIndex, search: Search) -> None:
        self.index, self.search = index, search
        self.reset()

    def reset(self) -> None:
        """Begin to count anew."""
        self.counts = np.zeros(len(self.index.literals), dtype=np.int64)
        self.bytes = 0


class LiteralSearch:
    """Find the terms that may match entries of a block. Threads may share it."""

    def __init__(
        self, needs: Sequence[Need | None], *, accelerate: bool, check_bytes: int = _CHECK_BYTES
    ) -> None:
        self._needs = needs
        self._accelerate = accelerate
        self._chosen: dict[LiteralSet, Literal] = {}
        self._compiled = self._compile()
        literals = len(self._compiled.index.literals)
        self._check_bytes = max(check_bytes, min(check_bytes, _CHECK_BYTES_PER_LITERAL) * literals)
        self._lock = Lock()  # of counts and choices

    @property
    def literals(self) -> tuple[Literal, ...]:
        """The literals that are searched for everywhere, at present."""
        return tuple(self._compiled.index.literals)

    def terms(self, block: LogBlock, *, shared: bool = False) -> Longs:
        """Return each pair of an entry and a term that may hold for it as `entry * terms + term`.

        `shared`: other threads search at the same time.
        """
        compiled = self._compiled
        entries, literals = compiled.search.find(block, shared=shared)
        if len(block) and self._lock.acquire(blocking=False):  # other threads count enough
            try:
                self._count(block, compiled, literals)
            finally:
                self._lock.release()
        return compiled.index.terms(block, entries, literals)

    def _compile(self) -> _Compiled:
        index = LiteralIndex(self._needs, chosen=self._chosen)
        search = HyperscanSearch if self._accelerate else AutomatonSearch
        return _Compiled(index, search(index.literals))

    def _count(self, block: LogBlock, compiled: _Compiled, literals: Longs) -> None:
        """Count what was found, and choose literals anew where enough was searched."""
        compiled.counts += np.bincount(literals, minlength=len(compiled.counts))
        compiled.bytes += int(block.end[-1] - block.start[0])
        if compiled.bytes < self._check_bytes:
            return
        index = compiled.index
        often = np.flatnonzero(compiled.counts > compiled.bytes // _BYTES_PER_FREQUENT).tolist()
        better = _rarer_ones(block, index, [index.literals[number] for number in often])
        if better:
            self._chosen |= better
            self._compiled = self._compile()
        compiled.reset()
        self._check_bytes *= 2


def _rarer_ones(
    block: LogBlock, index: LiteralIndex, frequent: Sequence[Literal]
) -> dict[LiteralSet, Literal]:
    """Return a rarer literal for sets of frequent ones, for which a block has one."""
    begin = int(block.start[0])
    text = block.buffer[begin : min(int(block.end[-1]), begin + _SAMPLE_BYTES)]
    folded = text.lower()
    counts: dict[Literal, int] = {}
    better: dict[LiteralSet, Literal] = {}
    for literal in frequent:
        for literal_set in index.sets_of(literal):
            for each in literal_set - counts.keys():
                counts[each] = (folded if each.caseless else text).count(each.text)
            rarest = min(literal_set, key=lambda each: (counts[each], -rarity(each.text), each))
            if 4 * counts[rarest] < 3 * counts[literal]:
                better[literal_set] = rarest
    return better
