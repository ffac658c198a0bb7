"""One target with what waits for it, and the thread that sends it.

The observing thread only fills the queue; names, bytes and the network are the other thread's.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from steward.clients.delivery import RetryingSender
from steward.clients.web import Endpoint
from steward.model.event import Event, LogLine, Observation
from steward.model.frame import ENTITY, T_S, Frame
from steward.observe.forwarding.series_order import SeriesOrder, by_age
from steward.observe.forwarding.target import ForwardStatus, ForwardTarget
from steward.observe.forwarding.transport import PER_BODY, Transport, open_transport, parts
from steward.observe.translate.outgoing import MetricSeries, series_of

__all__ = ["ForwardQueue"]

MOST_WAITING_BYTES = 32 * 2**20
LINE_BYTES = 200  # what a line takes besides its text
QUIET_S = 3600.0  # a drop after so long without one is reported again
LAST_TRIES_S = 0.5  # kept of the time to close, for a request that is on its way


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What one look brought for a target."""

    tables: tuple[Frame, ...]
    lines: tuple[LogLine, ...]
    samples: int
    bytes: int


class ForwardQueue:
    """Takes looks without ever waiting. When too much waits, the oldest look is dropped."""

    def __init__(
        self,
        target: ForwardTarget,
        *,
        most_bytes: int = MOST_WAITING_BYTES,
        open_transport: Callable[[str, Endpoint], Transport] = open_transport,
    ) -> None:
        self.target = target
        self._transport = open_transport(target.format, target.endpoint)
        self._most_bytes = most_bytes
        self._stop = threading.Event()
        patience_s = float("inf")  # the queue has a bound: what is oldest there goes first
        self._samples = RetryingSender(self._transport.send, patience_s=patience_s, stop=self._stop)
        self._lines = RetryingSender(
            self._transport.send_lines or self._transport.send,
            patience_s=patience_s,
            stop=self._stop,
        )
        self._order = SeriesOrder()
        self._chosen: dict[tuple[str, ...], list[str]] = {}
        self._looks: deque[_Look] = deque()
        self._sending: _Look | None = None
        self._bytes = 0
        self._full: Counter[str] = Counter()
        self._closed: Counter[str] = Counter()
        self._closing = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._dropped, self._dropped_s = 0, float("-inf")

    # -- observing thread ------------------------------------------------------------------------

    def take(self, seen: Observation) -> None:
        """Queue what the target is to have; `go` starts the sending."""
        look = self._look(seen)
        if not look.samples and not look.lines:
            return
        with self._changed:
            if self._thread is None:
                name = f"forward-{self.target.name}"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()
            self._looks.append(look)
            self._bytes += look.bytes
            while self._bytes > self._most_bytes and len(self._looks) > 1:
                oldest = self._looks.popleft()
                self._bytes -= oldest.bytes
                self._full.update(samples=oldest.samples, lines=len(oldest.lines))

    def go(self) -> None:
        """Start sending what is queued, when the observing thread is idle."""
        with self._changed:
            self._changed.notify()

    def drop_event(self, t_s: float) -> Event | None:
        """Return an event if something was dropped: once, until nothing was for an hour."""
        lost = [each.stats.refused + each.stats.given_up for each in (self._samples, self._lines)]
        dropped = sum(lost) + self._full.total()
        if dropped == self._dropped:
            return None
        new, self._dropped = dropped - self._dropped, dropped
        recent, self._dropped_s = t_s - self._dropped_s <= QUIET_S, t_s
        if recent:
            return None
        why = self._trouble() or "it takes less than there is"
        return Event(
            t_s=t_s,
            kind="telemetry.forward-dropped",
            subject=f"forward.{self.target.name}",
            text=f"{new} samples or lines were not forwarded, and more may follow: {why}",
            source="steward",
        )

    @property
    def status(self) -> ForwardStatus:
        """The status of this target."""
        with self._changed:
            waiting = [*self._looks, *([self._sending] if self._sending else [])]
        samples, lines = self._samples.stats, self._lines.stats
        return ForwardStatus(
            name=self.target.name,
            format=self.target.format,
            url=self.target.endpoint.url,
            sent_samples=samples.sent,
            dropped_samples={
                "full": self._full["samples"],
                "refused": samples.refused,
                "late": self._order.late,
                "closed": samples.given_up + self._closed["samples"],
            },
            sent_lines=lines.sent,
            dropped_lines={
                "full": self._full["lines"],
                "refused": lines.refused,
                "closed": lines.given_up + self._closed["lines"],
            },
            waiting_samples=sum(each.samples for each in waiting),
            waiting_lines=sum(len(each.lines) for each in waiting),
            trouble=self._trouble(),
        )

    def finish(self) -> None:
        """Take nothing more; send what waits and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def close(self, until_s: float) -> None:
        """End by then, by the monotonic clock; what could not be sent is counted."""
        self.finish()
        if self._thread is not None:
            if not self._trouble():
                self._thread.join(max(0.0, until_s - LAST_TRIES_S - time.monotonic()))
            self._stop.set()
            self._thread.join(max(0.0, until_s - time.monotonic()))
        with self._changed:
            while self._looks:
                left = self._looks.popleft()
                self._closed.update(samples=left.samples, lines=len(left.lines))
        self._transport.close()

    def _look(self, seen: Observation) -> _Look:
        tables, samples = [], 0
        for table in seen.tables:
            names = self._names(tuple(table.columns))
            known = sum(table.height - table[name].null_count() for name in names)
            if known:
                tables.append(table.select(T_S, ENTITY, *names))
                samples += known
        lines = seen.lines if self.target.lines and self._transport.encode_lines else ()
        cells = sum(table.height * table.width for table in tables)
        size = 8 * cells + sum(LINE_BYTES + len(line.text) for line in lines)
        return _Look(tables=tuple(tables), lines=lines, samples=samples, bytes=size)

    def _names(self, columns: tuple[str, ...]) -> list[str]:
        """Return which of a table's metrics are selected."""
        if columns not in self._chosen:
            if len(self._chosen) > 1000:
                self._chosen.clear()  # tables whose columns change for ever
            wanted = self.target.metrics or ("*",)
            self._chosen[columns] = [
                name
                for name in columns
                if name not in (T_S, ENTITY) and any(fnmatchcase(name, each) for each in wanted)
            ]
        return self._chosen[columns]

    def _trouble(self) -> str:
        return self._samples.trouble or self._lines.trouble

    # -- the thread ------------------------------------------------------------------------------

    def _work(self) -> None:
        while (look := self._next()) is not None:
            try:
                self._send(look)
            except Exception as fault:  # noqa: BLE001 - a bug of ours costs one look, not all
                self._samples.count(refused=look.samples, fault=f"{type(fault).__name__}: {fault}")

    def _next(self) -> _Look | None:
        with self._changed:
            self._sending = None
            while not self._looks and not self._closing:
                self._changed.wait()
            if not self._looks or self._stop.is_set():
                return None
            self._sending = self._looks.popleft()
            self._bytes -= self._sending.bytes
            return self._sending

    def _send(self, look: _Look) -> None:
        for part in self._bodies(look):
            count = sum(len(each.values) for each in part)
            if self._stop.is_set():
                self._samples.count(given_up=count)
            else:
                self._samples.deliver(self._transport.encode(part), count)
        for at in range(0, len(look.lines), PER_BODY):
            lines = look.lines[at : at + PER_BODY]
            if self._transport.encode_lines is not None:
                self._lines.deliver(self._transport.encode_lines(lines), len(lines))

    def _bodies(self, look: _Look) -> Iterator[list[MetricSeries]]:
        series = self._order.sort(each for table in look.tables for each in series_of(table))
        for group in by_age(series):
            yield from parts(group)
