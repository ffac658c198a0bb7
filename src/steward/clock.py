"""Time is a parameter: live, faster than life, or moved by hand."""

from __future__ import annotations

import threading
import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "ScaledClock", "WallClock"]


class Clock(Protocol):
    """What the loop knows of time."""

    def now_s(self) -> float:
        """Return the present, in seconds since 1970."""
        ...

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait that long by this clock, or until `stop` is set."""
        ...


class WallClock:
    """The machine's own clock. It may jump; the loop copes with that."""

    def now_s(self) -> float:
        return time.time()

    def wait(self, seconds: float, stop: threading.Event) -> None:
        stop.wait(max(0.0, seconds))


class ScaledClock:
    """A clock that starts at `start_s` and runs `speed` times faster than life."""

    def __init__(self, *, start_s: float, speed: float = 1.0) -> None:
        self.speed = speed
        self._start_s = start_s
        self._began_s = time.monotonic()

    def now_s(self) -> float:
        return self._start_s + (time.monotonic() - self._began_s) * self.speed

    def wait(self, seconds: float, stop: threading.Event) -> None:
        stop.wait(max(0.0, seconds / self.speed))


class ManualClock:
    """A clock that moves only when told, or by what it is asked to wait: tests never sleep."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now_s(self) -> float:
        return self._now_s

    def set(self, t_s: float) -> None:
        """Move to any moment, backwards too: machines do that."""
        self._now_s = t_s

    def wait(self, seconds: float, stop: threading.Event) -> None:
        if not stop.is_set():
            self._now_s += max(0.0, seconds)
