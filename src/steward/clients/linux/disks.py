"""Reads /proc/diskstats: each whole disk, and all of them together."""

from __future__ import annotations

import math
import re
from pathlib import Path

from steward.clients.linux.files import AbsentError, OpenFile
from steward.model.layout import Block

__all__ = ["Disks"]

_NOT_DISKS = ("loop", "ram", "zram", "sr", "fd")
_PART = re.compile(r"(?:[a-z]d[a-z]+|(?:nvme\d+n|mmcblk|md|dm-)\d+p?)\d+$|^(?:md|dm-)")
# Of a line (after number, number, name): counts and sectors of reads and writes, then times.
_FIELDS = (3, 7, 5, 9, 6, 10, 12, 13)
_NAMES = (
    "diskstats.reads",
    "diskstats.writes",
    "diskstats.read_sectors",
    "diskstats.write_sectors",
    "diskstats.read_mean_ms",
    "diskstats.write_mean_ms",
    "diskstats.busy_ms",
    "diskstats.queue_ms",
)
_ALL = ("diskstats.read_sectors/all", "diskstats.write_sectors/all")
_TIMES = (4, 5, 6, 7)
_FEWEST = 14  # fields of a line; newer kernels have more
_WRAP = 2.0**32  # the kernel shows milliseconds in 32 bits: a busy array wraps within days


class Disks:
    """Disks, without partitions and volumes on top of disks: their bytes are counted below."""

    def __init__(self, proc: Path, sys: Path) -> None:
        self._file = OpenFile(proc / "diskstats")
        self._blocks_folder = sys / "block"
        self._stride = 0
        tokens = self._tokens()
        self._names = tokens[2 :: self._stride]
        found = [name for name in self._names if self._is_disk(name.decode())]
        if not found:
            raise AbsentError("no disk in /proc/diskstats")
        self._disks = {name: _Disk() for name in found}
        self._locate()
        self.changed = False
        self.blocks = (
            Block(entity="", names=_ALL),
            *(Block(entity=f"/disk:{name.decode()}", names=_NAMES) for name in found),
        )

    def read(self) -> list[float]:
        tokens = self._tokens()
        names = tokens[2 :: self._stride]
        if names != self._names:
            self._names = names
            self._locate()
            there = {name for name in names if self._is_disk(name.decode())}
            self.changed = there != self._disks.keys()  # not only a partition came or went
        values = [0.0, 0.0]
        for disk in self._disks.values():
            mine = disk.values(tokens)
            values[0] += mine[2]
            values[1] += mine[3]
            values += mine
        return values

    def _locate(self) -> None:
        at = {name: i * self._stride for i, name in enumerate(self._names)}
        for name, disk in self._disks.items():
            disk.at = at.get(name, -1)

    def _tokens(self) -> list[bytes]:
        data = self._file.read()
        self._stride = len(data.partition(b"\n")[0].split())
        tokens = data.split()
        if self._stride < _FEWEST or len(tokens) % self._stride:
            raise ValueError("/proc/diskstats is cut short")
        return tokens

    def _is_disk(self, name: str) -> bool:
        if name.startswith(_NOT_DISKS):
            return False
        if not self._blocks_folder.is_dir():  # a container without /sys
            return not _PART.search(name)
        device = self._blocks_folder / name.replace("/", "!")
        if not device.exists():
            return False
        slaves = device / "slaves"
        return not (slaves.is_dir() and any(slaves.iterdir()))


class _Disk:
    """One line of the file, and its values before."""

    __slots__ = ("_before", "_wrapped", "at")

    def __init__(self) -> None:
        self.at = -1  # where its line begins; nowhere once it is gone
        self._before = [math.nan] * len(_FIELDS)
        self._wrapped = [0.0] * len(_FIELDS)

    def values(self, tokens: list[bytes]) -> list[float]:
        if self.at < 0:
            return [math.nan] * len(_NAMES)
        now = [float(tokens[self.at + field]) for field in _FIELDS]
        for i in _TIMES:
            now[i] += self._wrapped[i]
            # From far below the limit, it was a reset and not a new round.
            if self._before[i] - now[i] > 0.75 * _WRAP:
                self._wrapped[i] += _WRAP
                now[i] += _WRAP
        before, self._before = self._before, now
        reads, writes = now[0] - before[0], now[1] - before[1]
        return [
            *now[:4],
            (now[4] - before[4]) / reads if reads > 0 else math.nan,
            (now[5] - before[5]) / writes if writes > 0 else math.nan,
            *now[6:],
        ]
