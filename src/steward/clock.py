"""Time is a parameter: live, faster than life, or moved by hand."""

from __future__ import annotations

import threading
import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "ScaledClock", "SteadyTime", "WallClock"]


class Clock(Protocol):
    """What the loop knows of time."""

    def now_s(self) -> float:
        """Return the present, in seconds since 1970."""
        ...

    def elapsed_s(self) -> float:
        """Return seconds that passed by this clock since some fixed moment; it never jumps."""
        ...

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait that long by this clock, or until `stop` is set."""
        ...


class WallClock:
    """The machine's own clock. It may jump; the loop copes with that."""

    def now_s(self) -> float:
        return time.time()

    def elapsed_s(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float, stop: threading.Event) -> None:
        stop.wait(max(0.0, seconds))


class ScaledClock:
    """A clock that starts at `start_s` and runs `speed` times faster than life.

    One that is `paused` stands still until `start`: compiling on first use takes minutes, in which
    a simulated day would pass. It also stands still when `most_s` have passed since the last wait:
    who cannot keep up with its speed looks at a slower world, not more rarely.
    """

    def __init__(
        self,
        *,
        start_s: float,
        speed: float = 1.0,
        paused: bool = False,
        most_s: float = float("inf"),
    ) -> None:
        self.speed = speed
        self._start_s = start_s
        self._most_s = most_s
        # What had passed when it was last started or waited, and when that was; None: it is paused.
        self._since: tuple[float, float | None] = (0.0, None if paused else time.monotonic())

    def start(self) -> None:
        """Let time pass from now on."""
        self._since = (self.elapsed_s(), time.monotonic())

    def skip(self, seconds: float) -> None:
        """Move a paused clock on."""
        passed_s, began_s = self._since
        self._since = (passed_s + seconds, began_s)

    def now_s(self) -> float:
        return self._start_s + self.elapsed_s()

    def elapsed_s(self) -> float:
        passed_s, began_s = self._since
        if began_s is None:
            return passed_s
        return passed_s + min((time.monotonic() - began_s) * self.speed, self._most_s)

    def wait(self, seconds: float, stop: threading.Event) -> None:
        if self._since[1] is not None:
            self.start()
        stop.wait(max(0.0, seconds / self.speed))


class ManualClock:
    """A clock that moves only when told, or by what it is asked to wait: tests never sleep."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s
        self._elapsed_s = 0.0

    def now_s(self) -> float:
        return self._now_s

    def elapsed_s(self) -> float:
        return self._elapsed_s

    def set(self, t_s: float) -> None:
        """Let time pass until `t_s`; an earlier time is a jump back."""
        self._elapsed_s += max(0.0, t_s - self._now_s)
        self._now_s = t_s

    def jump(self, t_s: float) -> None:
        """Show another time, although none has passed: machines' clocks do that."""
        self._now_s = t_s

    def wait(self, seconds: float, stop: threading.Event) -> None:
        if not stop.is_set():
            self._now_s += max(0.0, seconds)
            self._elapsed_s += max(0.0, seconds)


JUMP_S = 60.0  # a clock that moves further than time has passed has jumped
ACCEPTED_AFTER_S = 600.0  # a jump ahead that stays for so long was a correction


class SteadyTime:
    """The loop's time: the clock's, unless that jumps; it never goes back.

    Time that jumps ahead would make every sensor look silent and every file look old. A jump is
    followed only when the clock has kept to it for ten minutes, as after a machine was suspended.
    """

    def __init__(self, clock: Clock, *, least_s: float) -> None:
        self.t_s = float("-inf")
        self._clock = clock
        self._least_s = least_s  # from one time to the next when the clock stands still
        self._elapsed_s = clock.elapsed_s()
        self._ahead_since_s: float | None = None

    def next(self) -> tuple[float, str]:
        """Return a time after the last one, and what is wrong with the clock, if anything."""
        now_s, elapsed_s = self._clock.now_s(), self._clock.elapsed_s()
        passed_s, self._elapsed_s = elapsed_s - self._elapsed_s, elapsed_s
        if self.t_s == float("-inf"):
            self.t_s = now_s
            return now_s, ""
        expected_s = self.t_s + passed_s
        ahead_s = now_s - expected_s
        problem = ""
        if ahead_s > JUMP_S and not self._accepts(elapsed_s):
            problem = f"the clock jumped ahead by {ahead_s:.0f} s; steward does not follow it yet"
            now_s = expected_s
        elif ahead_s <= JUMP_S:
            self._ahead_since_s = None
        if now_s <= self.t_s:
            back_s, now_s = self.t_s - now_s, self.t_s + (passed_s or self._least_s)
            if back_s > self._least_s:
                problem = f"the clock jumped back by {back_s:.0f} s; steward's time goes on"
        self.t_s = now_s
        return now_s, problem

    def _accepts(self, elapsed_s: float) -> bool:
        if self._ahead_since_s is None:
            self._ahead_since_s = elapsed_s
        if elapsed_s - self._ahead_since_s < ACCEPTED_AFTER_S:
            return False
        self._ahead_since_s = None
        return True
