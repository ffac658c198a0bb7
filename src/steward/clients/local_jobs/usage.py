"""What the processes of an attempt use, by the kernel's word on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from steward.clients.processes import Process, ProcessTable
from steward.model.identity import JobId

__all__ = ["AttemptUsage", "waits_in"]


class AttemptRecords(Protocol):
    """Where attempts are found: see `LocalEngine.records`."""

    def records(
        self, job: JobId, number: int
    ) -> tuple[Mapping[str, object], Mapping[str, object]]: ...


@dataclass
class AttemptUsage:
    """Processes, processor time and memory of attempts."""

    engine: AttemptRecords
    table: ProcessTable = field(default_factory=ProcessTable)

    def cpu_seconds(self, attempts: Iterable[tuple[JobId, int]]) -> dict[JobId, float]:
        """Return the processor time of each living attempt so far, in one look at all processes.

        It has that of the shim and of processes that have ended and were reaped, so it only grows.
        """
        wanted = list(attempts)
        if not wanted:
            return {}
        all_ = self.table.all()
        children = _children(all_.values())
        found = {}
        for job, number in wanted:
            pids = self._below(job, number, children)
            if pids:
                found[job] = sum(all_[pid].cpu_s for pid in pids if pid in all_)
        return found

    def pids(self, job: JobId, number: int) -> set[int]:
        """Return the processes of an attempt without its shim."""
        pids = self._below(job, number, _children(self.table.all().values()))
        return set(pids[1:])

    def memory_room(self, job: JobId, number: int) -> int | None:
        """Return how many bytes its memory limit leaves; None without a limit."""
        group = str(self.engine.records(job, number)[1].get("cgroup") or "")
        with suppress(OSError, ValueError):
            limit = int((Path(group) / "memory.max").read_text())  # `max` is no limit
            return limit - int((Path(group) / "memory.current").read_text())
        return None

    def _below(self, job: JobId, number: int, children: Mapping[int, list[int]]) -> list[int]:
        """Return the shim of a living attempt and all processes below it."""
        pid = self.engine.records(job, number)[0].get("pid")
        if not isinstance(pid, int):
            return []
        found = [pid]
        for each in found:
            found += children.get(each, [])
        return found


def _children(processes: Iterable[Process]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for each in processes:
        children.setdefault(each.parent, []).append(each.pid)
    return children


def waits_in(pid: int) -> str:
    """Return what the first thread of a process waits in: the number of a system call."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/syscall").read_text(encoding="ascii").split(" ", 1)[0].strip()
    return ""
