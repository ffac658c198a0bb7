"""The part of a block that rules need, extracted ahead of the matchers.

Each block is prefiltered by itself: in any order and in several threads, as long as the reader gets
the results in the order of the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.routes import Route
from steward.decide.rules.terms import TermHits
from steward.model.rules import LogBlock, Stream, syslog_host

__all__ = ["PrefilteredBlock", "prefilter_block"]

Longs = NDArray[np.int64]
_BYTES_OBJECT = 48  # what Python adds to the bytes of a text
_NOTHING = TermHits(entry=np.empty(0, dtype=np.int64), term=np.empty(0, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrefilteredBlock:
    """Times of all entries of a block, and texts of those that match a term."""

    stream: Stream
    route: Route | None  # None: no rule reads this source
    t_ns: Longs  # of all entries
    found: TermHits
    place: Longs  # of each pair in `found`: which of the following its entry is
    line: Longs
    size: Longs
    texts: list[bytes]
    streams: list[Stream]  # of each text: that of the block, or that of the host the line names
    read_bytes: int  # that the block has, of which this is what was kept

    def __len__(self) -> int:
        return len(self.t_ns)

    @property
    def held_bytes(self) -> int:
        """Approximate memory in bytes."""
        columns = self.t_ns.nbytes + 3 * self.place.nbytes + 2 * self.line.nbytes
        return columns + int(self.size.sum()) + _BYTES_OBJECT * len(self.texts)

    def by_host(self) -> Iterator[PrefilteredBlock]:
        """Yield the matches of each host; each part has the times of all entries."""
        own = {id(each): each for each in self.streams}
        if len(own) <= 1:
            yield replace(self, stream=next(iter(own.values()), self.stream))
            return
        numbers = {key: number for number, key in enumerate(own)}
        number = np.array([numbers[id(each)] for each in self.streams])[self.place]
        order = np.argsort(number, kind="stable")
        ends = np.cumsum(np.bincount(number))[:-1]
        for stream, mine in zip(own.values(), np.split(order, ends), strict=True):
            found = TermHits(entry=self.found.entry[mine], term=self.found.term[mine])
            yield replace(self, stream=stream, found=found, place=self.place[mine])


def prefilter_block(
    block: LogBlock, route: Route | None, *, shared: bool, most_per_term: int | None = None
) -> PrefilteredBlock:
    """Search a block for all terms of a route; `shared`: other threads do so too."""
    found = _NOTHING
    if route is not None and len(block):
        most = None if most_per_term is None else np.maximum(route.needed, most_per_term)
        found = route.prefilter.find(block, shared=shared, most=most)
    new = np.diff(found.entry, prepend=-1) > 0
    kept = found.entry[new]
    start, end = block.start[kept], block.end[kept]
    buffer = block.buffer
    texts = [buffer[a:b] for a, b in zip(start.tolist(), end.tolist(), strict=True)]
    return PrefilteredBlock(
        stream=block.stream,
        route=route,
        t_ns=block.t_ns,
        found=found,
        place=np.cumsum(new) - 1,
        line=block.line[kept],
        size=end - start,
        texts=texts,
        streams=_streams(block, texts),
        read_bytes=int(block.end[-1] - block.start[0]) if len(block) else 0,
    )


def _streams(block: LogBlock, texts: list[bytes]) -> list[Stream]:
    """Return the stream of each text: one for each host where the block's stream has no entity."""
    stream = block.stream
    if stream.entity:
        return [stream] * len(texts)
    of_host = {"": stream}
    found: list[Stream] = []
    for text in texts:
        host = syslog_host(text, time_removed=block.time_removed)
        if host not in of_host:
            attributes = MappingProxyType({**stream.attributes, "host": host})
            of_host[host] = replace(stream, entity=host, attributes=attributes)
        found.append(of_host[host])
    return found
