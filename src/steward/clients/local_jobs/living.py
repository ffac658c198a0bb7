"""Remembers processes by handles of the kernel, so that a look at one costs no file to be read."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["LivingProcesses"]


class LivingProcesses:
    """Processes that were alive when they were added, each by the folder of its attempt.

    A handle stays with its process: a pid that is used again by another one changes nothing.
    """

    def __init__(self) -> None:
        self._handles: dict[Path, int] = {}

    def add(self, folder: Path, pid: int, is_same: Callable[[], bool]) -> None:
        """Remember a process, if it is still the one that the caller has seen."""
        if folder in self._handles:
            return
        with suppress(OSError):  # it is gone, or there are too many open files
            handle = os.pidfd_open(pid)
            if is_same():
                self._handles[folder] = handle
            else:
                os.close(handle)

    def has(self, folder: Path) -> bool:
        """Return whether a process is remembered and has not ended."""
        handle = self._handles.get(folder)
        if handle is None:
            return False
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if not poll.poll(0):
            return True
        os.close(self._handles.pop(folder))
        return False
