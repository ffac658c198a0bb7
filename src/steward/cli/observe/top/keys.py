"""Single keys from a terminal, without waiting for a line."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Any

__all__ = ["Keys"]

NAMED = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x03": "q",
    "\x1b": "q",
}


class Keys:
    """Reads keys while it is open; the terminal is as before when it is closed."""

    def __init__(self) -> None:
        self._file = sys.stdin.fileno()
        self._before: Any = None  # what the terminal was set to

    def __enter__(self) -> Keys:
        if os.isatty(self._file):
            self._before = termios.tcgetattr(self._file)
            tty.setcbreak(self._file)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """Return the next key, or nothing when none came in that time."""
        if self._before is None:
            select.select([], [], [], seconds)
            return ""
        ready, _, _ = select.select([self._file], [], [], max(0.0, seconds))
        if not ready:
            return ""
        typed = os.read(self._file, 16)
        if not typed:
            return "q"  # the terminal is gone
        text = typed.decode("utf-8", errors="replace")
        return NAMED.get(text, text[:1])
