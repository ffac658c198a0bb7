"""Reads /proc/diskstats: each whole disk, and all of them together."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from steward.clients.linux.files import OpenFile, Row
from steward.model.layout import Block

__all__ = ["Disks"]

_NOT_DISKS = ("loop", "ram", "zram", "sr", "fd")
_PART = re.compile(r"(?:[a-z]d[a-z]+|(?:nvme\d+n|mmcblk|md|dm-)\d+p?)\d+$|^(?:md|dm-)")
# Of a line (after number, number, name): counts and sectors of reads and writes, then times.
_FIELDS = (3, 7, 5, 9, 6, 10, 12, 13)
_DONE, _SECTORS, _TIMES = slice(0, 2), slice(2, 4), slice(4, 8)
_MEANS = slice(4, 6)  # of the times, those of reads and of writes
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
        self._places = [i * self._stride + field for i in disks for field in _FIELDS]
        self.changed = False
        self.blocks = (
            Block(entity="", names=_ALL),
            *(Block(entity=f"/disk:{self._names[i].decode()}", names=_NAMES) for i in disks),
        )
        self._before = np.full((len(disks), len(_FIELDS)), np.nan)
        self._wrapped = np.zeros((len(disks), 4))

    def read(self, into: Row) -> None:
        into[:] = np.nan
        tokens = self._tokens()
        if tokens[2 :: self._stride] != self._names:
            self.changed = True  # a disk came or went
            return
        now = np.array([float(tokens[place]) for place in self._places]).reshape(-1, len(_FIELDS))
        self._unwrap(now[:, _TIMES])
        grown = now - self._before
        self._before = now
        into[:2] = now[:, _SECTORS].sum(axis=0)
        values = into[2:].reshape(now.shape)  # a view
        values[:] = now
        # The mean time of the requests since the last reading; unknown where there was none.
        done = grown[:, _DONE]
        done[~(done > 0)] = np.nan
        values[:, _MEANS] = grown[:, _MEANS] / done

    def _tokens(self) -> list[bytes]:
        data = self._file.read()
        self._stride = len(data.partition(b"\n")[0].split())
        return data.split()

    def _unwrap(self, times: Row) -> None:
        """Go on counting where milliseconds began anew; from far below, they were reset."""
        times += self._wrapped
        fell = self._before[:, _TIMES] - times > 0.75 * _WRAP
        if fell.any():
            self._wrapped[fell] += _WRAP
            times[fell] += _WRAP

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
