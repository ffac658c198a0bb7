"""Reads how full file systems are: on disks of this machine, and far away.

A call for one on a disk takes microseconds: the kernel has its figures in memory. If its server is
gone, the call never returns, so remote ones are called in a background thread.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from steward.clients.linux.files import AbsentError, OpenFile
from steward.clients.linux.mounts.statvfs import EVERY_S, UNKNOWN, BoundedStatvfs, figures
from steward.clients.linux.mounts.table import Mount, mounted
from steward.model.frame import path_part
from steward.model.layout import Block

__all__ = ["FileSystems"]

_NAMES = ("statvfs.used", "statvfs.size", "statvfs.available", "statvfs.inodes_used")


class FileSystems:
    """Used and available bytes of each file system, read every 30 seconds.

    `bounded` outlives this: a file system that hangs must not get another thread with every
    mount that comes or goes.
    """

    def __init__(
        self, proc: Path, bounded: BoundedStatvfs, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bounded = bounded
        self._clock = clock
        self._table, self._root = _machine(proc)
        self._mounts = self._mounted()
        if not self._mounts:
            raise AbsentError("no file system on a disk, and none far away")
        self.changed = False
        self.blocks = tuple(
            Block(entity=f"/{path_part('fs', mount.point)}", names=_NAMES) for mount in self._mounts
        )
        self._near: dict[Mount, list[float]] = {}
        self._gone: set[Mount] = set()
        self._looked_s = -math.inf

    def read(self) -> list[float]:
        now_s = self._clock()
        if now_s - self._looked_s >= EVERY_S:
            self._looked_s = now_s
            self._look()
        values: list[float] = []
        for mount in self._mounts:
            if mount.far and mount not in self._gone:
                values += self._bounded.read(self._path(mount), now_s)
            else:
                values += self._near.get(mount, UNKNOWN)
        return values

    def _look(self) -> None:
        """Read local ones; one that is unmounted would return the figures of the one below it."""
        there = self._mounted()
        self.changed = there != self._mounts
        self._gone = {mount for mount in self._mounts if mount not in there}
        self._near = {
            mount: self._values(mount)
            for mount in self._mounts
            if not mount.far and mount not in self._gone
        }
        for mount in self._gone:
            self._bounded.forget(self._path(mount))

    def _values(self, mount: Mount) -> list[float]:
        try:
            return figures(self._bounded.statvfs(self._path(mount)))
        except OSError:
            return UNKNOWN

    def _path(self, mount: Mount) -> str:
        return f"{self._root}{mount.point}"

    def _mounted(self) -> tuple[Mount, ...]:
        return mounted(self._table.read().decode("utf-8", "surrogateescape"))


def _machine(proc: Path) -> tuple[OpenFile, str]:
    """Return the mounts of the machine and where they are seen from here.

    In a container they are those of the first process, if we may look through its eyes.
    """
    first = proc / "1"
    if os.access(first / "mountinfo", os.R_OK) and os.access(first / "root", os.X_OK):
        return OpenFile(first / "mountinfo"), f"{first}/root"
    return OpenFile(proc / "self/mountinfo"), ""
