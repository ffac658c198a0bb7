"""Calls statvfs on file systems that may hang, each in a thread of its own."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["EVERY_S", "UNKNOWN", "BoundedStatvfs", "Statvfs", "figures"]

Statvfs = Callable[[str], os.statvfs_result]
EVERY_S = 30.0
UNKNOWN = [math.nan] * 4
_HANGS_AFTER_S = 2.0


@dataclass(slots=True)
class _PendingCall:
    """The state of one file system's call, and its last result."""

    called_s: float = -math.inf
    waits: bool = False
    values: list[float] = field(default_factory=lambda: UNKNOWN)


class BoundedStatvfs:
    """Caches results. A call that hangs gives unknown values and blocks no other.

    There is never more than one thread for a file system, however long it hangs.
    """

    def __init__(self, statvfs: Statvfs = os.statvfs) -> None:
        self.statvfs = statvfs
        self._calls: dict[str, _PendingCall] = {}

    def read(self, path: str, now_s: float) -> list[float]:
        """Return the last values of a file system; call again when it is time."""
        call = self._calls.setdefault(path, _PendingCall())
        if not call.waits and now_s - call.called_s >= EVERY_S:
            call.called_s, call.waits = now_s, True
            thread = threading.Thread(
                target=self._wait, args=(path, call), name=f"statvfs {path}", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:  # the machine has no thread left
                call.values, call.waits = UNKNOWN, False
        if call.waits and now_s - call.called_s > _HANGS_AFTER_S:
            return UNKNOWN
        return call.values

    def forget(self, path: str) -> None:
        """Drop a file system that is not mounted any more, unless its call still hangs."""
        if path in self._calls and not self._calls[path].waits:
            del self._calls[path]

    def _wait(self, path: str, call: _PendingCall) -> None:
        try:
            call.values = figures(self.statvfs(path))
        except OSError:
            call.values = UNKNOWN
        call.waits = False


def figures(status: os.statvfs_result) -> list[float]:
    """Return bytes used, in all and available, and the share of inodes that is used.

    As `df` has it: what is kept for root is neither used nor available.
    """
    block = status.f_frsize
    inodes = (status.f_files - status.f_ffree) / status.f_files if status.f_files else math.nan
    return [
        float((status.f_blocks - status.f_bfree) * block),
        float(status.f_blocks * block),
        float(status.f_bavail * block),
        inodes,
    ]
