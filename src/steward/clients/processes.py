"""Reads the processes of this machine from /proc, in the kernel's units made seconds and bytes.

Processes come and go while they are read; one that is gone is left out. A pid alone is ambiguous:
it is used again. A pid and a start time do.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

__all__ = ["Process", "ProcessTable", "user_name"]

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MOST_ANCESTORS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process at one time. `cpu_s` has that of its children that have ended, too."""

    pid: int
    parent: int
    name: str
    start_s: float
    cpu_s: float
    rss_bytes: int


class ProcessTable:
    """The processes of a machine. `proc` stands in for /proc in tests."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = str(proc)
        self._boot_s: float | None = None

    def all(self) -> dict[int, Process]:
        """Return every process by its pid; threads of the kernel are left out."""
        found = (self.one(int(name)) for name in _names(self._proc) if name.isdigit())
        return {each.pid: each for each in found if each is not None and each.rss_bytes}

    def one(self, pid: int) -> Process | None:
        """Return one process, or None when it is gone."""
        text = _bytes(f"{self._proc}/{pid}/stat")
        before, _, after = text.rpartition(b") ")
        cells = after.split()
        if len(cells) < 22:
            return None
        return Process(
            pid=pid,
            parent=int(cells[1]),
            name=before.partition(b"(")[2].decode("utf-8", "replace"),
            start_s=self._booted_s() + int(cells[19]) * _TICK_S,
            cpu_s=sum(int(cell) for cell in cells[11:15]) * _TICK_S,
            rss_bytes=int(cells[21]) * _PAGE_BYTES,
        )

    def ancestors(self, pid: int) -> list[Process]:
        """Return a process, its parent, and so on up; empty when it is gone."""
        found: list[Process] = []
        at = self.one(pid)
        while at is not None and len(found) < _MOST_ANCESTORS:
            found.append(at)
            at = self.one(at.parent) if at.parent > 0 else None
        return found

    def command(self, pid: int) -> tuple[str, ...]:
        """Return what a process was started with."""
        arguments = _bytes(f"{self._proc}/{pid}/cmdline").split(b"\0")
        return tuple(argument.decode("utf-8", "replace") for argument in arguments if argument)

    def storage_bytes(self, pid: int) -> tuple[int, int] | None:
        """Return what a process and its ended children read from and wrote to storage."""
        text = _bytes(f"{self._proc}/{pid}/io")
        cells = dict(line.split(b": ", 1) for line in text.splitlines() if b": " in line)
        if b"read_bytes" not in cells:
            return None  # another user's, and we may not look
        return int(cells[b"read_bytes"]), int(cells[b"write_bytes"])

    def user(self, pid: int) -> int | None:
        """Return the number of the user who runs it."""
        try:
            return os.stat(f"{self._proc}/{pid}").st_uid  # noqa: PTH116 - once per process
        except OSError:
            return None

    def _booted_s(self) -> float:
        if self._boot_s is None:
            lines = _bytes(f"{self._proc}/stat").splitlines()
            boot_line = next((line for line in lines if line.startswith(b"btime ")), b"btime 0")
            self._boot_s = float(boot_line.split()[1])
        return self._boot_s


@lru_cache(maxsize=1024)
def user_name(number: int) -> str:
    """Return a user's name, or the number where it has no name (in containers)."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return []


def _bytes(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, 65536)
    except OSError:
        return b""  # it ended between the two
    finally:
        os.close(file)
