"""A kernel that answers perf_event_open: a processor with so many counters, and known counts."""

from __future__ import annotations

import errno
import os
import struct

from steward.clients.perf import EVENTS

NAMES = {number: name for name, number in EVENTS.items()}


class FakeKernel:
    """Counts what it is told. `counters` is how many hardware events fit into one group."""

    def __init__(self, *, counters: int = 6, refuse: dict[str, int] | None = None) -> None:
        self.counters = counters
        self.refuse = refuse or {}
        self.most_open = 1 << 20
        self.counts: dict[str, int] = dict.fromkeys(EVENTS, 0)
        self.enabled_ns = 0
        self.running_ns = 0
        self.offline: set[int] = set()
        self.events: dict[int, tuple[str, int, int]] = {}  # fd: event, core, leader
        self.time_s = 100.0
        self._next = 1000

    def open(self, attr: bytes, *, who: int, cpu: int, leader: int, flags: int) -> int:
        kind, size, number = struct.unpack_from("=IIQ", attr)
        assert size == len(attr) == 64
        name = NAMES[kind, number]
        if name in self.refuse:
            raise _fault(self.refuse[name])
        if len(self.events) >= self.most_open:
            raise _fault(errno.EMFILE)
        if kind == 0 and leader >= 0 and len(self._group(leader)) >= self.counters:
            raise _fault(errno.EINVAL)
        self._next += 1
        self.events[self._next] = (name, cpu, leader if leader >= 0 else self._next)
        return self._next

    def read(self, fd: int, size: int) -> bytes:
        name, cpu, _ = self.events[fd]
        if cpu in self.offline:
            return b""
        group = self._group(fd)
        counts = [self.counts[each] for each in group]
        hardware = EVENTS[name][0] == 0
        running_ns = self.running_ns if hardware else self.enabled_ns
        return struct.pack(f"={3 + len(group)}Q", len(group), self.enabled_ns, running_ns, *counts)

    def close(self, fd: int) -> None:
        del self.events[fd]

    def now_s(self) -> float:
        return self.time_s

    def passes(self, *, enabled_ns: int, running_ns: int | None = None, **counts: int) -> None:
        """Let time pass in which each core counted so much."""
        self.enabled_ns += enabled_ns
        self.running_ns += enabled_ns if running_ns is None else running_ns
        for name, count in counts.items():
            self.counts[name.replace("_", "-")] += count

    def _group(self, leader: int) -> list[str]:
        return [name for name, _, of in self.events.values() if of == leader]


def _fault(code: int) -> OSError:
    return OSError(code, os.strerror(code))
