"""What happens next: one queue with one total order, `(time, rank, sequence)`.

The order is written here and nowhere else. At one instant, what ends comes before what fails, that
before what is mended, that before what arrives, and one scheduling pass comes last, so that a pass
sees all that the instant brought. Equal time and rank go by the order in which they were pushed.
"""

from __future__ import annotations

import heapq
import math
from enum import IntEnum
from typing import Generic, TypeVar

from steward.errors import StewardError

__all__ = ["EventQueue", "Rank"]

W = TypeVar("W")


class Rank(IntEnum):
    """What comes first when several things happen at the same time."""

    END = 0
    FAULT = 1
    REPAIR = 2
    ARRIVAL = 3
    PASS = 4


class EventQueue(Generic[W]):
    """Events of any kind `W`, in their total order. Time never goes back."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, W]] = []
        self._pushed = 0
        self._now_s = -math.inf

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, t_s: float, rank: Rank, what: W) -> None:
        """Plan something. The past can't be planned."""
        if not t_s >= self._now_s:
            raise StewardError(
                f"{what} is planned for {t_s}, but it is {self._now_s} already",
                where="event queue",
                hint="plan events at or after the time of the last one that was popped",
            )
        heapq.heappush(self._heap, (t_s, int(rank), self._pushed, what))
        self._pushed += 1

    def pop_until(self, t_s: float) -> tuple[float, Rank, W] | None:
        """Take the next event if it happens at `t_s` or before."""
        if not self._heap or self._heap[0][0] > t_s:
            return None
        at_s, rank, _, what = heapq.heappop(self._heap)
        self._now_s = at_s
        return at_s, Rank(rank), what
