"""Reads this machine through /proc and /sys: everything that is there, in the kernel's names.

What a machine does not have (InfiniBand, energy counters, a container's /sys) is left out; what
it has and cannot be read at the moment is NaN.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steward.clients.linux.disks import Disks
from steward.clients.linux.files import (
    UNREADABLE,
    AbsentError,
    CachedReader,
    HostReader,
    KeyedFile,
    width_of,
)
from steward.clients.linux.memory import Load, MemoryReader, Paging, Pressure
from steward.clients.linux.mounts import BoundedStatvfs, FileSystems, Mounts
from steward.clients.linux.network import Network, Protocols
from steward.clients.linux.ports import Ports
from steward.clients.linux.processors import Cores, Processors
from steward.clients.linux.sensors import Energy, Errors, Temperatures
from steward.clients.linux.sockets import Sockets
from steward.model.layout import Block

__all__ = ["HostSource", "hostname"]

Make = Callable[[], HostReader]

_SEARCH_EVERY_S = 10.0  # for hardware that was plugged in


def hostname() -> str:
    """Return this machine's own name, without its domain."""
    return socket.gethostname().partition(".")[0] or "localhost"


@dataclass(slots=True)
class _Part:
    """One reader, if there is something for it to read."""

    make: Make
    reader: HostReader | None = None
    why: str = ""  # why there is none
    absent: bool = False  # the machine has nothing of the kind
    width: int = 0

    def renew(self) -> bool:
        """Make a new reader, unless nothing has changed; return whether anything has."""
        try:
            new: HostReader | None = self.make()
            self.why = ""
        except UNREADABLE as fault:
            new, self.why = None, _fault_text(fault)
            self.absent = isinstance(fault, AbsentError)
        before = self.reader.blocks if self.reader else ()
        other = before != (new.blocks if new else ())
        if other or (self.reader is not None and self.reader.changed):
            self.reader = new
            self.width = width_of(new.blocks) if new else 0
        return other

    def read(self) -> list[float]:
        if self.reader is None:
            return []
        try:
            return self.reader.read()
        except UNREADABLE:
            return [math.nan] * self.width


class HostSource:
    """All readers of this machine. `cores`: whether each core gets a row of its own."""

    def __init__(
        self,
        *,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        cores: bool = True,
        clock: Callable[[], float] = time.monotonic,
        named: Callable[[], str] = hostname,
    ) -> None:
        self.named = named
        self._clock = clock
        self._proc = proc
        self._lock = threading.Lock()
        self._parts: dict[str, _Part] = {
            name: _Part(make) for name, make in _makers(proc, sys, cores=cores, clock=clock).items()
        }
        self._blocks: tuple[Block, ...] = ()
        self._order = np.empty(0, dtype=np.intp)  # all numbers of an entity next to each other
        self._searched_s = -np.inf

    def blocks(self) -> tuple[Block, ...]:
        """Return what a reading has; the same object until devices come or go."""
        now_s = self._clock()
        with self._lock:
            if now_s - self._searched_s >= _SEARCH_EVERY_S:
                self._searched_s = now_s
                self._renew(list(self._parts.values()))
            elif changed := [p for p in self._parts.values() if p.reader and p.reader.changed]:
                self._renew(changed)
            return self._blocks

    def read(self, into: NDArray[np.float64]) -> None:
        """Read once. A part that cannot be read now is NaN; the others are not harmed."""
        numbers: list[float] = []
        with self._lock:  # another thread may be looking for new devices
            for part in self._parts.values():
                numbers += part.read()
            into[:] = np.array(numbers)[self._order]

    def close(self) -> None:
        """Drop all readers, which closes their files; `blocks` makes them again."""
        with self._lock:
            for part in self._parts.values():
                part.reader, part.width = None, 0
            self._blocks, self._order = (), np.empty(0, dtype=np.intp)
            self._searched_s = -np.inf

    def hidden(self) -> dict[str, str]:
        """Return what the machine has but cannot be read, and why."""
        self.blocks()
        return {
            name: part.why
            for name, part in self._parts.items()
            if not part.reader and not part.absent
        }

    def present(self) -> tuple[str, ...]:
        """Return the parts that can be read here."""
        self.blocks()
        return tuple(name for name, part in self._parts.items() if part.reader)

    def cpus(self) -> int:
        """Return how many cores are online, 0 where unknown."""
        try:
            return (self._proc / "stat").read_bytes().partition(b"\nintr")[0].count(b"\ncpu")
        except OSError:
            return 0

    def memory_bytes(self) -> int:
        """Return how much memory there is, 0 where unknown."""
        try:
            (kib,) = KeyedFile(self._proc / "meminfo", [b"MemTotal:"]).numbers()
        except UNREADABLE:
            return 0
        return 0 if math.isnan(kib) else int(kib) * 1024

    def _renew(self, parts: list[_Part]) -> None:
        """Make readers anew and, where anything is other, the order of all numbers."""
        other = [part.renew() for part in parts]
        if not any(other):
            return
        at = 0
        places: dict[str, list[int]] = {}
        names: dict[str, list[str]] = {}
        for part in self._parts.values():
            mine = part.reader.blocks if part.reader else ()
            for block in mine:
                names.setdefault(block.entity, []).extend(block.names)
                places.setdefault(block.entity, []).extend(range(at, at + len(block.names)))
                at += len(block.names)
        self._order = np.array([at for each in places.values() for at in each], dtype=np.intp)
        self._blocks = tuple(Block(entity=e, names=tuple(names[e])) for e in names)


def _makers(proc: Path, sys: Path, *, cores: bool, clock: Callable[[], float]) -> dict[str, Make]:
    patience = BoundedStatvfs()
    made: dict[str, Make] = {
        "processors": partial(Processors, proc),
        "memory": partial(MemoryReader, proc),
        "paging": partial(Paging, proc),
        "load": partial(Load, proc),
        "pressure": partial(Pressure, proc),
        "disks": partial(Disks, proc, sys),
        "network": partial(Network, proc, sys),
        "protocols": lambda: CachedReader(Protocols(proc), every_s=1.0, clock=clock),
        "energy": partial(Energy, sys),
        "InfiniBand": lambda: CachedReader(Ports(sys), every_s=1.0, clock=clock),
        "mounts": lambda: CachedReader(Mounts(proc, sys), every_s=1.0, clock=clock),
        "file systems": lambda: FileSystems(proc, patience, clock=clock),
        "sockets": lambda: CachedReader(Sockets(sys), every_s=5.0, clock=clock),
        "temperatures": lambda: CachedReader(Temperatures(sys), every_s=5.0, clock=clock),
        "memory errors": lambda: CachedReader(Errors(sys), every_s=10.0, clock=clock),
    }
    if cores:
        made["cores"] = lambda: CachedReader(Cores(proc), every_s=1.0, clock=clock)
    return made


def _fault_text(fault: BaseException) -> str:
    if isinstance(fault, OSError) and fault.errno:
        return f"{fault.filename}: {os.strerror(fault.errno)}"
    return str(fault)
