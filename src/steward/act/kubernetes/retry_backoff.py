"""When an object that was refused may be tried again: pauses that double, each with its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

__all__ = ["RetryBackoff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pause:
    state: str  # of the object when it was refused
    wait_s: float
    until_s: float


class RetryBackoff:
    """Pauses by uid. A pause ends at once when the object is in another state."""

    def __init__(
        self,
        *,
        least_s: float = 1.0,
        most_s: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._least_s, self._most_s = least_s, most_s
        self._clock = clock
        self._pauses: dict[str, _Pause] = {}

    def due(self, uids: Iterable[str]) -> list[str]:
        """Return those without a pause, then those whose pause is over, the longest over first."""
        now_s = self._clock()
        until = {uid: self._pauses[uid].until_s for uid in self._pauses}
        found = [uid for uid in uids if until.get(uid, now_s) <= now_s]
        return sorted(found, key=lambda uid: (until.get(uid, float("-inf")), uid))

    def pause(self, uid: str, state: str) -> None:
        """Leave an object alone, twice as long as the last time in the same state."""
        last = self._pauses.get(uid)
        doubled = last is not None and last.state == state
        wait_s = min(self._most_s, last.wait_s * 2) if last and doubled else self._least_s
        until_s = self._clock() + wait_s
        self._pauses[uid] = _Pause(state=state, wait_s=wait_s, until_s=until_s)

    def forget(self, uid: str, unless: Collection[str] = ()) -> None:
        """End a pause, unless the object is still in one of these states."""
        if uid in self._pauses and self._pauses[uid].state not in unless:
            del self._pauses[uid]
