"""Lets a program's own memory be watched for writes. A few lines in the program, no copy, no fault.

The kernel counts a userfaultfd for the process that opened it, so the program itself has to
register its memory; afterwards any process that may read its pagemap sees what was written.
"""

from __future__ import annotations

import os

from steward.clients.linux.pages.calls import register, userfaultfd
from steward.clients.linux.pages.mappings import mappings_of

__all__ = ["WriteTracking"]


class WriteTracking:
    """Registered memory of this process, until it is closed."""

    def __init__(self) -> None:
        self._fd = userfaultfd()

    def add(self, start: int, length: int) -> None:
        """Register a range of whole pages."""
        register(self._fd, start, length)

    def add_all(self) -> int:
        """Register all private anonymous memory as it is now; return how many bytes."""
        total = 0
        for each in mappings_of(os.getpid()):
            if each.can_be_moved:
                self.add(each.start, each.end - each.start)
                total += each.end - each.start
        return total

    def close(self) -> None:
        """End it: nothing is write-protected afterwards."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
