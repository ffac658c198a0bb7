"""The queue of parcels to be sent: on disk, in order, up to a limit; then the oldest are dropped.

A disk that refuses costs nothing at first: parcels then wait in memory, up to a smaller limit, and
can be sent from there. What is dropped is reported as a gap, from when until when.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from steward.errors import StewardError, TemporaryError
from steward.observe.agent.parcel import read_header
from steward.store.spool import Spool, SpoolFullError

__all__ = ["DroppedParcels", "ParcelBuffer", "QueuedParcel"]

MAX_MEMORY_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class QueuedParcel:
    """The next parcel to be sent. Number 0: it is in memory alone."""

    number: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedParcels:
    """Parcels that will never be sent."""

    parcels: int
    from_s: float
    to_s: float
    why: str


class ParcelBuffer:
    """A queue of parcels for one thread that puts and one that sends; order is kept."""

    def __init__(self, spool: Spool, *, max_memory_bytes: int = MAX_MEMORY_BYTES) -> None:
        self._spool = spool
        self._max_memory_bytes = max_memory_bytes
        self._lock = threading.Lock()
        self._memory: deque[bytes] = deque()
        self._next: QueuedParcel | None = None
        self._dropped: list[DroppedParcels] = []
        self.problem = ""  # why the disk takes nothing now

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are not sent yet."""
        return sum(len(body) for body in self._memory) + self._spool.waiting_bytes

    @property
    def waiting_parcels(self) -> int:
        """Number of parcels that are not sent yet."""
        single = self._next is not None and self._next.number == 0
        return self._spool.newest - self._spool.released + len(self._memory) + single

    def put(self, body: bytes) -> None:
        """Keep a parcel, durably where the disk allows it."""
        with self._lock:
            self._memory.append(body)
            self._to_disk()
            while sum(len(each) for each in self._memory) > self._max_memory_bytes:
                self._drop([self._memory.popleft()], why=self.problem)

    def next(self) -> QueuedParcel | None:
        """Return the oldest parcel; the same again until it is acknowledged."""
        with self._lock:
            dropped = self._next is not None and 0 < self._next.number <= self._spool.released
            if self._next is None or dropped:
                self._next = self._oldest()
            return self._next

    def acknowledge(self, parcel: QueuedParcel) -> None:
        """Delete a parcel that was sent, or that the server will never accept."""
        with self._lock:
            self._next = None
            if parcel.number:
                self._spool.release(parcel.number)
            if self._memory:
                self._to_disk()

    def dropped(self) -> Sequence[DroppedParcels]:
        """Return what was dropped since the last call."""
        with self._lock:
            found, self._dropped = self._dropped, []
            return found

    def damage(self) -> tuple[str, ...]:
        """Return what was found broken on disk."""
        return self._spool.damage()

    def _oldest(self) -> QueuedParcel | None:
        for record in self._spool.read(self._spool.released):
            return QueuedParcel(record.number, record.body)
        return QueuedParcel(0, self._memory.popleft()) if self._memory else None

    def _to_disk(self) -> None:
        while self._memory:
            try:
                self._spool.append(self._memory[0])
            except SpoolFullError:
                lost = [record.body for record in self._spool.drop_oldest()]
                why = f"the buffer of {self._spool.max_bytes} bytes is full"
                self._drop(lost, why=why)
                continue
            except TemporaryError as fault:
                self.problem = str(fault)
                return
            except StewardError as fault:
                self.problem = str(fault)
                self._drop([self._memory[0]], why=str(fault))
            self._memory.popleft()
        self.problem = ""

    def _drop(self, bodies: Sequence[bytes], *, why: str) -> None:
        if bodies:
            labels = [read_header(body) for body in bodies]
            self._dropped.append(
                DroppedParcels(
                    parcels=len(labels),
                    from_s=min(label.from_s for label in labels),
                    to_s=max(label.to_s for label in labels),
                    why=why,
                )
            )
