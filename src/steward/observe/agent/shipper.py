"""Sends what an agent sees to its server: in order, once, however long the server is away.

    take: seal -> buffer (disk)        step: oldest parcel -> server -> release it

A server that does not answer, has no room or rejects our token is tried again, later and
later, at random moments so that a thousand agents do not come back at once. A parcel that the
server calls wrong is dropped and reported as a gap: it would be wrong for ever.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import polars as pl

from steward.clients.steward_server import ServerReply
from steward.clock import Clock
from steward.errors import TemporaryError
from steward.model.event import Event, Observation
from steward.model.frame import ENTITY, T_S, Frame
from steward.observe.agent.buffer import DroppedParcels, ParcelBuffer, QueuedParcel
from steward.observe.agent.clock_offset import ClockOffset, Instant, Machine, Offset, shift_of
from steward.observe.agent.current_state import CurrentState
from steward.observe.agent.parcel import (
    MAX_NEWS,
    MAX_PARCEL_BYTES,
    ParcelHeader,
    pack_parcel,
    read_header,
    replace_header,
)
from steward.observe.agent.table_codec import MAX_ROWS
from steward.observe.merge import merge_observations, merge_tables

__all__ = ["AgentIdentity", "ParcelReceiver", "Shipper", "ShipperStatus"]

T = TypeVar("T")

CLOCK_OFFSET = "host.clock.offset_seconds"
IDLE_S = 0.5
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
LONGEST_RETRY_AFTER_S = 600.0  # a server cannot silence an agent for longer
TIME_REQUESTS = 3  # before the first parcel: the first also opens a connection
TOO_LARGE = 413
NOT_ALLOWED = (401, 403)


class ParcelReceiver(Protocol):
    """Where parcels go."""

    def send(self, body: bytes) -> ServerReply: ...

    def time(self) -> ServerReply: ...


class Clocks(Protocol):
    """The clocks of the machine that the agent runs on."""

    @property
    def boot(self) -> str: ...

    def instant(self) -> Instant: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentIdentity:
    """Identity of the sender: `agent` outlives restarts, `run` does not."""

    agent: str
    run: str
    node: str
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipperStatus:
    """How sending goes."""

    sent_parcels: int = 0
    sent_bytes: int = 0
    last_sent_s: float | None = None
    refused_parcels: int = 0
    failures: int = 0  # in a row
    problem: str = ""


class Shipper:
    """One thread adds observations, another one steps. Every loss is reported."""

    def __init__(
        self,
        buffer: ParcelBuffer,
        server: ParcelReceiver,
        *,
        sender: AgentIdentity,
        clocks: Clocks | None = None,
        dice: random.Random | None = None,
    ) -> None:
        self.status = ShipperStatus()
        self.buffer = buffer
        self.sender = sender
        self._server = server
        self._clocks = clocks or Machine()
        self._dice = dice or random.Random()  # noqa: S311 - moments to come back at
        self._sequence = 0
        self._offset = ClockOffset()
        self._shift_s = 0.0
        self._standing = CurrentState()
        self._events: deque[Event] = deque()
        self._dropped = 0
        self._unreported: list[DroppedParcels] = []
        self._known_server = ""
        self._resend_state = False

    @property
    def offset(self) -> Offset | None:
        """The offset of our clock."""
        return self._offset.at(self._clocks.instant())

    @property
    def lost_parcels(self) -> int:
        """How many parcels will never reach the server; each was reported as a gap."""
        return self._dropped + self.status.refused_parcels

    def take(self, seen: Observation) -> None:
        """Pack what was seen and keep it until the server has it."""
        now = self._clocks.instant()
        self._standing.follow(seen)
        more = []
        if self._resend_state:
            self._resend_state = False
            more.append(self._standing.all())
        offset = self._offset.at(now)
        if offset is not None:
            more.append(Observation(frame=self._offset_row(now.wall_s, offset)))
        merged = merge_observations((*more, seen), events=self._own_events(now.wall_s))
        self._pack(replace(merged, frames=merge_tables(merged.frames)), now)

    def step(self) -> float:
        """Send one parcel, if there is one; return after how many seconds to do the next step."""
        try:
            if self._offset.at(self._clocks.instant()) is None:
                refused = self._request_time()
                if refused is not None:
                    return self._failed(refused)
            waiting = self.buffer.next()
            if waiting is None:
                return IDLE_S
            return self._answered(waiting, self._server.send(self._labelled(waiting.body)))
        except TemporaryError as fault:
            return self._failed(ServerReply(status=0, problem=str(fault)))

    def run(self, stop: threading.Event, clock: Clock) -> None:
        """Step until the stop event is set."""
        while not stop.is_set():
            wait_s = self.step()
            if wait_s:
                clock.wait(wait_s, stop)

    # -- packing -------------------------------------------------------------------------------

    def _pack(self, seen: Observation, now: Instant) -> None:
        body = pack_parcel(self._label(now), seen)
        if _fits(body, seen):
            self._sequence += 1
            self.buffer.put(body)
            return
        for half in _halves(seen):
            self._pack(half, now)

    def _label(self, now: Instant) -> ParcelHeader:
        return ParcelHeader(
            agent=self.sender.agent,
            run=self.sender.run,
            sequence=self._sequence + 1,
            node=self.sender.node,
            version=self.sender.version,
            packed_s=now.wall_s,
            boot=self._clocks.boot,
            booted_s=now.booted_s,
        )

    def _offset_row(self, t_s: float, offset: Offset) -> Frame:
        row = {T_S: [t_s], ENTITY: [self.sender.node], CLOCK_OFFSET: [offset.offset_s]}
        return pl.DataFrame(row)

    def _own_events(self, t_s: float) -> Sequence[Event]:
        events = [self._events.popleft() for _ in range(len(self._events))]
        dropped = self.buffer.dropped()
        self._dropped += sum(each.parcels for each in dropped)
        self._unreported += dropped
        if self._unreported and not self.status.failures:  # or the news would be dropped as well
            events.append(self._gap(self._unreported, t_s))
            self._unreported = []
            self._resend_state = True  # the lost parcels may have had state
        return events

    def _gap(self, gone: Sequence[DroppedParcels], t_s: float) -> Event:
        from_s, to_s = min(each.from_s for each in gone), max(each.to_s for each in gone)
        text = (
            f"nothing is known from {from_s:.0f} to {to_s:.0f} ({to_s - from_s:.0f} s): "
            f"{sum(each.parcels for each in gone)} parcels were dropped, {gone[-1].why}"
        )
        return self._event(t_s, "telemetry.gap", text)

    def _event(self, t_s: float, kind: str, text: str) -> Event:
        return Event(t_s=t_s, kind=kind, subject=self.sender.node, text=text, source="agent")

    # -- sending -------------------------------------------------------------------------------

    def _labelled(self, body: bytes) -> bytes:
        label, now = read_header(body), self._clocks.instant()
        offset = self._offset.at(now)
        self._shift_s = self._shift(label, now, offset)
        return replace_header(
            body,
            replace(
                label,
                sent_s=now.wall_s,
                shift_s=self._shift_s,
                offset_s=None if offset is None else offset.offset_s,
                round_trip_s=None if offset is None else offset.round_trip_s,
                buffered_bytes=self.buffer.waiting_bytes,
                gaps=self.lost_parcels,
            ),
        )

    def _shift(self, label: ParcelHeader, now: Instant, offset: Offset | None) -> float:
        """Return by how much the times of a parcel are moved; report when that changes."""
        if label.boot != self._clocks.boot or not label.boot:
            return 0.0  # packed before the machine was started: its clock of then is not known
        packed = Instant(label.packed_s, label.booted_s)
        shift_s = shift_of(packed, now, offset, before_s=self._shift_s)
        if shift_s != self._shift_s:
            side = "behind" if shift_s > 0 else "ahead"
            text = (
                f"the clock was {abs(shift_s):.3f} s {side} the server's; times are moved by that"
                if shift_s
                else "the clock agrees with the server's again; times are left as they are"
            )
            self._events.append(self._event(now.wall_s, "clock.shifted", text))
        return shift_s

    def _request_time(self) -> ServerReply | None:
        """Request the time of the server before anything is sent; return a refusal."""
        for _ in range(TIME_REQUESTS):
            answer = self._server.time()
            if answer.status != 200:
                return answer
            self._note_clock(answer)
        return None

    def _note_clock(self, answer: ServerReply) -> None:
        if answer.received_s is not None and answer.answered_s is not None:
            self._offset.add_exchange(
                self._clocks.instant(),
                sent_s=answer.sent_s,
                received_s=answer.received_s,
                answered_s=answer.answered_s,
                back_s=answer.back_s,
            )
        if answer.server and answer.server != self._known_server:
            self._resend_state = bool(self._known_server)
            self._known_server = answer.server

    def _answered(self, waiting: QueuedParcel, answer: ServerReply) -> float:
        status = self.status
        if answer.status == 200:
            self._note_clock(answer)
            self.buffer.acknowledge(waiting)
            self.status = replace(
                status,
                sent_parcels=status.sent_parcels + 1,
                sent_bytes=status.sent_bytes + len(waiting.body),
                last_sent_s=answer.back_s,
                failures=0,
                problem="",
            )
            return 0.0
        if _is_about_the_parcel(answer):
            label = read_header(waiting.body)
            text = (
                f"nothing is known from {label.from_s:.0f} to {label.to_s:.0f}: "
                f"the server refused a parcel: {answer.problem}"
            )
            self._events.append(self._event(answer.back_s, "telemetry.gap", text))
            self.buffer.acknowledge(waiting)
            self.status = replace(
                status,
                refused_parcels=status.refused_parcels + 1,
                failures=0,
                problem=f"the server refused a parcel: {answer.problem}",
            )
            return 0.0
        return self._failed(answer)

    def _failed(self, answer: ServerReply) -> float:
        """Count a failure and return how long to wait."""
        failures = self.status.failures + 1
        problem = f"{answer.status}: {answer.problem}" if answer.status else answer.problem
        self.status = replace(self.status, failures=failures, problem=problem)
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(failures - 1, 10))
        if answer.status in NOT_ALLOWED:
            wait_s = LONGEST_WAIT_S
        if answer.retry_after_s is not None:
            wait_s = max(wait_s, min(answer.retry_after_s, LONGEST_RETRY_AFTER_S))
        return wait_s * self._dice.uniform(0.75, 1.25)


def _is_about_the_parcel(answer: ServerReply) -> bool:
    """Return whether the same parcel would be refused for ever, whatever changes on the server."""
    return answer.status == TOO_LARGE or (answer.status == 400 and answer.where == "parcel")


def _fits(body: bytes, seen: Observation) -> bool:
    """Return whether a parcel is small enough, or at least cannot be split any further."""
    most = max(len(seen.events), len(seen.spans), len(seen.jobs))
    tallest = max((table.height for table in (*seen.tables, seen.other)), default=0)
    small = len(body) <= MAX_PARCEL_BYTES and most <= MAX_NEWS
    return (small and tallest <= MAX_ROWS) or max(most, tallest, len(seen.lines)) <= 1


def _halves(seen: Observation) -> tuple[Observation, Observation]:
    """Split what is too large for one parcel."""
    other = seen.other.height // 2
    first = replace(
        seen,
        frame=seen.frame.clear(),
        frames=tuple(table[: table.height // 2] for table in seen.tables),
        other=seen.other[:other],
        lines=_first(seen.lines),
        events=_first(seen.events),
        spans=_first(seen.spans),
        jobs=_first(seen.jobs),
    )
    second = Observation(
        frames=tuple(table[table.height // 2 :] for table in seen.tables),
        other=seen.other[other:],
        lines=seen.lines[len(first.lines) :],
        events=seen.events[len(first.events) :],
        spans=seen.spans[len(first.spans) :],
        jobs=seen.jobs[len(first.jobs) :],
    )
    return first, second


def _first(values: tuple[T, ...]) -> tuple[T, ...]:
    return values[: len(values) // 2]
