"""Asks a Prometheus in a thread of its own: who asks goes on, and finds the answer later."""

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

SLOW_S = 30.0  # who has not answered after this is told to be silent


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeQuery:
    """An expression, and the times at which its values are wanted."""

    expr: str
    from_s: float
    to_s: float
    step_s: float


class RangeServer(Protocol):
    """Who is asked: `clients.prometheus.PrometheusServer` can."""

    @property
    def url(self) -> str:
        """Where it is."""
        ...

    def query_range(
        self, promql: str, *, from_s: float, to_s: float, step_s: float
    ) -> list[QuerySeries]:
        """Ask for the values of an expression between two times."""
        ...


class QueryWorker:
    """What was asked, one after another, and what was answered.

    Whoever asks keeps one question open, so that no more wait than there are expressions. A server
    that cannot be reached is not tried for the questions that wait: they fail with the first.
    """

    def __init__(self, server: RangeServer) -> None:
        self.where = server.url
        self._server = server
        self._waiting: queue.SimpleQueue[RangeQuery | None] = queue.SimpleQueue()
        self._answers: dict[RangeQuery, list[QuerySeries] | StewardError] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._since_s: float | None = None  # when the question that is under way was asked
        self._trouble: dict[str, str] = {}  # by expression
        self._told: set[str] = set()

    def ask(self, question: RangeQuery) -> None:
        """Leave a question."""
        self._waiting.put(question)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rules-ask", daemon=True)
            self._thread.start()

    def answer(self, question: RangeQuery) -> list[QuerySeries] | StewardError | None:
        """Return what came of a question, once; None as long as nothing did."""
        with self._lock:
            return self._answers.pop(question, None)

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is wrong now, each thing once."""
        with self._lock:
            found = dict.fromkeys(self._trouble.values())
            since_s = self._since_s
        if since_s is not None and time.monotonic() - since_s > SLOW_S:
            found[f"has not answered for more than {SLOW_S:.0f} s"] = None
        return tuple(found)

    def news(self, t_s: float) -> tuple[Event, ...]:
        """Tell each trouble once, and once that there is none any more."""
        troubles = self.troubles
        events = [self._event(t_s, "failed", each) for each in troubles if each not in self._told]
        if self._told and not troubles:
            events.append(self._event(t_s, "works-again", "it answers again"))
        self._told = set(troubles)
        return tuple(events)

    def close(self) -> None:
        """Ask nothing more. An answer that is on its way is not waited for."""
        self._waiting.put(None)

    def _event(self, t_s: float, what: str, text: str) -> Event:
        kind = f"rules.prometheus-{what}"
        return Event(t_s=t_s, kind=kind, subject=self.where, text=text, source="rules")

    def _run(self) -> None:
        while (question := self._waiting.get()) is not None:
            with self._lock:
                self._since_s = time.monotonic()
            answer = self._asked(question)
            with self._lock:
                self._since_s = None
                self._take(question, answer)
                if isinstance(answer, TemporaryError):
                    for other in self._all_waiting():
                        self._take(other, answer)

    def _asked(self, question: RangeQuery) -> list[QuerySeries] | StewardError:
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
            return StewardError(f"cannot be asked: {fault!r}", where=self.where)

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
