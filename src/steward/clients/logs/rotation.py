"""Rotation of log files: which names are old ones, and where a file was moved."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["COMPRESSED", "found", "name_before", "neighbours", "with_inode"]

# gzip, zstd, xz, bzip2, lz4: rotated files that were read before they were packed.
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"BZh", b"\x04\x22\x4d\x18")
_PACKED = re.compile(r"\.(gz|zst|xz|bz2|lz4|Z)$")
# `app.log.1`, `app.log-20260519`, `0.log.20260519-070857` (kubelet), `app.log.old`
_OLD = re.compile(r"^(?P<now>.+?)(\.\d{1,4}|[.-]\d{8}([-_]?\d{2,6})?|[.-]\d{10}|\.old|\.bak|~)$")


def found(patterns: Sequence[str]) -> Iterator[str]:
    """Yield the files that patterns name, less those that rotation has put aside.

    A name such as `rank.1` is an old file only where there is a `rank` next to it. A path without
    `*` is taken as it is.
    """
    for pattern in patterns:
        if not glob.has_magic(pattern):
            yield pattern
            continue
        paths = set(glob.glob(pattern, recursive=True))  # noqa: PTH207 - strings, for speed
        for path in sorted(paths):
            if not _PACKED.search(path) and not _put_aside(path, paths):
                yield path


def _put_aside(path: str, paths: set[str]) -> bool:
    old = _OLD.match(path)
    return old is not None and (old["now"] in paths or Path(old["now"]).exists())


def name_before(path: str) -> str:
    """Return what a file was called before it was put aside and packed; itself if it was not.

    >>> name_before("app.log.2.gz"), name_before("app.log-20260519"), name_before("app.log")
    ('app.log', 'app.log', 'app.log')
    """
    plain = _PACKED.sub("", path)
    old = _OLD.match(plain)
    return old["now"] if old else plain


def with_inode(path: str, identity: tuple[int, int]) -> str:
    """Return where a file is that was called `path`; empty if it is not in that folder now."""
    for entry in _entries(path):
        if entry.inode() == identity[1]:
            status = entry.stat()
            if (status.st_dev, status.st_ino) == identity:
                return entry.path
    return ""


def neighbours(path: str, *, since_ns: int) -> list[str]:
    """Return what was put aside of `path` and written to since then, oldest first."""
    name = Path(path).name
    near = [
        (entry.stat().st_mtime_ns, entry.path)
        for entry in _entries(path)
        if entry.name.startswith(name)
        and _OLD.match(entry.name)
        and entry.stat().st_mtime_ns >= since_ns
    ]
    return [place for _, place in sorted(near)]


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(Path(path).parent) as entries:
            return [entry for entry in entries if entry.is_file()]
    except OSError:
        return []
