"""Reads counters of the processors, by perf_event_open(2).

Events are opened on every core, in as few groups as the processor has counters for: a group is
counted together and read with one call. Where there are more groups than counters, the kernel
takes turns; a count is then scaled by the part of the time in which it was taken.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from steward.errors import StewardError

__all__ = ["EVENTS", "HARDWARE", "SOFTWARE", "PerfCounters", "PerfKernel", "PerfSyscalls", "online"]

HARDWARE = (
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
)
SOFTWARE = ("task-clock", "context-switches", "cpu-migrations", "page-faults-min")
EVENTS = {  # type and number, from linux/perf_event.h
    "cycles": (0, 0),
    "instructions": (0, 1),
    "cache-references": (0, 2),
    "cache-misses": (0, 3),
    "branches": (0, 4),
    "branch-misses": (0, 5),
    "stalled-cycles-frontend": (0, 7),
    "stalled-cycles-backend": (0, 8),
    "task-clock": (1, 1),
    "context-switches": (1, 3),
    "cpu-migrations": (1, 4),
    "page-faults-min": (1, 5),
}
_SYSCALLS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_ATTR = struct.Struct("=IIQQQQQIIQ")  # perf_event_attr as it was at first
_TIMES_AND_GROUP = 1 | 2 | 8  # time enabled, time running, all of the group
_BY_CGROUP = 1 << 2
_CLOSE_ON_EXEC = 1 << 3


class PerfKernel(Protocol):
    """What is needed of the kernel; tests play one back."""

    def open(self, attr: bytes, *, who: int, cpu: int, leader: int, flags: int) -> int: ...

    def read(self, fd: int, size: int) -> bytes: ...

    def close(self, fd: int) -> None: ...

    def now_s(self) -> float: ...


class PerfSyscalls:
    """The real kernel."""

    def __init__(self) -> None:
        self._number = _SYSCALLS.get(platform.machine(), -1)
        self._call = ctypes.CDLL(None, use_errno=True).syscall

    def open(self, attr: bytes, *, who: int, cpu: int, leader: int, flags: int) -> int:
        if self._number < 0:
            raise OSError(errno.ENOSYS, f"unknown on {platform.machine()}")
        given = ctypes.create_string_buffer(attr, len(attr))
        fd = self._call(
            ctypes.c_long(self._number),
            given,
            ctypes.c_int(who),
            ctypes.c_int(cpu),
            ctypes.c_int(leader),
            ctypes.c_ulong(flags),
        )
        if fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return int(fd)

    def read(self, fd: int, size: int) -> bytes:
        return os.read(fd, size)

    def close(self, fd: int) -> None:
        os.close(fd)

    def now_s(self) -> float:
        return time.monotonic()


@dataclass(slots=True)
class _Group:
    """Events of one core that are counted together."""

    names: list[str] = field(default_factory=list)
    fds: list[int] = field(default_factory=list)
    before: tuple[int, ...] = ()  # time enabled, time running, counts


class PerfCounters:
    """Events of some cores, of everything that runs there or of one control group alone.

    `refused` has the events that the kernel would not count, and why. Close it when done.
    """

    def __init__(
        self,
        events: Sequence[str],
        cpus: Sequence[int],
        *,
        kernel: PerfKernel | None = None,
        cgroup: Path | None = None,
    ) -> None:
        self._kernel = kernel or PerfSyscalls()
        self._groups: list[_Group] = []
        self.refused: dict[str, OSError] = {}
        self._who, self._flags, folder = -1, _CLOSE_ON_EXEC, -1
        if cgroup is not None:
            self._who = folder = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
            self._flags |= _BY_CGROUP
        try:
            for cpu in cpus:
                self._open_core(cpu, [event for event in events if event not in self.refused])
        except OSError as fault:
            self.close()
            raise _too_many(fault, len(cpus)) from fault
        finally:
            if folder >= 0:
                os.close(folder)  # the events hold the group themselves
        self.events = tuple(event for event in events if event not in self.refused)
        self._totals = dict.fromkeys(self.events, 0.0)

    def totals(self) -> dict[str, float]:
        """Return each event's count since the events were opened, over all cores."""
        for group in self._groups:
            for name, grown in self._grown(group):
                self._totals[name] += grown
        return dict(self._totals)

    def close(self) -> None:
        """Stop counting."""
        for group in self._groups:
            for fd in reversed(group.fds):
                self._kernel.close(fd)
        self._groups = []

    def _open_core(self, cpu: int, events: Iterable[str]) -> None:
        groups: dict[str, _Group] = {}
        for event in events:
            kind = _kind(event)
            group = groups[kind] if kind in groups else self._begin()
            if not self._added(group, event, cpu) and event not in self.refused:
                group = self._begin()  # the other one is full
                self._added(group, event, cpu)
            groups[kind] = group

    def _begin(self) -> _Group:
        self._groups.append(_Group())
        return self._groups[-1]

    def _added(self, group: _Group, event: str, cpu: int) -> bool:
        kind, number = EVENTS[event]
        attr = _ATTR.pack(kind, _ATTR.size, number, 0, 0, _TIMES_AND_GROUP, 0, 0, 0, 0)
        leader = group.fds[0] if group.fds else -1
        try:
            fd = self._kernel.open(attr, who=self._who, cpu=cpu, leader=leader, flags=self._flags)
        except OSError as fault:
            if fault.errno in (errno.EMFILE, errno.ENFILE):
                raise
            full = leader >= 0 and fault.errno == errno.EINVAL
            if not full and fault.errno != errno.ENODEV:  # that is a core gone offline just now
                self.refused[event] = fault
            return False
        group.fds.append(fd)
        group.names.append(event)
        return True

    def _grown(self, group: _Group) -> Iterable[tuple[str, float]]:
        """Return how much each event of a group grew, as if it had been counted all the time."""
        if not group.fds:
            return ()
        size = 8 * (3 + len(group.names))
        try:
            data = self._kernel.read(group.fds[0], size)
        except OSError:
            return ()  # its core went offline
        if len(data) < size:
            return ()
        _, *now = struct.unpack(f"={3 + len(group.names)}Q", data)
        before = group.before or (0,) * len(now)
        group.before = tuple(now)
        enabled, running, *counts = (a - b for a, b in zip(now, before, strict=True))
        if running <= 0:
            return ()  # no task ran, or other users had the counters all the time
        scale = max(1.0, enabled / running)
        return [(name, count * scale) for name, count in zip(group.names, counts, strict=True)]


def _kind(event: str) -> str:
    """Return which events may share a group: a clock event must be alone in its group."""
    if event.endswith("-clock"):
        return event
    return "hardware" if event in HARDWARE else "software"


def online(sys: Path = Path("/sys")) -> tuple[int, ...]:
    """Return the cores that are online: `0-3,8` is five of them."""
    try:
        text = (sys / "devices/system/cpu/online").read_text(encoding="utf-8").strip()
        parts = [[int(end) for end in part.split("-")] for part in text.split(",")]
    except (OSError, ValueError):
        return tuple(range(os.cpu_count() or 1))
    return tuple(cpu for part in parts for cpu in range(part[0], part[-1] + 1))


def _too_many(fault: OSError, cpus: int) -> StewardError:
    return StewardError(
        f"events of {cpus} cores cannot be opened: {fault.strerror}",
        where="perf_event_open",
        hint="raise the limit of open files (`ulimit -n`, LimitNOFILE= in the unit)",
    )
