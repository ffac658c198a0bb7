"""Entries of a log, columnar: there is never one Python object per line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

__all__ = ["LogBlock", "Stream"]

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Source of entries. Entries of one stream are in the order in which they were written.

    `source` is its name in rules (`cre.log.redis`); '' is unknown, and every rule reads it.
    `attributes` are what all its entries share, for joins: `host`, `job`, `gpu`, `container`.
    """

    name: str  # a path, `stdin`, a unit
    source: str = ""
    entity: str = ""  # a node, or `job:812`; '' where unknown
    attributes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogBlock:
    r"""Consecutive entries of one stream.

    Entry `i` is `buffer[start[i]:end[i]]`, without its line end, and without the time where its
    format takes the time off. Entries lie in the buffer in their order and do not overlap; bytes
    between them mean nothing. An entry that was put together from several lines keeps `\n`
    between them (`strict`) or nothing (`preq`).
    """

    stream: Stream
    buffer: bytes
    start: Longs
    end: Longs
    t_ns: Longs  # since 1970; entries without a time have one that keeps their order
    line: Longs  # number of the entry's first line in its file, from 1
    joined: NDArray[np.bool_]  # whether it has line ends inside
    timed: NDArray[np.bool_]  # whether it had a time of its own
    time_removed: bool = False  # entries begin after their time: their format takes it off

    def __len__(self) -> int:
        return len(self.start)

    def text(self, entry: int) -> bytes:
        """Return the bytes of an entry."""
        return self.buffer[int(self.start[entry]) : int(self.end[entry])]
