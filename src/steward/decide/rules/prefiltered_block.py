"""The part of a block that rules need, extracted ahead of the matchers.

Each block is scanned by itself: in any order, in several threads or processes, as long as the
reader gets the results in the order of the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.routes import Route
from steward.decide.rules.terms import Prefilter, TermHits
from steward.model.rules import LogBlock, Stream, syslog_host

__all__ = ["PrefilteredBlock", "ScannedBlock", "attribute", "prefilter_block", "scan_block"]

Longs = NDArray[np.int64]
_BYTES_OBJECT = 48  # what Python adds to the bytes of a text
_NOTHING = TermHits(entry=np.empty(0, dtype=np.int64), term=np.empty(0, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScannedBlock:
    """Times of all entries of a block, and texts of those that match a term. It can be pickled."""

    t_ns: Longs  # of all entries
    found: TermHits
    place: Longs  # of each pair in `found`: which of the following its entry is
    line: Longs
    size: Longs
    texts: list[bytes]
    time_removed: bool  # texts begin after their time
    read_bytes: int  # that the block has, of which this is what was kept

    def __len__(self) -> int:
        return len(self.t_ns)

    @property
    def held_bytes(self) -> int:
        """Approximate memory in bytes."""
        columns = self.t_ns.nbytes + 3 * self.place.nbytes + 2 * self.line.nbytes
        return columns + int(self.size.sum()) + _BYTES_OBJECT * len(self.texts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrefilteredBlock(ScannedBlock):
    """A scanned block of a stream, with the leaves that use its matches."""

    stream: Stream
    route: Route | None  # None: no rule reads this source
    streams: list[Stream]  # of each text: that of the block, or that of the host the line names

    def by_host(self) -> Iterator[PrefilteredBlock]:
        """Yield the matches of each host; each part has the times of all entries."""
        own = {} if self.stream.entity else {id(each): each for each in self.streams}
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


def prefilter_block(block: LogBlock, route: Route | None, *, shared: bool) -> PrefilteredBlock:
    """Search a block for all terms of a route; `shared`: other threads do so too."""
    scanned = scan_block(block, None if route is None else route.prefilter, shared=shared)
    return attribute(scanned, block.stream, route)


def scan_block(block: LogBlock, prefilter: Prefilter | None, *, shared: bool) -> ScannedBlock:
    """Search a block; without a prefilter only its times are kept."""
    found = _NOTHING
    if prefilter is not None and len(block):
        found = prefilter.find(block, shared=shared)
    new = np.diff(found.entry, prepend=-1) > 0
    kept = found.entry[new]
    start, end = block.start[kept], block.end[kept]
    buffer = block.buffer
    return ScannedBlock(
        t_ns=block.t_ns,
        found=found,
        place=np.cumsum(new) - 1,
        line=block.line[kept],
        size=end - start,
        texts=[buffer[a:b] for a, b in zip(start.tolist(), end.tolist(), strict=True)],
        time_removed=block.time_removed,
        read_bytes=int(block.end[-1] - block.start[0]) if len(block) else 0,
    )


def attribute(scanned: ScannedBlock, stream: Stream, route: Route | None) -> PrefilteredBlock:
    """Return a scanned block as one of a stream, each text with the stream of its host."""
    return PrefilteredBlock(
        stream=stream,
        route=route,
        t_ns=scanned.t_ns,
        found=scanned.found,
        place=scanned.place,
        line=scanned.line,
        size=scanned.size,
        texts=scanned.texts,
        time_removed=scanned.time_removed,
        read_bytes=scanned.read_bytes,
        streams=_streams(stream, scanned),
    )


def _streams(stream: Stream, scanned: ScannedBlock) -> list[Stream]:
    """Return the stream of each text: one for each host where the block's stream has no entity."""
    if stream.entity:
        return [stream] * len(scanned.texts)
    of_host = {"": stream}
    found: list[Stream] = []
    for text in scanned.texts:
        host = syslog_host(text, time_removed=scanned.time_removed)
        if host not in of_host:
            attributes = MappingProxyType({**stream.attributes, "host": host})
            of_host[host] = replace(stream, entity=host, attributes=attributes)
        found.append(of_host[host])
    return found
