"""Reads what control groups count: all files of one group, v1 or v2, as far as it has them.

v2 has everything in one folder. With v1, each controller has a folder of its own for the group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steward.clients.cgroups import UNIFIED
from steward.clients.linux.files import UNREADABLE, KeyedFile, OpenFile
from steward.clients.linux.memory import pressure_totals
from steward.model.layout import Block

__all__ = ["GroupReader", "often", "seldom"]

Numbers = Callable[[Path], Callable[[], list[float]]]  # opens a file; what it gives reads it

_UNLIMITED = 2.0**62  # v1 writes "no limit" as a number just below 2^63


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """One file of a group: whose hierarchy it is in, what it is about, and its numbers."""

    controller: str
    file: str
    about: str  # of two files about the same, the first that is there is read
    names: tuple[str, ...]
    opened: Numbers


def _keyed(*keys: str) -> Numbers:
    return lambda path: KeyedFile(path, [key.encode() for key in keys]).numbers


def _single(path: Path) -> Callable[[], list[float]]:
    file = OpenFile(path)

    def read() -> list[float]:
        data = file.read().strip()
        number = math.inf if data == b"max" else float(data)
        return [number if number < _UNLIMITED else math.nan]

    return read


def _resident(*keys: str) -> Numbers:
    """Open memory.stat; what is resident is memory without a file, and files that are mapped."""

    def opened(path: Path) -> Callable[[], list[float]]:
        file = KeyedFile(path, [key.encode() for key in keys])

        def read() -> list[float]:
            anon, file_bytes, mapped, *rest = file.numbers()
            return [anon, file_bytes, anon + mapped, *rest]

        return read

    return opened


def _cores(path: Path) -> Callable[[], list[float]]:
    """Open cpu.max (`200000 100000`), or cpu.cfs_quota_us with its period file."""
    file, period_file = OpenFile(path), OpenFile(path.with_name("cpu.cfs_period_us"))

    def read() -> list[float]:
        quota, *period = file.read().split()
        if quota in (b"max", b"-1"):
            return [math.nan]
        return [float(quota) / (float(period[0]) if period else period_file.number())]

    return read


def _second_io(path: Path) -> Callable[[], list[float]]:
    """Open io.stat: `254:0 rbytes=4096 wbytes=0 rios=1 wios=0 …`, a line for each disk."""
    file = OpenFile(path)
    keys = (b"rbytes=", b"wbytes=", b"rios=", b"wios=")

    def read() -> list[float]:
        tokens = file.read().split()
        return [
            float(sum(int(token[len(key) :]) for token in tokens if token.startswith(key)))
            for key in keys
        ]

    return read


def _first_io(path: Path) -> Callable[[], list[float]]:
    """Open blkio's files: `254:0 Read 4096`, a line for each disk and kind.

    Newer kernels count here only what a scheduler (bfq) or a limit needs. No line at all
    is therefore unknown, and not zero.
    """
    files = [OpenFile(path), OpenFile(path.with_name(path.name.replace("throttle", "bfq")))]

    def read() -> list[float]:
        for file in files:
            tokens = file.read().split()
            if b"Read" in tokens:
                return [
                    float(sum(int(tokens[i + 1]) for i, each in enumerate(tokens) if each == key))
                    for key in (b"Read", b"Write")
                ]
        return [math.nan, math.nan]

    return read


def _pressure(path: Path) -> Callable[[], list[float]]:
    file = OpenFile(path)

    def read() -> list[float]:
        totals = pressure_totals(file.read())
        return [totals.get("some", math.nan), totals.get("full", math.nan)]

    return read


def _source(controller: str, file: str, about: str, names: str, opened: Numbers) -> _Source:
    keys = tuple(f"cgroup.{name}" for name in names.split())
    return _Source(controller=controller, file=file, about=about, names=keys, opened=opened)


_OFTEN = (
    _source("cpuacct", "cpuacct.usage", "cpu", "cpuacct.usage", _single),
    _source("cpuacct", "cpuacct.usage_user", "user", "cpuacct.usage_user", _single),
    _source("cpuacct", "cpuacct.usage_sys", "system", "cpuacct.usage_sys", _single),
    _source("cpu", "cpu.stat", "throttled", "cpu.stat.throttled_time", _keyed("throttled_time")),
    _source(
        UNIFIED,
        "cpu.stat",
        "cpu",
        "cpu.stat.usage_usec cpu.stat.user_usec cpu.stat.system_usec cpu.stat.throttled_usec",
        _keyed("usage_usec", "user_usec", "system_usec", "throttled_usec"),
    ),
    _source("memory", "memory.usage_in_bytes", "memory", "memory.current", _single),
    _source(UNIFIED, "memory.current", "memory", "memory.current", _single),
    _source(
        "blkio", "blkio.throttle.io_service_bytes_recursive", "io", "io.rbytes io.wbytes", _first_io
    ),
    _source("blkio", "blkio.throttle.io_serviced_recursive", "ios", "io.rios io.wios", _first_io),
    _source(UNIFIED, "io.stat", "io", "io.rbytes io.wbytes io.rios io.wios", _second_io),
    _source("pids", "pids.current", "pids", "pids.current", _single),
    _source(UNIFIED, "pids.current", "pids", "pids.current", _single),
)
_STAT = "memory.anon memory.file memory.resident memory.pgfault/s memory.pgmajfault/s"
_SELDOM = (
    _source(
        "memory",
        "memory.stat",
        "stat",
        f"{_STAT} memory.swap",
        _resident(
            "total_rss",
            "total_cache",
            "total_mapped_file",
            "total_pgfault",
            "total_pgmajfault",
            "total_swap",
        ),
    ),
    _source(
        UNIFIED,
        "memory.stat",
        "stat",
        _STAT,
        _resident("anon", "file", "file_mapped", "pgfault", "pgmajfault"),
    ),
    _source(UNIFIED, "memory.swap.current", "swap", "memory.swap", _single),
    _source("memory", "memory.max_usage_in_bytes", "peak", "memory.peak", _single),
    _source(UNIFIED, "memory.peak", "peak", "memory.peak", _single),
    _source("memory", "memory.limit_in_bytes", "limit", "memory.limit", _single),
    _source(UNIFIED, "memory.max", "limit", "memory.limit", _single),
    _source("memory", "memory.oom_control", "oom", "memory.oom_kill/s", _keyed("oom_kill")),
    _source(UNIFIED, "memory.events", "oom", "memory.oom_kill/s", _keyed("oom_kill")),
    _source("cpu", "cpu.cfs_quota_us", "cores", "cpu.limit", _cores),
    _source(UNIFIED, "cpu.max", "cores", "cpu.limit", _cores),
    *(
        _source(
            UNIFIED,
            f"{what}.pressure",
            f"{what} pressure",
            f"pressure.{what}.some/s pressure.{what}.full/s",
            _pressure,
        )
        for what in ("cpu", "memory", "io")
    ),
)


class GroupReader:
    """Some numbers of one control group, those that it has."""

    changed = False

    def __init__(self, folders: Mapping[str, Path], sources: Sequence[_Source]) -> None:
        self._opened: list[tuple[Callable[[], list[float]], int]] = []
        names: list[str] = []
        about: set[str] = set()
        for source in sources:
            folder = folders.get(source.controller)
            if folder is None or source.about in about or not (folder / source.file).exists():
                continue
            about.add(source.about)
            self._opened.append((source.opened(folder / source.file), len(source.names)))
            names += source.names
        self.blocks = (Block(entity="", names=tuple(names)),)

    def read(self) -> list[float]:
        values: list[float] = []
        for read, width in self._opened:
            try:
                values += read()
            except UNREADABLE:
                values += [math.nan] * width
        return values


def often(folders: Mapping[str, Path]) -> GroupReader:
    """Return what is read at every tick: processor time, memory, bytes of disks, tasks."""
    return GroupReader(folders, _OFTEN)


def seldom(folders: Mapping[str, Path]) -> GroupReader:
    """Return what is dear to read: parts of memory, faults, limits, pressure."""
    return GroupReader(folders, _SELDOM)
