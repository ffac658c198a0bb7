"""Reads memory, paging, load and pressure of the machine as a whole."""

from __future__ import annotations

import errno
import math
import os
from pathlib import Path

from steward.clients.linux.files import UNREADABLE, KeyedFile, OpenFile
from steward.model.layout import Block

__all__ = ["Load", "MemoryReader", "Paging", "Pressure", "pressure_totals"]

_MEMORY = (
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "SwapTotal",
    "SwapFree",
    "Dirty",
    "Writeback",
    "AnonPages",
    "Mapped",
    "Shmem",
    "Slab",
    "PageTables",
    "Mlocked",
    "AnonHugePages",
    "Hugetlb",
)
_COUNTS = (
    "pgfault",
    "pgmajfault",
    "pswpin",
    "pswpout",
    "oom_kill",
    "pgsteal_direct",
    "workingset_refault_file",
    "compact_stall",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "numa_pages_migrated",
    "numa_hint_faults",
)
_RECLAIM = ("direct", "kswapd", "khugepaged", "proactive")  # the later two are newer
_PRESSURE = (
    ("cpu", ("some",)),  # `full` means nothing for all of a machine's processors
    ("memory", ("some", "full")),
    ("io", ("some", "full")),
    ("irq", ("full",)),
)


class MemoryReader:
    """What memory is used for: /proc/meminfo."""

    changed = False

    def __init__(self, proc: Path) -> None:
        self._file = KeyedFile(proc / "meminfo", [f"{key}:".encode() for key in _MEMORY])
        names = [f"meminfo.{key}" for key in _MEMORY if key != "SwapFree"]
        self.blocks = (Block(entity="", names=(*names, "meminfo.swap_used", "meminfo.used")),)
        self._file.numbers()

    def read(self) -> list[float]:
        found = self._file.numbers()
        swap_free = found.pop(_MEMORY.index("SwapFree"))
        total, free, available = found[:3]
        if available > total:  # containers that hide part of the memory have it so
            found[2] = available = free
        return [*found, found[5] - swap_free, total - available]


class Paging:
    """Page faults, swapping and reclaim: /proc/vmstat."""

    changed = False

    def __init__(self, proc: Path) -> None:
        reclaim = [f"pg{what}_{origin}" for what in ("steal", "scan") for origin in _RECLAIM]
        keys = [key.encode() for key in (*_COUNTS, *reclaim)]
        self._file = KeyedFile(proc / "vmstat", keys)
        names = [f"vmstat.{key}" for key in (*_COUNTS, "pgsteal", "pgscan")]
        self.blocks = (Block(entity="", names=tuple(names)),)
        self._file.numbers()

    def read(self) -> list[float]:
        found = self._file.numbers()
        taken, kinds = len(_COUNTS), len(_RECLAIM)
        stolen, scanned = found[taken : taken + kinds], found[taken + kinds :]
        return [*found[:taken], _sum_of_known(stolen), _sum_of_known(scanned)]


class Load:
    """Mean number of runnable tasks: /proc/loadavg."""

    changed = False
    blocks = (Block(entity="", names=("loadavg.1m",)),)

    def __init__(self, proc: Path) -> None:
        self._file = OpenFile(proc / "loadavg")
        self._file.number()

    def read(self) -> list[float]:
        return [self._file.number()]


class Pressure:
    """How long tasks had to wait: /proc/pressure. A kernel started with psi=0 has none."""

    changed = False

    def __init__(self, proc: Path) -> None:
        self._files: list[tuple[OpenFile, tuple[str, ...]]] = []
        names: list[str] = []
        for what, wanted in _PRESSURE:
            file = OpenFile(proc / "pressure" / what)
            try:
                kinds = tuple(kind for kind in wanted if kind in pressure_totals(file.read()))
            except UNREADABLE:
                continue
            self._files.append((file, kinds))
            names += [f"pressure.{what}.{kind}" for kind in kinds]
        if not names:
            why = os.strerror(errno.ENOENT)
            raise FileNotFoundError(errno.ENOENT, why, str(proc / "pressure"))
        self.blocks = (Block(entity="", names=tuple(names)),)

    def read(self) -> list[float]:
        values: list[float] = []
        for file, kinds in self._files:
            try:
                totals = pressure_totals(file.read())
            except UNREADABLE:
                totals = {}
            values += [totals.get(kind, math.nan) for kind in kinds]
        return values


def pressure_totals(data: bytes) -> dict[str, float]:
    """Return microseconds waited by `some` and `full`."""
    tokens = data.split()  # five to a line: some avg10=… avg60=… avg300=… total=…
    return {
        tokens[at].decode("ascii"): float(tokens[at + 4].removeprefix(b"total="))
        for at in range(0, len(tokens) - 4, 5)
    }


def _sum_of_known(parts: list[float]) -> float:
    known = [part for part in parts if not math.isnan(part)]
    return sum(known) if known else math.nan
