"""Describes memory that C programs write and Python reads: `struct row` and `struct notes`.

The C side is `programs/counters.h`; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping

from steward.clients.bpf.histogram import BUCKETS
from steward.clients.bpf.syscall_table import CAUSES, COUNTED

__all__ = [
    "COLUMNS",
    "DIRECTIONS",
    "HISTOGRAM",
    "NOTES",
    "PLAIN",
    "WIDTH",
    "names_of",
]

HISTOGRAM = ".histogram"
DIRECTIONS = ("read", "write")  # by the lowest bit of a request's operation
NOTES = ("new_slots", "full_slots", "lost_tasks", "lost_requests", "used_waits")

_PARTS: Mapping[str, tuple[str, ...]] = {"wait": CAUSES, "calls": COUNTED, "block": DIRECTIONS}
_WIDTHS = {
    "runq.count": 1,
    "runq.ns": 1,
    "wait.count": len(CAUSES),
    "wait.ns": len(CAUSES),
    "block.count": len(DIRECTIONS),
    "block.bytes": len(DIRECTIONS),
    "block.ns": len(DIRECTIONS),
    "faults.count": 1,
    "tcp.retransmits": 1,
    "tcp.rtt.count": 1,
    "calls.count": len(COUNTED),
    "calls.ns": len(COUNTED),
    "cuda.launches.count": 1,
    "cuda.copies.to_device.count": 1,
    "cuda.copies.to_device.bytes": 1,
    "cuda.copies.to_host.count": 1,
    "cuda.copies.to_host.bytes": 1,
    "cuda.copies.other.count": 1,
    "cuda.copies.other.bytes": 1,
    "cuda.synchronise.count": 1,
    "cuda.synchronise.ns": 1,
    "cuda.allocations.count": 1,
    "cuda.allocations.bytes": 1,
    "nvtx.pushes.count": 1,
    "nvtx.pops.count": 1,
    "runq.histogram": BUCKETS,
    "block.histogram": BUCKETS,
    "tcp.rtt.histogram": BUCKETS,
}


def _columns() -> dict[str, slice]:
    columns, start = {}, 0
    for name, width in _WIDTHS.items():
        columns[name] = slice(start, start + width)
        start += width
    return columns


COLUMNS: Mapping[str, slice] = _columns()
WIDTH = sum(_WIDTHS.values())
PLAIN = COLUMNS["runq.histogram"].start  # how many columns are counters; histograms follow


def names_of(name: str) -> tuple[str, ...]:
    """Return a name for each number of a counter.

    >>> names_of("block.ns"), names_of("runq.ns")
    (('block.read.ns', 'block.write.ns'), ('runq.ns',))
    """
    if _WIDTHS[name] == 1:
        return (name,)
    of, unit = name.split(".")
    return tuple(f"{of}.{part}.{unit}" for part in _PARTS[of])
