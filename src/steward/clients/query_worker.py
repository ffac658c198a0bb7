"""Queries a Prometheus in a background thread; results are collected later."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from steward.clients.prometheus import QuerySeries
from steward.errors import StewardError, TemporaryError
from steward.model.event import Event

__all__ = ["QueryWorker", "RangeQuery", "RangeServer"]

SLOW_S = 30.0  # a server that has not answered by then is reported as not answering


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeQuery:
    """An expression, and the times at which its values are wanted."""

    expr: str
    from_s: float
    to_s: float
    step_s: float


class RangeServer(Protocol):
    """The queried server, such as `clients.prometheus.PrometheusServer`."""

    @property
    def url(self) -> str:
        """The server's URL."""
        ...

    def query_range(
        self, promql: str, *, from_s: float, to_s: float, step_s: float
    ) -> list[QuerySeries]:
        """Return the values of an expression between two times."""
        ...


class QueryWorker:
    """A queue of range queries, run one after another, and their results.

    A caller submits one query at a time per expression, which bounds the queue. A server
    that cannot be reached is not tried for the queued queries: they fail with the first.
    """

    def __init__(self, server: RangeServer) -> None:
        self.where = server.url
        self._server = server
        self._waiting: queue.SimpleQueue[RangeQuery | None] = queue.SimpleQueue()
        self._answers: dict[RangeQuery, list[QuerySeries] | StewardError] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._since_s: float | None = None  # when the running query was started
        self._trouble: dict[str, str] = {}  # by expression
        self._reported: set[str] = set()

    def submit(self, question: RangeQuery) -> None:
        """Queue a query."""
        self._waiting.put(question)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rules-query", daemon=True)
            self._thread.start()

    def answer(self, question: RangeQuery) -> list[QuerySeries] | StewardError | None:
        """Return what came of a question, once; None as long as nothing did."""
        with self._lock:
            return self._answers.pop(question, None)

    @property
    def troubles(self) -> tuple[str, ...]:
        """Current errors, without duplicates."""
        with self._lock:
            found = dict.fromkeys(self._trouble.values())
            since_s = self._since_s
        if since_s is not None and time.monotonic() - since_s > SLOW_S:
            found[f"has not answered for more than {SLOW_S:.0f} s"] = None
        return tuple(found)

    def news(self, t_s: float) -> tuple[Event, ...]:
        """Return an event per new error, and one when all are resolved."""
        troubles = self.troubles
        events = [
            self._event(t_s, "failed", each) for each in troubles if each not in self._reported
        ]
        if self._reported and not troubles:
            events.append(self._event(t_s, "works-again", "it answers again"))
        self._reported = set(troubles)
        return tuple(events)

    def close(self) -> None:
        """Stop the thread; a running query is not waited for."""
        self._waiting.put(None)

    def _event(self, t_s: float, what: str, text: str) -> Event:
        kind = f"rules.prometheus-{what}"
        return Event(t_s=t_s, kind=kind, subject=self.where, text=text, source="rules")

    def _run(self) -> None:
        while (question := self._waiting.get()) is not None:
            with self._lock:
                self._since_s = time.monotonic()
            answer = self._query(question)
            with self._lock:
                self._since_s = None
                self._take(question, answer)
                if isinstance(answer, TemporaryError):
                    for other in self._all_waiting():
                        self._take(other, answer)

    def _query(self, question: RangeQuery) -> list[QuerySeries] | StewardError:
        try:
            return self._server.query_range(
                question.expr,
                from_s=question.from_s,
                to_s=question.to_s,
                step_s=question.step_s,
            )
        except StewardError as fault:
            return fault
        except Exception as fault:  # noqa: BLE001 - the thread outlives a fault of ours
            return StewardError(f"cannot be queried: {fault!r}", where=self.where)

    def _take(self, question: RangeQuery, answer: list[QuerySeries] | StewardError) -> None:
        self._answers[question] = answer
        if isinstance(answer, StewardError):
            at = f"{question.expr}: " if answer.where == question.expr else ""
            self._trouble[question.expr] = f"{at}{answer.problem}"
        else:
            self._trouble.pop(question.expr, None)

    def _all_waiting(self) -> Iterator[RangeQuery]:
        while True:
            try:
                question = self._waiting.get_nowait()
            except queue.Empty:
                return
            if question is None:
                self._waiting.put(None)  # the end is not lost
                return
            yield question
