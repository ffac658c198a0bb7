"""Files of the kernel that stay open, and what everything that reads them looks like."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from steward.model.layout import Block

__all__ = [
    "UNREADABLE",
    "AbsentError",
    "CachedReader",
    "HostReader",
    "KeyedFile",
    "OpenFile",
    "folders_in",
    "number_in",
    "numbers_of",
    "width_of",
]


class AbsentError(Exception):
    """A machine has no such hardware: nothing is wrong, and nothing is hidden."""


# What goes wrong with files that are gone, refused, cut short, or not what they should be.
UNREADABLE = (OSError, ValueError, IndexError, AbsentError)

_CHUNK = 1 << 14
_PIECE = 3072  # the kernel gives long files in pieces of a page, less the line that did not fit


class OpenFile:
    """One file, opened at its first reading and kept open."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    def __del__(self) -> None:
        self.close()

    def read(self) -> bytes:
        """Return the whole file as it is now."""
        data = more = self._chunk(0)
        while len(more) >= _PIECE:
            more = self._chunk(len(data))
            data += more
        return data

    def number(self) -> float:
        """Return the number that a small file begins with, as in `17` or `4: ACTIVE`."""
        return float(self._chunk(0).split(None, 1)[0].rstrip(b":"))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _chunk(self, at: int) -> bytes:
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(self._fd, _CHUNK, at)
        except OSError as fault:
            self.close()  # a device that went and came back is another file
            raise OSError(fault.errno, fault.strerror, str(self.path)) from fault


class HostReader(Protocol):
    """One part of a machine. `blocks` name devices as paths below the node, "" for itself.

    `changed`: devices came or went, so that a new reader is needed. `read` returns a value for
    each name, or raises one of `UNREADABLE`. Values are plain lists: a tick comes with cold
    caches, and then each call into numpy costs more than all the arithmetic of a part.
    """

    @property
    def blocks(self) -> tuple[Block, ...]: ...

    @property
    def changed(self) -> bool: ...

    def read(self) -> list[float]: ...


class KeyedFile:
    """A file with keys and numbers in turn, of which some are read: /proc/vmstat, meminfo.

    `keys` are those of the file; one that it does not have is unknown. Where each stands is
    found out once, since the kernel writes the same lines every time; that they are still there
    is looked at every time.
    """

    def __init__(self, path: Path, keys: Sequence[bytes]) -> None:
        self._file = OpenFile(path)
        self._wanted_keys = tuple(keys)
        self._found: list[bytes] = []
        self._key_places: list[int] = []
        self._places: list[int] = []

    def numbers(self) -> list[float]:
        """Return the wanted numbers, NaN for those that are not there."""
        tokens = self._file.read().split()
        tokens.append(b"nan")  # the value of missing keys
        if not self._key_places or self._seen(tokens) != self._found:
            self._find(tokens)
        return [float(tokens[place]) for place in self._places]

    def _seen(self, tokens: list[bytes]) -> list[bytes]:
        if self._key_places[-1] >= len(tokens):
            return []  # the file has become shorter
        return [tokens[key] for key in self._key_places]

    def _find(self, tokens: list[bytes]) -> None:
        at = {key: i for i, key in enumerate(tokens[:-1])}
        self._key_places = sorted(at[key] for key in self._wanted_keys if key in at)
        self._found = [tokens[key] for key in self._key_places]
        self._places = [at[key] + 1 if key in at else -1 for key in self._wanted_keys]


class CachedReader:
    """A reader that is read seldom: its last values are returned until it is due again.

    What its names call `…/s` are counters there, and become rates between two reads here. One
    that fell was reset: unknown until the next time.
    """

    def __init__(
        self, reader: HostReader, *, every_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reader = reader
        self._every_s = every_s
        self._clock = clock
        self.blocks = reader.blocks
        self._grows = [name.endswith("/s") for block in self.blocks for name in block.names]
        self._unknown = [math.nan] * len(self._grows)
        self._raw = self._values = self._unknown
        self._read_s = -math.inf

    @property
    def changed(self) -> bool:
        return self._reader.changed

    def read(self) -> list[float]:
        now_s = self._clock()
        # A tick that is early by a hair is not to wait for another one.
        if now_s - self._read_s >= 0.95 * self._every_s:
            self._refresh(now_s)
        return self._values

    def _refresh(self, now_s: float) -> None:
        before, passed_s = self._raw, now_s - self._read_s
        self._raw, self._read_s = self._unknown, now_s
        self._values = self._unknown
        self._raw = self._reader.read()
        self._values = [
            (_rate(now - last, passed_s) if grows else now)
            for now, last, grows in zip(self._raw, before, self._grows, strict=True)
        ]


def _rate(grown: float, passed_s: float) -> float:
    return grown / passed_s if grown >= 0 else math.nan


def number_in(path: Path) -> float:
    """Return the number in a small file, NaN where there is none."""
    try:
        return float(path.read_text(encoding="utf-8", errors="replace").split(None, 1)[0])
    except UNREADABLE:
        return math.nan


def numbers_of(files: Sequence[OpenFile]) -> list[float]:
    """Return the number in each small file, NaN for those that cannot be read now."""
    found: list[float] = []
    for file in files:
        try:
            found.append(file.number())
        except UNREADABLE:
            found.append(math.nan)
    return found


def folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder in the order of their numbers, none where it is not there."""
    try:
        found = [each for each in folder.iterdir() if each.is_dir()]
    except OSError:
        return []
    return sorted(found, key=lambda each: [_natural(p) for p in re.split(r"(\d+)", each.name)])


def _natural(part: str) -> tuple[int, str]:
    return (int(part), "") if part.isdigit() else (-1, part)


def width_of(blocks: Sequence[Block]) -> int:
    """Return how many numbers blocks have."""
    return sum(len(block.names) for block in blocks)
