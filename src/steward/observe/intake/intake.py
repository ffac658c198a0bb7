"""What other machines send: on disk before it is acknowledged, read by the loop like any source.

    accept: decode -> spool (synced) -> acknowledged          collect: everything accepted, in order
    kept:   the store has synced what was collected -> the spool lets go of it

A crash at any point repeats at most what was not acknowledged or not let go of; numbers make a
repeated parcel harmless, and a row that is stored twice counts once. Memory is bounded: what does
not fit waits on disk, and when the disk's share is used up, senders are asked to wait.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from steward.errors import StewardError, TemporaryError, unknown_name
from steward.model.event import Availability, Event, Observation
from steward.observe.agent.parcel import Parcel, open_parcel
from steward.observe.intake.merging import Merging, Seen
from steward.observe.receive import Readings
from steward.store.spool import Spool, SpoolRecord, StreamPositions

__all__ = ["Decoder", "Intake", "IntakeStats", "Once"]

MAX_BYTES = 2 * 2**30
MAX_OPEN_BYTES = 256 * 2**20
KEEP_EVERY_S = 30.0

Decoder = Callable[[bytes], Seen]


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """Says which body this is, so that it is taken once: numbers of a stream only grow."""

    stream: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeStats:
    """What came in since this was opened."""

    accepted: int = 0
    repeated: int = 0  # had been accepted before
    unreadable: int = 0  # were accepted by an earlier version, and cannot be read by this one
    waiting_bodies: int = 0  # accepted and not collected yet
    held_bytes: int = 0  # of the disk


@dataclass(frozen=True, slots=True)
class _Held:
    """A body that was decoded, and about how much memory it takes."""

    number: int
    seen: Seen
    size: int


class Intake:
    """A collector whose source is the network. `folder` is its own; one process at a time.

    Others add to `decoders` how to read their bodies, before the first `collect`.
    """

    name = "intake"
    vocabulary = "canonical"

    def __init__(
        self, folder: Path, *, max_bytes: int = MAX_BYTES, max_open_bytes: int = MAX_OPEN_BYTES
    ) -> None:
        self.decoders: dict[str, Decoder] = {"parcel": open_parcel}
        self._max_open_bytes = max_open_bytes
        self._spool = Spool(folder, max_bytes=max_bytes)
        self._streams = StreamPositions(folder / "streams.json")
        self._lock = threading.Lock()  # guards all below
        self._busy: set[str] = set()  # streams of which a body is being written right now
        self._waiting: dict[int, _Held] = {}  # decoded already; all others wait on disk
        self._waiting_bytes = 0
        self._drained = self._spool.released  # all up to this number were collected
        self._handed = self._drained  # and all up to this one are certainly in the store's hands
        self._unkept: deque[tuple[int, int]] = deque()  # numbers and sizes, collected and not kept
        self._kept_s = float("-inf")
        self._told: list[Event] = []
        self._accepted = self._repeated = self._unreadable = 0
        self._damage: tuple[str, ...] = ()
        self._merging = Merging()
        for record in self._spool.read(self._drained):  # who sent what may repeat after a crash
            once = _opened(record.body)[1]
            if once is not None:
                self._streams.advance(once.stream, once.number)

    @property
    def stats(self) -> IntakeStats:
        """Figures for those who look at it."""
        return IntakeStats(
            accepted=self._accepted,
            repeated=self._repeated,
            unreadable=self._unreadable,
            waiting_bodies=self._spool.newest - self._drained,
            held_bytes=self._spool.held_bytes,
        )

    def accept(
        self,
        kind: str,
        body: bytes,
        *,
        once: Once | None = None,
        check: Callable[[Seen], None] = lambda _seen: None,
    ) -> bool:
        """Take a body: durable when it returns. False: it was taken before, and is not again.

        Raises `StewardError` for a body that is wrong (or that `check` refuses) and
        `TemporaryError` when there is no room for it now.
        """
        if kind not in self.decoders:
            raise unknown_name("kind of body", kind, self.decoders, where="intake")
        with self._claimed(once) as new:
            if not new:
                self._repeated += 1
                return False
            seen = _decoded(self.decoders[kind], body)
            check(seen)
            number = self._spool.append(_closed(kind, once, body))
            if once is not None:
                self._streams.advance(once.stream, once.number)
            self._remember(_Held(number, seen, _size(seen, body)))
        return True

    def tell(self, event: Event) -> None:
        """Let the next look bring an event of our own."""
        with self._lock:
            self._told.append(event)

    def available(self) -> Availability:
        stats = self.stats
        reason = f"{stats.waiting_bodies} bodies wait, {stats.held_bytes} bytes on disk"
        return Availability(status="ok", reason=reason)

    def collect(self, t_s: float) -> Observation:
        """Return what was accepted since the last time, as much as fits into memory.

        Whoever asks again has what was returned before: it may be kept.
        """
        with self._lock:
            self._handed = self._drained
            told, self._told = self._told, []
        room = self._max_open_bytes - sum(size for _, size in self._unkept)
        following = self._following(t_s)
        while room > 0 and (held := next(following, None)) is not None:
            self._merging.add(held.seen)
            self._unkept.append((held.number, held.size))
            room -= held.size
        return self._merging.taken([*told, *self._damage_events(t_s)], t_s)

    def kept(self) -> None:
        """Let go of all that earlier looks have returned; the store has made it durable.

        The newest look is not meant: a slow turn may not have stored it yet.
        """
        with self._lock:
            upto = self._handed
            while self._unkept and self._unkept[0][0] <= upto:
                self._unkept.popleft()
        self._streams.save()  # before the spool forgets what it could be learned from
        self._spool.release(upto)

    def upkeep(self, t_s: float, flush: Callable[[], None]) -> None:
        """Now and then, let the store make everything durable and let go of it here."""
        if not 0 <= t_s - self._kept_s < KEEP_EVERY_S:
            self._kept_s = t_s
            flush()
            self.kept()

    def close(self) -> None:
        """Let another process go on. What was accepted and not kept is read again then."""
        with suppress(StewardError):
            self._streams.save()
        self._spool.close()

    # -- inside --------------------------------------------------------------------------------

    @contextmanager
    def _claimed(self, once: Once | None) -> Iterator[bool]:
        """Keep two requests with the same body from being written at the same time."""
        if once is None:
            yield True
            return
        with self._lock:
            new = once.number > self._streams.newest(once.stream)
            if new and once.stream in self._busy:
                raise TemporaryError(
                    "an earlier body of this stream is still being written",
                    where=once.stream,
                    hint="send it again in a moment",
                )
            if new:
                self._busy.add(once.stream)
        if not new:
            yield False
            return
        try:
            yield True
        finally:
            with self._lock:
                self._busy.discard(once.stream)

    def _remember(self, held: _Held) -> None:
        with self._lock:
            self._accepted += 1
            fits = self._waiting_bytes + held.size <= self._max_open_bytes
            if fits and held.number > self._drained:
                self._waiting[held.number] = held
                self._waiting_bytes += held.size

    def _following(self, t_s: float) -> Iterator[_Held]:
        """Give what was accepted after what was drained, from memory where it is there."""
        while self._drained < (newest := self._spool.newest):
            held = self._from_memory(self._drained + 1) or self._from_disk(t_s)
            with self._lock:
                self._drained = newest if held is None else held.number
            if held is not None:
                yield held

    def _from_memory(self, number: int) -> _Held | None:
        with self._lock:
            held = self._waiting.pop(number, None)
            if held is not None:
                self._waiting_bytes -= held.size
            return held

    def _from_disk(self, t_s: float) -> _Held | None:
        """Return the next body that can be read, or None when no more are there."""
        for record in self._spool.read(self._drained):
            try:
                return self._from_memory(record.number) or self._read(record)
            except StewardError as fault:
                self._unreadable += 1
                self.tell(_event(t_s, f"body {record.number} cannot be read any more: {fault}"))
        return None

    def _read(self, record: SpoolRecord) -> _Held:
        kind, _, body = _opened(record.body)
        if kind not in self.decoders:
            raise unknown_name("kind of body", kind, self.decoders, where="intake")
        seen = _decoded(self.decoders[kind], body)
        return _Held(record.number, seen, _size(seen, body))

    def _damage_events(self, t_s: float) -> list[Event]:
        damage, known = self._spool.damage(), self._damage
        self._damage = damage
        return [_event(t_s, said) for said in damage if said not in known]


def _event(t_s: float, text: str) -> Event:
    return Event(t_s=t_s, kind="telemetry.damaged", subject="intake", text=text, source="intake")


def _decoded(decoder: Decoder, body: bytes) -> Seen:
    try:
        return decoder(body)
    except StewardError:
        raise
    # A stranger's bytes: whatever they do to a decoder is their fault, and a panic is no exception.
    except (Exception, pl.exceptions.PanicException) as fault:
        problem = f"it cannot be read: {type(fault).__name__}: {fault}"
        raise StewardError(problem[:500], where="intake", hint="see what was sent") from fault


def _size(seen: Seen, body: bytes) -> int:
    if isinstance(seen, Parcel):
        return len(body) + sum(table.matrix.nbytes for table in seen.tables)
    if isinstance(seen, Readings):
        return len(body) + 24 * len(seen)
    return len(body) + sum(int(table.estimated_size()) for table in (*seen.tables, seen.other))


def _closed(kind: str, once: Once | None, body: bytes) -> bytes:
    """Write on a body what has to be known about it after a crash."""
    about = {"kind": kind} if once is None else {"kind": kind, "of": [once.stream, once.number]}
    return json.dumps(about).encode() + b"\n" + body


def _opened(record: bytes) -> tuple[str, Once | None, bytes]:
    line, _, body = record.partition(b"\n")
    about = json.loads(line)  # we wrote it, and its checksum is right
    of = about.get("of")
    return about["kind"], Once(stream=of[0], number=of[1]) if of else None, body
