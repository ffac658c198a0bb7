"""Reads mountinfo: which file systems there are, each once, and which of them may hang."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Mount", "mounted"]

_FAR = ("nfs", "nfs4", "lustre", "ceph", "fuse.ceph", "gpfs", "beegfs")
_ON_THE_WAY = ("autofs", "fuse")  # a path through one of these may block on a program
_IMAGES = ("squashfs", "iso9660", "udf", "erofs", "cramfs")  # always full, and meant to be
_WITHOUT_DEVICE = (*_FAR, *_ON_THE_WAY, "btrfs", "zfs")
_NO_DEVICE, _LOOP = "0", "7"  # major numbers
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One file system where it is mounted. `far`: a call may hang for ever."""

    point: str
    far: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    device: str  # 8:1
    root: str  # what of the file system is mounted
    point: str
    kind: str
    source: str
    options: str

    @property
    def is_far(self) -> bool:
        return self.kind in _FAR

    @property
    def is_slow(self) -> bool:
        """Whether paths through it to another file system may block as well."""
        return self.is_far or self.kind.startswith(_ON_THE_WAY)

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk, and whole; part of one is a bind mount or a container's."""
        if self.kind == "btrfs":  # what is mounted is a subvolume, and whole as such
            return f"subvol={self.root}" in self.options.split(",")
        if self.kind == "zfs":
            return self.root == "/"
        major = self.device.partition(":")[0]
        return major not in (_NO_DEVICE, _LOOP) and self.kind not in _IMAGES and self.root == "/"

    @property
    def space(self) -> str:
        """What those that share their space have in common."""
        if self.kind == "zfs":
            return self.source.partition("/")[0]
        return self.source if self.kind == "btrfs" else self.device  # 0:38 is another each time


@lru_cache(maxsize=2)  # it is read every few seconds and seldom another one
def mounted(text: str) -> tuple[Mount, ...]:
    """Return the file systems of a mountinfo, each where it is mounted nearest to the root."""
    lines = _lines(text)
    slow = tuple(line.point.rstrip("/") + "/" for line in lines if line.is_slow)
    chosen: dict[str, _Line] = {}
    for line in sorted(lines, key=lambda each: (each.point.count("/"), each.point)):
        if line.is_far or line.is_local:
            chosen.setdefault(line.space, line)
    return tuple(
        Mount(point=line.point, far=line.is_far or line.point.startswith(slow))
        for line in sorted(chosen.values(), key=lambda each: each.point)
    )


def _lines(text: str) -> list[_Line]:
    """Take `36 35 98:0 / /mnt rw,noatime master:1 - ext4 /dev/sda1 rw` apart.

    What is mounted last covers what was there. A node has thousands of mounts of containers:
    nothing more is done for them.
    """
    found: dict[str, _Line] = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        where, what = left.split(" ", 5), right.split(" ", 2)
        if len(where) < 6 or len(what) < 3:
            continue  # it was cut short
        device, root, point = where[2:5]
        found.pop(point, None)
        if not device.startswith("0:") or what[0].startswith(_WITHOUT_DEVICE):
            found[point] = _Line(
                device=device,
                root=_plain(root),
                point=_plain(point),
                kind=what[0],
                source=_plain(what[1]),
                options=_plain(what[2]),
            )
    return list(found.values())


def _plain(text: str) -> str:
    r"""Return a path without the kernel's escapes: `/my\040data`."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text) if "\\" in text else text
