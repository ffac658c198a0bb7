"""Reads /proc/diskstats: each whole disk, and all of them together."""

from __future__ import annotations

import math
import re
from pathlib import Path

from steward.clients.linux.files import OpenFile
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
_WRAP = 2.0**32  # the kernel shows milliseconds in 32 bits: a busy array wraps within days


class Disks:
    """Disks, without partitions and volumes on top of disks: their bytes are counted below."""

    def __init__(self, proc: Path, sys: Path) -> None:
        self._file = OpenFile(proc / "diskstats")
        self._blocks_folder = sys / "block"
        tokens = self._tokens()
        self._names = tokens[2 :: self._stride]
        disks = [i for i, name in enumerate(self._names) if self._is_disk(name.decode())]
        if not disks:
            raise FileNotFoundError(f"no disk in {proc / 'diskstats'}")
        self._disks = [_Disk(at=i * self._stride) for i in disks]
        self.changed = False
        self.blocks = (
            Block(entity="", names=_ALL),
            *(Block(entity=f"/disk:{self._names[i].decode()}", names=_NAMES) for i in disks),
        )

    def read(self) -> list[float]:
        tokens = self._tokens()
        if tokens[2 :: self._stride] != self._names:
            self.changed = True  # a disk came or went
            raise ValueError("other disks than before")
        values = [0.0, 0.0]
        for disk in self._disks:
            mine = disk.values(tokens)
            values[0] += mine[2]
            values[1] += mine[3]
            values += mine
        return values

    def _tokens(self) -> list[bytes]:
        data = self._file.read()
        self._stride = len(data.partition(b"\n")[0].split())
        return data.split()

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
    """One line of the file, and what it said before."""

    __slots__ = ("_before", "_places", "_wrapped")

    def __init__(self, *, at: int) -> None:
        self._places = [at + field for field in _FIELDS]
        self._before = [math.nan] * len(_FIELDS)
        self._wrapped = [0.0] * len(_FIELDS)

    def values(self, tokens: list[bytes]) -> list[float]:
        now = [float(tokens[place]) for place in self._places]
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
