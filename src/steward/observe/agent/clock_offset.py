"""Clocks of an agent, and their offset from the server's.

The estimate is NTP's: of the four times of a request and its answer, half of what they disagree by.
Long round trips are less exact, so the median of the quickest quarter counts, and half of
the quickest round trip is how wrong it can be.

A parcel may wait for a day, and a machine's clock may be set meanwhile. So a parcel also has when
it was packed by the clock that counts from the start of the machine, which is never set.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

__all__ = ["ClockOffset", "Instant", "Machine", "Offset", "shift_of"]

LEAST_SHIFT_S = 0.05  # clocks that agree as well as this are left alone
KEPT = 32
SET_BY_S = 0.5  # a clock that moves by more against the other was set


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment by both clocks."""

    wall_s: float
    booted_s: float  # since the machine was started

    @property
    def started_s(self) -> float:
        """When the machine was started, by its wall clock."""
        return self.wall_s - self.booted_s


class Machine:
    """The clocks of this machine. `boot` names the time since it was last started."""

    def __init__(self) -> None:
        self.boot = ""
        with suppress(OSError):  # without it, times of an earlier start are left as they are
            self.boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()

    def instant(self) -> Instant:
        """Read both clocks."""
        return Instant(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """How far the server's clock is ahead of ours, and how sure that is."""

    offset_s: float
    uncertainty_s: float
    round_trip_s: float


class ClockOffset:
    """Learns the offset from the times of requests."""

    def __init__(self) -> None:
        self._exchanges: deque[tuple[float, float]] = deque(maxlen=KEPT)  # round trip, offset
        self._started_s: float | None = None

    def add_exchange(
        self, now: Instant, *, sent_s: float, received_s: float, answered_s: float, back_s: float
    ) -> None:
        """Take in a request that was sent and came back by our clock, and was there by theirs."""
        if self._started_s is None or abs(now.started_s - self._started_s) > SET_BY_S:
            self._exchanges.clear()  # our clock was set: earlier offsets are void
        self._started_s = now.started_s
        round_trip_s = (back_s - sent_s) - (answered_s - received_s)
        if round_trip_s >= 0 and back_s >= sent_s:
            offset_s = ((received_s - sent_s) + (answered_s - back_s)) / 2
            self._exchanges.append((round_trip_s, offset_s))

    def at(self, now: Instant) -> Offset | None:
        """Return what is known; None before the first answer, and after our clock was set."""
        if not self._exchanges or self._started_s is None:
            return None
        if abs(now.started_s - self._started_s) > SET_BY_S:
            return None
        best = sorted(self._exchanges)[: max(1, len(self._exchanges) // 4)]
        return Offset(
            offset_s=median(offset_s for _, offset_s in best),
            uncertainty_s=best[0][0] / 2,
            round_trip_s=best[0][0],
        )


def shift_of(packed: Instant, now: Instant, known: Offset | None, *, before_s: float) -> float:
    """Return what to add to times that were taken around `packed`, 0 where clocks agree.

    `before_s` is what was added last: it stays unless it is clearly wrong, so that samples of one
    sensor do not move against each other.
    """
    if known is None:
        return 0.0
    shift_s = known.offset_s + now.started_s - packed.started_s
    least_s = max(LEAST_SHIFT_S, known.uncertainty_s)
    if abs(shift_s) <= least_s:
        return 0.0
    return before_s if abs(shift_s - before_s) <= least_s else shift_s
