"""Reads /proc/stat: what the cores did, each and together."""

from __future__ import annotations

import math
from pathlib import Path

from steward.clients.linux.files import OpenFile
from steward.model.layout import Block

__all__ = ["Cores", "Processors"]

_PARTS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_TAIL = (b"ctxt", b"processes", b"procs_running", b"procs_blocked")
_IDLE, _WAITING = _PARTS.index("idle"), _PARTS.index("iowait")


class Processors:
    """All cores together. The busy share is that since the last reading, so the first has none."""

    changed = False
    blocks = (
        Block(
            entity="",
            names=(
                "stat.busy_share",
                *(f"stat.{part}" for part in _PARTS),
                "stat.intr",
                *(f"stat.{key.decode()}" for key in _TAIL),
            ),
        ),
    )

    def __init__(self, proc: Path) -> None:
        self._file = OpenFile(proc / "stat")
        self._busy = _Busy()
        _times(self._file.read().split(None, 12))

    def read(self) -> list[float]:
        data = self._file.read()
        times = _times(data.split(None, 12))
        return [self._busy.since(times), *times, *_tail(data)]


class Cores:
    """How busy each core was. Cores that go offline are left out, and come back."""

    def __init__(self, proc: Path) -> None:
        self._file = OpenFile(proc / "stat")
        self._names = [line[0] for line in self._lines()]
        self._busy = [_Busy() for _ in self._names]
        self.changed = False
        self.blocks = tuple(
            Block(entity=f"/{name.decode()}", names=("stat.core.busy_share",))
            for name in self._names
        )

    def read(self) -> list[float]:
        lines = self._lines()
        if [line[0] for line in lines] != self._names:
            self.changed = True
            return [math.nan] * len(self._names)
        return [busy.since(_times(line)) for busy, line in zip(self._busy, lines, strict=True)]

    def _lines(self) -> list[list[bytes]]:
        data = self._file.read()
        lines = data[data.find(b"\n") + 1 : max(0, data.find(b"\nintr"))].split(b"\n")
        return [line.split() for line in lines if line.startswith(b"cpu")]


class _Busy:
    """How much of the time between two readings was not idle."""

    __slots__ = ("_all", "_idle")

    def __init__(self) -> None:
        self._idle = self._all = math.nan

    def since(self, times: list[float]) -> float:
        idle, whole = times[_IDLE] + times[_WAITING], sum(times)
        grown = whole - self._all
        still = idle - self._idle
        self._idle, self._all = idle, whole
        if not grown > 0:
            return math.nan
        return min(1.0, max(0.0, 1.0 - still / grown))  # waiting for disks may be counted back


def _times(tokens: list[bytes]) -> list[float]:
    """Return a line's times. Guest time, which comes after them, is in user time already."""
    if not tokens[0].startswith(b"cpu"):
        raise ValueError("/proc/stat does not begin with its processors")
    times = [float(token) for token in tokens[1:9]]
    if len(times) < len(_PARTS):
        raise ValueError("/proc/stat is cut short")
    return times


def _tail(data: bytes) -> list[float]:
    at = data.find(b"\nintr ")
    intr = float(data[at + 6 : at + 27].split(None, 1)[0]) if at >= 0 else math.nan
    start = data.find(b"\nctxt ")
    tail = data[start:].split(None, 10) if start >= 0 else []
    found = dict(zip(tail[::2], tail[1::2], strict=False))
    return [intr, *(float(found.get(key, b"nan")) for key in _TAIL)]
