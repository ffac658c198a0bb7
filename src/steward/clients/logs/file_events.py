"""Wakes a reader when files in folders change, instead of polling (inotify)."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import time
from collections.abc import Iterable

__all__ = ["FileEvents"]

_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
_MASK = _MODIFY | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_NEW = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_EVENT = struct.Struct("iIII")
_POLL_S = 0.002  # where there is no inotify, or no watches are left


class FileEvents:
    """Watches folders. Where that is not possible, it wakes its reader every few milliseconds."""

    def __init__(self) -> None:
        self.names_changed = True  # files came, went or were renamed since this was last reset
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._fd = int(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        except AttributeError:
            self._fd = -1
        self._watched: set[str] = set()
        self._blind = self._fd < 0  # some folder is not watched: look again and again

    def watch(self, folders: Iterable[str]) -> None:
        """Watch these folders as well."""
        for folder in folders:
            if folder in self._watched or self._fd < 0:
                continue
            if self._libc.inotify_add_watch(self._fd, os.fsencode(folder), _MASK) < 0:
                self._blind = True  # polls from now on
            self._watched.add(folder)

    def wait(self, seconds: float) -> bool:
        """Wait until something changes, at most that long; return whether something may have."""
        if self._blind:
            time.sleep(min(seconds, _POLL_S))
            self.names_changed = True
            return True
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return False
        self._drain()
        return True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _drain(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, at)
            self.names_changed = self.names_changed or bool(mask & (_NEW | 0x4000))  # or overflow
            at += _EVENT.size + length
