"""Looks at the memory of one process: which blocks are near, far, and in use."""

from __future__ import annotations

from steward.clients.linux.pages.blocks import ProcessPages
from steward.errors import StewardError
from steward.model.event import Availability, Observation
from steward.model.memory.snapshot import MemorySnapshot

__all__ = ["ProcessMemory"]


class ProcessMemory:
    """The collector of the memory loop. A process that ends is told once and for all."""

    name = "process-memory"
    vocabulary = "canonical"

    def __init__(self, pages: ProcessPages) -> None:
        self._pages = pages

    def available(self) -> Availability:
        """Say whether the process can be read, and whether its writes are told."""
        try:
            seen = self._pages.snapshot(0.0)
        except StewardError as fault:
            return Availability(status="missing", reason=str(fault), hint=fault.hint)
        if seen.tracked_share < 1.0:
            return Availability(
                status="limited",
                reason=f"writes are told of {seen.tracked_share:.0%} of its blocks",
                hint="the program can register its memory: docs/memory.md, write tracking",
            )
        return Availability(status="ok", reason=f"{len(seen.start)} blocks")

    def collect(self, t_s: float) -> Observation:
        """Return the blocks as they are now, or that the process cannot be read any more."""
        pages = self._pages
        try:
            return Observation(memory=pages.snapshot(t_s))
        except StewardError as fault:
            gone = MemorySnapshot(
                t_s=t_s,
                pid=pages.pid,
                started_s=pages.started_s,
                name=pages.name,
                problem=fault.problem,
            )
            return Observation(memory=gone)

    def has_listed(self) -> bool:
        """Return True: one look names all blocks."""
        return True

    def close(self) -> None:
        """Close the files."""
        self._pages.close()
