"""What other machines send: on disk before it is acknowledged, read by the loop like any source.

    accept:  decode and check -> spool (synced) -> acknowledged        changes nothing else
    collect: everything accepted, in order; here counters move         once per body
    release: the store has synced what was collected -> the spool deletes it

A crash at any point repeats at most what was not acknowledged or not released. A repeated parcel is
known by its number; values that the store has already are left out. Memory is bounded: what does
not fit waits on disk, and when the disk's share is used up, senders get 503 with Retry-After.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from steward.errors import StewardError, TemporaryError, unknown_name
from steward.model.event import Availability, Event, Observation
from steward.observe.agent.parcel import Parcel, open_parcel
from steward.observe.intake.budget import ByteBudget
from steward.observe.intake.merger import (
    Decoded,
    ObservationMerger,
    ReadStored,
    without_stored,
)
from steward.observe.receive import PushedLines, PushedSamples
from steward.store.spool import Spool, SpoolRecord, StreamPositions

__all__ = ["Decoder", "Intake", "IntakeStats", "StreamPosition"]

MAX_BYTES = 2 * 2**30
MAX_OPEN_BYTES = 256 * 2**20
RELEASE_EVERY_S = 30.0

Decoder = Callable[[bytes], Decoded]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPosition:
    """The number of a body in its stream: numbers only grow, so each body is accepted once."""

    stream: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeStats:
    """Counts since the intake was opened."""

    accepted: int = 0
    repeated: int = 0  # had been accepted before
    unreadable: int = 0  # accepted by an earlier version, and not readable by this one
    waiting_bodies: int = 0  # accepted and not collected yet
    held_bytes: int = 0  # of the disk


@dataclass(frozen=True, slots=True)
class _DecodedBody:
    """A body that was decoded, and about how much memory it takes."""

    number: int
    content: Decoded
    size: int


class Intake:
    """A collector whose source is the network. `folder` is its own; one process at a time.

    `decoders` has a decoder per kind of body; add to it before the first `collect`. With
    `read_stored`, values that were stored before a crash are not returned again.
    """

    name = "intake"
    vocabulary = "canonical"

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = MAX_BYTES,
        max_open_bytes: int = MAX_OPEN_BYTES,
        read_stored: ReadStored | None = None,
    ) -> None:
        self.decoders: dict[str, Decoder] = {"parcel": open_parcel}
        self.budget = ByteBudget()  # for readers of request bodies
        self._max_open_bytes = max_open_bytes
        self._read_stored = read_stored
        self._spool = Spool(folder, max_bytes=max_bytes)
        self._streams = StreamPositions(folder / "streams.json")
        self._lock = threading.Lock()  # guards all below
        self._busy: set[str] = set()  # streams of which a body is being written right now
        self._cache: dict[int, _DecodedBody] = {}  # decoded already; all others wait on disk
        self._cache_bytes = 0
        self._collected = self._spool.released  # the newest number that was collected
        self._stored = self._collected  # the newest that was handed to the store for certain
        self._replayed = self._spool.newest  # up to here, the store may have it from before a crash
        self._unreleased: deque[tuple[int, int]] = deque()  # numbers and sizes, oldest first
        self._released_s = float("-inf")
        self._events: list[Event] = []
        self._accepted = self._repeated = self._unreadable = 0
        self._damage: tuple[str, ...] = ()
        self._merger = ObservationMerger()
        for record in self._spool.read(self._collected):  # senders repeat what was not answered
            position = _unpack_record(record.body)[1]
            if position is not None:
                self._streams.advance(position.stream, position.number)

    @property
    def stats(self) -> IntakeStats:
        """The counts now."""
        return IntakeStats(
            accepted=self._accepted,
            repeated=self._repeated,
            unreadable=self._unreadable,
            waiting_bodies=self._spool.newest - self._collected,
            held_bytes=self._spool.held_bytes,
        )

    def accept(
        self,
        kind: str,
        body: bytes,
        *,
        position: StreamPosition | None = None,
        check: Callable[[Decoded], None] = lambda _decoded: None,
    ) -> bool:
        """Make a body durable; return False if it was accepted before.

        Raises `StewardError` for a body that is wrong (or that `check` refuses) and
        `TemporaryError` when there is no room for it now. Nothing has changed then.
        """
        if kind not in self.decoders:
            raise unknown_name("kind of body", kind, self.decoders, where="intake")
        with self._claimed(position) as new:
            if not new:
                self._repeated += 1
                return False
            content = _decode(self.decoders[kind], body)
            check(content)
            number = self._spool.append(_pack_record(kind, position, body))
            if position is not None:
                self._streams.advance(position.stream, position.number)
            self._remember(_DecodedBody(number, content, _size(content, body)))
        return True

    def add_event(self, event: Event) -> None:
        """Add an event of our own to the next `collect`."""
        with self._lock:
            self._events.append(event)

    def available(self) -> Availability:
        stats = self.stats
        reason = f"{stats.waiting_bodies} bodies wait, {stats.held_bytes} bytes on disk"
        return Availability(status="ok", reason=reason)

    def collect(self, t_s: float) -> Observation:
        """Return what was accepted since the last time, as much as fits into memory.

        The caller has stored, or is about to store, what earlier calls returned.
        """
        with self._lock:
            self._stored = self._collected
            events, self._events = self._events, []
            room = self._max_open_bytes - sum(size for _, size in self._unreleased)
        replayed, bodies = self._collected < self._replayed, self._next_bodies(t_s)
        while room > 0 and (body := next(bodies, None)) is not None:
            self._merger.add(body.content)
            self._unreleased.append((body.number, body.size))
            room -= body.size
        seen = self._merger.fetch([*events, *self._damage_events(t_s)], t_s)
        if replayed and self._read_stored is not None:
            return replace(seen, frames=without_stored(seen.frames, self._read_stored))
        return seen

    @property
    def stored(self) -> int:
        """The newest body that earlier calls of `collect` returned.

        The newest call is not meant: a slow turn may not have stored it yet.
        """
        with self._lock:
            return self._stored

    def release(self, upto: int) -> None:
        """Delete all bodies up to this one; the store has made them durable."""
        with self._lock:
            while self._unreleased and self._unreleased[0][0] <= upto:
                self._unreleased.popleft()
        self._streams.save()  # before the spool deletes what it could be learned from
        self._spool.release(upto)

    def due_release(self, t_s: float) -> int | None:
        """Return up to where to release once the store is flushed; None: not due."""
        if 0 <= t_s - self._released_s < RELEASE_EVERY_S:
            return None
        self._released_s = t_s
        return self.stored

    def close(self) -> None:
        """Unlock the folder. What was accepted and not released is read again next time."""
        with suppress(StewardError):
            self._streams.save()
        self._spool.close()

    # -- inside --------------------------------------------------------------------------------

    @contextmanager
    def _claimed(self, position: StreamPosition | None) -> Iterator[bool]:
        """Keep two requests with the same body from being written at the same time."""
        if position is None:
            yield True
            return
        with self._lock:
            new = position.number > self._streams.newest(position.stream)
            if new and position.stream in self._busy:
                raise TemporaryError(
                    "an earlier body of this stream is still being written",
                    where=position.stream,
                    hint="send it again in a moment",
                )
            if new:
                self._busy.add(position.stream)
        if not new:
            yield False
            return
        try:
            yield True
        finally:
            with self._lock:
                self._busy.discard(position.stream)

    def _remember(self, body: _DecodedBody) -> None:
        with self._lock:
            self._accepted += 1
            fits = self._cache_bytes + body.size <= self._max_open_bytes
            if fits and body.number > self._collected:
                self._cache[body.number] = body
                self._cache_bytes += body.size

    def _next_bodies(self, t_s: float) -> Iterator[_DecodedBody]:
        """Yield what was accepted after what was collected, from memory where it is there."""
        while self._collected < (newest := self._spool.newest):
            body = self._from_cache(self._collected + 1) or self._from_disk(t_s)
            with self._lock:
                self._collected = newest if body is None else body.number
            if body is not None:
                yield body

    def _from_cache(self, number: int) -> _DecodedBody | None:
        with self._lock:
            body = self._cache.pop(number, None)
            if body is not None:
                self._cache_bytes -= body.size
            return body

    def _from_disk(self, t_s: float) -> _DecodedBody | None:
        """Return the next body that can be read, or None when no more are there."""
        for record in self._spool.read(self._collected):
            try:
                return self._from_cache(record.number) or self._read(record)
            except StewardError as fault:
                self._unreadable += 1
                self.add_event(_event(t_s, f"body {record.number} cannot be read: {fault}"))
        return None

    def _read(self, record: SpoolRecord) -> _DecodedBody:
        kind, _, body = _unpack_record(record.body)
        if kind not in self.decoders:
            raise unknown_name("kind of body", kind, self.decoders, where="intake")
        content = _decode(self.decoders[kind], body)
        return _DecodedBody(record.number, content, _size(content, body))

    def _damage_events(self, t_s: float) -> list[Event]:
        damage, known = self._spool.damage(), self._damage
        self._damage = damage
        return [_event(t_s, text) for text in damage if text not in known]


def _event(t_s: float, text: str) -> Event:
    return Event(t_s=t_s, kind="telemetry.damaged", subject="intake", text=text, source="intake")


def _decode(decoder: Decoder, body: bytes) -> Decoded:
    try:
        return decoder(body)
    except StewardError:
        raise
    # Foreign bytes: whatever they do to a decoder is their fault, and a panic is no exception.
    except (Exception, pl.exceptions.PanicException) as fault:
        problem = f"it cannot be read: {type(fault).__name__}: {fault}"
        raise StewardError(problem[:500], where="intake", hint="see what was sent") from fault


def _size(content: Decoded, body: bytes) -> int:
    match content:
        case Parcel():
            return len(body) + sum(table.matrix.nbytes for table in content.tables)
        case PushedSamples():
            return len(body) + content.nbytes
        case PushedLines():
            return len(body) + sum(len(line.text) for line in content.lines)
    return len(body) + sum(int(each.estimated_size()) for each in (*content.tables, content.other))


def _pack_record(kind: str, position: StreamPosition | None, body: bytes) -> bytes:
    """Put before a body what has to be known about it after a crash."""
    about: dict[str, object] = {"kind": kind}
    if position is not None:
        about["of"] = [position.stream, position.number]
    return json.dumps(about).encode() + b"\n" + body


def _unpack_record(record: bytes) -> tuple[str, StreamPosition | None, bytes]:
    line, _, body = record.partition(b"\n")
    about = json.loads(line)  # we wrote it, and its checksum is right
    of = about.get("of")
    return about["kind"], StreamPosition(stream=of[0], number=of[1]) if of else None, body
