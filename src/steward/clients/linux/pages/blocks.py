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

__all__ = ["BLOCK_BYTES", "LOOK_PAGES", "ProcessPages"]

BLOCK_BYTES = 2 << 20  # as a huge page: those are moved whole
LOOK_PAGES = 24_576  # in one look: about 5 ms of one core
_MAPPINGS_EVERY_S = 1.0
_NO_SCAN = "this kernel has no PAGEMAP_SCAN (Linux 6.7)"
_REASONS = {
    errno.EPERM: "this user may not read its pages",
    errno.EACCES: "this user may not read its pages",
    errno.ESRCH: "the process has ended",
    errno.ENOENT: "the process has ended",
    errno.ENOTTY: _NO_SCAN,
    errno.EINVAL: _NO_SCAN,
}


class ProcessPages:
    """The private memory of one process, read again and again.

    A look is at the next blocks in turn, `look_pages` at most, so that it costs the same however
    large the process is. Mappings are read once a second. Where the process
    registered its memory, written pages are told; else what was referenced, by mapping.
    """

    def __init__(
        self,
        pid: int,
        *,
        proc: Path = Path("/proc"),
        block_bytes: int = BLOCK_BYTES,
        look_pages: int = LOOK_PAGES,
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
        self._look_pages = look_pages
        self._page_bytes = mmap.PAGESIZE
        self._mappings: list[Mapping] = []
        self._read_s = -np.inf
        self._starts = self._ends = np.zeros(0, np.uint64)
        self._references = np.zeros(0)
        self._present, self._swapped, self._huge = (np.zeros(0, np.int64) for _ in range(3))
        self._tracked = np.zeros(0, np.bool_)
        self._next = 0  # block of the next look
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
        looked = self._next_look()
        written = np.zeros(len(self._starts), np.int64)
        for mapping, rows in self._by_mapping(looked):
            self._look_at(mapping, rows, written)
        if self._gone():
            raise ProcessLookupError(errno.ESRCH, "the process has ended", str(self.pid))
        referenced = np.ceil(self._references * self._present)
        used = np.where(self._tracked, written, referenced) * looked
        return MemorySnapshot(
            t_s=t_s,
            pid=self.pid,
            started_s=self.started_s,
            name=self.name,
            start=self._starts.astype(np.int64),
            end=self._ends.astype(np.int64),
            present=self._present.copy(),
            swapped=self._swapped.copy(),
            used=used.astype(np.int64),
            huge=self._huge.copy(),
            looked=looked,
            tracked_share=float(self._tracked.mean()) if len(self._tracked) else 0.0,
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
        before = self._starts
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
        self._keep_counts(before)
        forget_references(self.pid, self._proc)

    def _keep_counts(self, before: NDArray[np.uint64]) -> None:
        """Carry over what is known of blocks that are still there."""
        if np.array_equal(before, self._starts):
            return
        place = np.minimum(np.searchsorted(before, self._starts), max(0, len(before) - 1))
        known = before[place] == self._starts if len(before) else np.zeros(len(place), np.bool_)
        for name in ("_present", "_swapped", "_huge", "_tracked"):
            old = getattr(self, name)
            new = np.zeros(len(self._starts), old.dtype)
            new[known] = old[place[known]]
            setattr(self, name, new)
        self._next = 0

    def _next_look(self) -> NDArray[np.bool_]:
        """Return which blocks are looked at now: the next ones in turn, as many as may be."""
        pages = ((self._ends - self._starts) // self._page_bytes).astype(np.int64)
        looked = np.zeros(len(pages), np.bool_)
        if not len(pages):
            return looked
        turned = np.roll(np.arange(len(pages)), -self._next)
        count = int(np.searchsorted(np.cumsum(pages[turned]), self._look_pages, side="right"))
        count = min(len(pages), max(1, count))
        looked[turned[:count]] = True
        self._next = int((self._next + count) % len(pages))
        return looked

    def _look_at(
        self, mapping: Mapping, rows: NDArray[np.int64], written: NDArray[np.int64]
    ) -> None:
        """Take in blocks of one mapping, which lie side by side."""
        some = self._starts[rows], self._ends[rows]
        start, end = int(some[0][0]), int(some[1][-1])
        ranges = self._pagemap.residence(start, min(end, mapping.end))
        self._present[rows] = self._of(ranges, PRESENT, some)
        self._swapped[rows] = self._of(ranges, SWAPPED, some)
        self._huge[rows] = self._of(ranges, HUGE, some)
        if len(ranges):
            self._tracked[rows] = bool((ranges[:, 2] & TRACKED).all())
        if self._tracked[rows[0]]:
            changed = self._pagemap.written(start, min(end, mapping.end))
            written[rows] = pages_by_block(changed, *some, self._page_bytes)

    def _by_mapping(self, looked: NDArray[np.bool_]) -> list[tuple[Mapping, NDArray[np.int64]]]:
        """Return runs of blocks that lie side by side, with the mapping that they are in."""
        rows = np.flatnonzero(looked)
        if not len(rows):
            return []
        firsts = np.array([each.start for each in self._mappings], np.uint64)
        which = np.searchsorted(firsts, self._starts[rows], side="right") - 1
        breaks = np.flatnonzero((np.diff(which) != 0) | (np.diff(rows) != 1)) + 1
        return [
            (self._mappings[which[part[0]]], rows[part])
            for part in np.split(np.arange(len(rows)), breaks)
        ]

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
            _NO_SCAN: "a newer kernel tells which pages are used",
        }
        return StewardError(
            reason, where=f"process {self.pid}", hint=hints.get(reason, "watch another process")
        )


def _swap_free_bytes(proc: Path) -> int:
    for line in (proc / "meminfo").read_bytes().splitlines():
        if line.startswith(b"SwapFree:"):
            return int(line.split()[1]) * 1024
    return 0
