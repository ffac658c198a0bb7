"""One process in blocks of pages: which are near (in memory), far (in swap), and in use."""

from __future__ import annotations

import errno
import mmap
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steward.clients.linux.pages.mappings import Mapping, forget_references, mappings_of
from steward.clients.linux.pages.pagemap import (
    HUGE,
    PRESENT,
    SWAPPED,
    TRACKED,
    Pagemap,
    pages_by_block,
)
from steward.clients.processes import ProcessTable
from steward.errors import StewardError
from steward.model.memory.snapshot import MemorySnapshot

__all__ = ["BLOCK_BYTES", "ProcessPages"]

BLOCK_BYTES = 2 << 20  # as a huge page: those are moved whole
_MAPPINGS_EVERY_S = 1.0
_REASONS = {
    errno.EPERM: "this user may not read its pages",
    errno.EACCES: "this user may not read its pages",
    errno.ESRCH: "the process has ended",
    errno.ENOENT: "the process has ended",
    errno.ENOTTY: "this kernel has no PAGEMAP_SCAN (Linux 6.7)",
    errno.EINVAL: "this kernel has no PAGEMAP_SCAN (Linux 6.7)",
}


class ProcessPages:
    """The private memory of one process, read again and again.

    Mappings are read once a second: a map of thousands takes milliseconds. Where the process
    registered its memory, written pages are told; else what was referenced, by mapping.
    """

    def __init__(
        self, pid: int, *, proc: Path = Path("/proc"), block_bytes: int = BLOCK_BYTES
    ) -> None:
        found = ProcessTable(proc).one(pid)
        if found is None:
            raise StewardError(f"there is no process {pid}", hint="look at `ps`")
        self.pid = pid
        self.started_s = found.start_s
        self.name = found.name
        self._proc = proc
        self._table = ProcessTable(proc)
        self._block_bytes = block_bytes
        self._page_bytes = mmap.PAGESIZE
        self._mappings: list[Mapping] = []
        self._read_s = -np.inf
        self._starts = self._ends = np.zeros(0, np.uint64)
        self._references = np.zeros(0)
        try:
            self._pagemap = Pagemap(pid, proc)
        except OSError as fault:
            raise self._refused(fault) from fault

    def close(self) -> None:
        self._pagemap.close()

    def snapshot(self, t_s: float) -> MemorySnapshot:
        """Return the blocks as they are, and what was in use since the last call.

        Raise a `StewardError` where the process has ended or may not be read.
        """
        try:
            return self._snapshot(t_s)
        except OSError as fault:
            raise self._refused(fault) from fault

    def _snapshot(self, t_s: float) -> MemorySnapshot:
        self._look_at_mappings()
        starts, ends = self._starts, self._ends
        present = np.zeros(len(starts), np.int64)
        swapped, huge, written, tracked = (present.copy() for _ in range(4))
        for mapping, rows in self._by_mapping():
            ranges = self._pagemap.residence(mapping.start, mapping.end)
            some = starts[rows], ends[rows]
            present[rows] = self._of(ranges, PRESENT, some)
            swapped[rows] = self._of(ranges, SWAPPED, some)
            huge[rows] = self._of(ranges, HUGE, some)
            if len(ranges) and (ranges[:, 2] & TRACKED).all():
                tracked[rows] = 1
                changed = self._pagemap.written(mapping.start, mapping.end)
                written[rows] = pages_by_block(changed, *some, self._page_bytes)
        if self._gone():
            raise ProcessLookupError(errno.ESRCH, "the process has ended", str(self.pid))
        used = np.where(tracked == 1, written, np.ceil(self._references * present))
        return MemorySnapshot(
            t_s=t_s,
            pid=self.pid,
            started_s=self.started_s,
            name=self.name,
            start=starts.astype(np.int64),
            end=ends.astype(np.int64),
            present=present,
            swapped=swapped,
            used=used.astype(np.int64),
            huge=huge,
            tracked_share=float(tracked.mean()) if len(tracked) else 0.0,
            page_bytes=self._page_bytes,
            swap_free_bytes=_swap_free_bytes(self._proc),
            major_faults=self._major_faults(),
        )

    def _of(
        self,
        ranges: NDArray[np.uint64],
        category: int,
        some: tuple[NDArray[np.uint64], NDArray[np.uint64]],
    ) -> NDArray[np.int64]:
        chosen = ranges[(ranges[:, 2] & category) > 0]
        return pages_by_block(chosen, *some, self._page_bytes)

    def _look_at_mappings(self) -> None:
        now_s = time.monotonic()
        if now_s - self._read_s < _MAPPINGS_EVERY_S:
            return
        mappings = [each for each in mappings_of(self.pid, self._proc) if each.can_be_moved]
        self._read_s = now_s
        self._mappings = [each for each in mappings if each.end - each.start >= self._page_bytes]
        starts, ends, references = [], [], []
        for each in self._mappings:
            first = each.start // self._block_bytes * self._block_bytes
            edges = np.arange(first, each.end, self._block_bytes, dtype=np.int64)
            begin = np.maximum(edges, each.start)
            starts.append(begin)
            ends.append(np.minimum(edges + self._block_bytes, each.end))
            share = each.referenced_bytes / each.rss_bytes if each.rss_bytes else 0.0
            references.append(np.full(len(begin), min(1.0, share)))
        none = np.zeros(0, np.int64)
        self._starts = np.concatenate([none, *starts]).astype(np.uint64)
        self._ends = np.concatenate([none, *ends]).astype(np.uint64)
        self._references = np.concatenate([np.zeros(0), *references])
        forget_references(self.pid, self._proc)

    def _by_mapping(self) -> list[tuple[Mapping, slice]]:
        edges = np.searchsorted(
            self._starts, np.array([each.start for each in self._mappings], np.uint64)
        )
        ends = [*edges[1:].tolist(), len(self._starts)]
        rows = (
            [slice(a, b) for a, b in zip(edges.tolist(), ends, strict=True)] if len(edges) else []
        )
        return list(zip(self._mappings, rows, strict=True))

    def _major_faults(self) -> int:
        cells = (self._proc / str(self.pid) / "stat").read_bytes().rpartition(b") ")[2].split()
        return int(cells[9]) if len(cells) > 9 else 0

    def _gone(self) -> bool:
        """Return whether the process ended, or its number is another's by now."""
        found = self._table.one(self.pid)
        return found is None or abs(found.start_s - self.started_s) > 1.0

    def _refused(self, fault: OSError) -> StewardError:
        reason = _REASONS.get(fault.errno or 0, (fault.strerror or str(fault)).lower())
        hints = {
            "this user may not read its pages": "run steward as the same user or as root",
            "this kernel has no PAGEMAP_SCAN (Linux 6.7)": "a newer kernel tells which pages are used",
        }
        return StewardError(
            reason, where=f"process {self.pid}", hint=hints.get(reason, "watch another process")
        )


def _swap_free_bytes(proc: Path) -> int:
    for line in (proc / "meminfo").read_bytes().splitlines():
        if line.startswith(b"SwapFree:"):
            return int(line.split()[1]) * 1024
    return 0
