"""PAGEMAP_SCAN (Linux 6.7): which pages of a process are present, swapped or written."""

from __future__ import annotations

import ctypes
import fcntl
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["FILE", "HUGE", "PRESENT", "SWAPPED", "TRACKED", "WRITTEN", "Pagemap", "pages_by_block"]

TRACKED, WRITTEN, FILE, PRESENT, SWAPPED = 1, 2, 4, 8, 16  # categories of the kernel
ZERO, HUGE = 32, 64
_FIELDS = (
    *("size", "flags", "start", "end", "walk_end", "vec", "vec_len", "max_pages"),
    *("inverted", "mask", "anyof", "returned"),
)
_PAGEMAP_SCAN = 0xC0606610
_PROTECT = 1  # PM_SCAN_WP_MATCHING
_VECTOR = 4096
Ranges = NDArray[np.uint64]


class _Scan(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in _FIELDS)


class Pagemap:
    """The open pagemap of one process: after it ended reads fail with ESRCH, or find nothing."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._fd = os.open(proc / str(pid) / "pagemap", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def residence(self, start: int, end: int) -> Ranges:
        """Return ranges (start, end, categories) of pages that are in memory or in swap."""
        return self._scan(start, end, anyof=PRESENT | SWAPPED)

    def written(self, start: int, end: int) -> Ranges:
        """Return ranges of pages that were written since the last call, and begin anew.

        Only where the process registered its memory for it (`write_tracking.py`).
        """
        return self._scan(start, end, mask=TRACKED | WRITTEN, flags=_PROTECT)

    def _scan(
        self, start: int, end: int, *, mask: int = 0, anyof: int = 0, flags: int = 0
    ) -> Ranges:
        parts: list[Ranges] = []
        vector = np.zeros((_VECTOR, 3), np.uint64)
        at = start
        while at < end:
            asked = _Scan(
                size=ctypes.sizeof(_Scan),
                flags=flags,
                start=at,
                end=end,
                vec=vector.ctypes.data,
                vec_len=_VECTOR,
                mask=mask,
                anyof=anyof,
                returned=TRACKED | WRITTEN | FILE | PRESENT | SWAPPED | ZERO | HUGE,
            )
            found = fcntl.ioctl(self._fd, _PAGEMAP_SCAN, asked)
            parts.append(vector[:found].copy())
            if asked.walk_end <= at:
                break
            at = asked.walk_end
        return np.concatenate(parts) if parts else np.zeros((0, 3), np.uint64)


def pages_by_block(
    ranges: Ranges, starts: NDArray[np.uint64], ends: NDArray[np.uint64], page_bytes: int
) -> NDArray[np.int64]:
    """Return how many pages of ranges lie in each block; blocks are in order and apart.

    >>> ranges = np.array([[0, 12288, 8], [16384, 20480, 8]], np.uint64)
    >>> starts, ends = np.array([0, 8192], np.uint64), np.array([8192, 32768], np.uint64)
    >>> pages_by_block(ranges, starts, ends, 4096).tolist()
    [2, 2]
    """
    if not len(ranges) or not len(starts):
        return np.zeros(len(starts), np.int64)
    begin, end = ranges[:, 0].astype(np.int64), ranges[:, 1].astype(np.int64)
    covered = np.concatenate(([0], np.cumsum(end - begin)))

    def before(address: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many bytes of the ranges lie before an address."""
        at = np.searchsorted(begin, address, side="right")
        inside = np.maximum(0, end[at - 1] - address) * (at > 0)
        found: NDArray[np.int64] = covered[at] - inside
        return found

    bytes_ = before(ends.astype(np.int64)) - before(starts.astype(np.int64))
    return bytes_ // page_bytes
