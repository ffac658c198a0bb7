"""When requests came and went, rebuilt from counts of a gateway.

A status has counts by class, not requests. Between two of them, as many requests of a class came as
`done`, `queued` and `in_flight` grew by together: they are spread evenly over that time. Those that
came first are taken to be the first that are done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from steward.model.serving.snapshot import ClassProgress, ServingSnapshot

__all__ = ["MOST_KEPT", "ArrivalLog", "LoggedRequest"]

MOST_KEPT = 20_000  # of one class: more change no decision


@dataclass(slots=True, kw_only=True)
class LoggedRequest:
    """A request that must have been there; `finish_s` is infinite while it is."""

    arrival_s: float
    finish_s: float = float("inf")


@dataclass(slots=True, kw_only=True)
class _ClassLog:
    progress: ClassProgress
    seen_s: float
    requests: deque[LoggedRequest] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))

    def take(self, now: ClassProgress, seen_s: float) -> None:
        before = self.progress
        came = _known(now) - _known(before)
        for at_s in np.linspace(self.seen_s, seen_s, max(0, came), endpoint=False)[-MOST_KEPT:]:
            self.requests.append(LoggedRequest(arrival_s=float(at_s)))
        open_ = now.queued + now.in_flight
        for each in islice(self.requests, max(0, len(self.requests) - open_)):
            each.finish_s = min(each.finish_s, seen_s)
        self.progress, self.seen_s = now, seen_s


class ArrivalLog:
    """The requests of the last `memory_s`, and what a request brings on average."""

    def __init__(self, memory_s: float = 1800.0) -> None:
        self._memory_s = memory_s
        self._logs: dict[str, _ClassLog] = {}
        self._tokens = 0.0
        self._done = 0
        self._last: ServingSnapshot | None = None

    @property
    def mean_tokens(self) -> float:
        """Return how many tokens an answer has on average; 0 while that is unknown."""
        return self._tokens / self._done if self._done else 0.0

    def take(self, snapshot: ServingSnapshot) -> None:
        """Take in a status. One with lower counts is of a gateway that began anew."""
        last, self._last = self._last, snapshot
        if last is not None and _done(snapshot) < _done(last):
            self._logs, last = {}, None
        if last is not None:
            elapsed_s = max(0.0, snapshot.seen_s - last.seen_s)
            self._tokens += elapsed_s * sum(each.tokens_per_s for each in snapshot.servers)
            self._done += _done(snapshot) - _done(last)
        for each in snapshot.classes:
            log = self._logs.get(each.name)
            if log is None:
                self._logs[each.name] = self._first(each, snapshot.seen_s)
            else:
                log.take(each, snapshot.seen_s)
                self._forget(log)

    def of(self, name: str) -> Sequence[LoggedRequest]:
        """Return the requests of a class, by arrival."""
        log = self._logs.get(name)
        return () if log is None else tuple(log.requests)

    def _first(self, progress: ClassProgress, seen_s: float) -> _ClassLog:
        """Return a log with what is there: it has come since the oldest that waits."""
        log = _ClassLog(progress=progress, seen_s=seen_s)
        there = min(progress.queued + progress.in_flight, MOST_KEPT)
        since_s = seen_s - progress.oldest_wait_s
        for at_s in np.linspace(since_s, seen_s, there, endpoint=False):
            log.requests.append(LoggedRequest(arrival_s=float(at_s)))
        return log

    def _forget(self, log: _ClassLog) -> None:
        while log.requests and log.requests[0].finish_s < log.seen_s - self._memory_s:
            log.requests.popleft()


def _known(progress: ClassProgress) -> int:
    return progress.done + progress.queued + progress.in_flight


def _done(snapshot: ServingSnapshot) -> int:
    return sum(each.done for each in snapshot.classes)
