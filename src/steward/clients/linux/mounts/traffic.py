"""Reads file systems that are far away: NFS (mountstats) and Lustre (llite statistics).

What travels to and from their servers is on no disk of this machine: data loaders wait for it.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

from steward.clients.linux.files import UNREADABLE, AbsentError, OpenFile, folders_in
from steward.model.frame import path_part
from steward.model.layout import Block

__all__ = ["Mounts"]

_NAMES = (
    "mount.read_bytes/s",
    "mount.write_bytes/s",
    "mount.reads/s",
    "mount.writes/s",
    "mount.read_ms/s",
    "mount.write_ms/s",
)
_UNKNOWN = [math.nan] * len(_NAMES)
# Where Lustre has its statistics: newer versions keep them with debugging.
_LUSTRE = ("kernel/debug/lustre/llite", "fs/lustre/llite")
_FROM_SERVER = 5  # of the fields after `bytes:`, counted from it


class Mounts:
    """NFS and Lustre mounts: bytes, requests and how long these took, all together."""

    def __init__(self, proc: Path, sys: Path) -> None:
        self._file = OpenFile(_first(proc) / "mountstats")
        self._lustre = _lustre_in(proc, sys)
        self._nfs = tuple(self._mounted())
        if not self._nfs and not self._lustre:
            raise AbsentError("neither NFS nor Lustre is mounted")
        self.changed = False
        entities = (*(f"/{path_part('mount', where)}" for where in self._nfs), *self._lustre)
        self.blocks = tuple(Block(entity=entity, names=_NAMES) for entity in entities)

    def read(self) -> list[float]:
        now = self._mounted()
        self.changed = tuple(now) != self._nfs
        values = [value for where in self._nfs for value in now.get(where, _UNKNOWN)]
        for file in self._lustre.values():
            try:
                values += _of_lustre(file.read())
            except UNREADABLE:
                values += _UNKNOWN
        return values

    def _mounted(self) -> dict[str, list[float]]:
        """Return what each NFS mount counted, by where it is mounted."""
        try:
            text = self._file.read().decode("utf-8", "replace")
        except OSError:
            return {}  # a kernel without NFS has no such file
        found: dict[str, list[float]] = {}
        for part in f"\n{text}".split("\ndevice ")[1:]:
            head, _, rest = part.partition("\n")
            where = head.partition(" mounted on ")[2].partition(" with fstype nfs")
            if where[1] and not where[2].startswith("d"):  # nfsd is the server's own
                found[where[0]] = _of_nfs(rest)
        return found


def _of_nfs(text: str) -> list[float]:
    lines = {fields[0]: fields for line in text.splitlines() if (fields := line.split())}
    moved, read, write = (lines.get(key, []) for key in ("bytes:", "READ:", "WRITE:"))
    return [
        _field(moved, _FROM_SERVER),
        _field(moved, _FROM_SERVER + 1),
        _field(read, 1),
        _field(write, 1),
        _field(read, 8),  # from the request to its end, waiting for its turn included
        _field(write, 8),
    ]


def _of_lustre(data: bytes) -> list[float]:
    """Return bytes and requests; `read_bytes 7 samples [bytes] 4096 1048576 2100000`."""
    lines = {fields[0]: fields for line in data.decode().splitlines() if (fields := line.split())}
    read, write = lines.get("read_bytes", []), lines.get("write_bytes", [])
    moved = [_field(read, 6), _field(write, 6), _field(read, 1), _field(write, 1)]
    return [*moved, math.nan, math.nan]


def _field(fields: list[str], at: int) -> float:
    return float(fields[at]) if len(fields) > at else math.nan


def _first(proc: Path) -> Path:
    """Return the process whose mounts are the machine's; only root may look at the first one."""
    first = proc / "1"
    return first if os.access(first / "mountstats", os.R_OK) else proc / "self"


def _lustre_in(proc: Path, sys: Path) -> dict[str, OpenFile]:
    """Return the statistics of each file system; folders are called `scratch-ffff8810…`."""
    found: dict[str, OpenFile] = {}
    for root in (sys / _LUSTRE[0], proc / _LUSTRE[1]):
        for folder in folders_in(root):
            name = f"/mount:{folder.name.rpartition('-')[0] or folder.name}"
            entity = f"/mount:{folder.name}" if name in found else name
            found[entity] = OpenFile(folder / "stats")
    return found
