"""All targets of a site together: what the loop and the agent hand their looks to."""

from __future__ import annotations

import time
from collections.abc import Sequence

from steward.model.event import Event, Observation
from steward.observe.forwarding.forward_queue import ForwardQueue
from steward.observe.forwarding.target import ForwardStatus, ForwardTarget

__all__ = ["Forwarder"]

CLOSE_S = 2.0


class Forwarder:
    """Puts every observation into each target's queue. Never blocks, never raises for a receiver.

    Threads of one Python take turns, and encoding would slow down a thread that is in the midst of
    something. So `take` only queues, and `go` starts the sending.
    """

    def __init__(self, targets: Sequence[ForwardTarget]) -> None:
        self._outlets = [ForwardQueue(target) for target in targets]
        self._until_s: float | None = None

    def take(self, seen: Observation, t_s: float) -> tuple[Event, ...]:
        """Queue an observation; return events about earlier ones."""
        for outlet in self._outlets:
            outlet.take(seen)
        news = [outlet.drop_event(t_s) for outlet in self._outlets]
        return tuple(each for each in news if each is not None)

    def go(self) -> None:
        """Start sending for all targets. Returns at once."""
        for outlet in self._outlets:
            outlet.go()

    @property
    def status(self) -> tuple[ForwardStatus, ...]:
        """Status by target."""
        return tuple(outlet.status for outlet in self._outlets)

    def finish(self) -> None:
        """Take nothing more, and let all targets send what they have. Returns at once."""
        self._until_s = self._until_s or time.monotonic() + CLOSE_S
        for outlet in self._outlets:
            outlet.finish()

    def close(self) -> None:
        """Stop within two seconds after `finish`, whatever the receivers do."""
        self.finish()
        for outlet in self._outlets:
            outlet.close(self._until_s or time.monotonic())
