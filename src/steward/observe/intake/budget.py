"""How many bytes of bodies may be in memory at once, over all requests that push."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from steward.errors import TemporaryError

__all__ = ["ByteBudget", "Reservation"]

MOST_BYTES = 512 * 2**20
COPIES = 5  # a body is in memory as it came, with its head, in its record, decompressed, decoded
RETRY_AFTER_S = 2.0


class Reservation:
    """Bytes that one request holds; they are returned when its `reserve` block ends."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self.size = 0

    def grow(self, size: int) -> None:
        """Reserve until a body of `size` bytes is covered; raises when there is no room."""
        if size > self.size:
            self._budget.take((size - self.size) * COPIES)
            self.size = size


class ByteBudget:
    """Bytes that all requests share. Beyond them, requests are refused with Retry-After."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._lock = threading.Lock()
        self._used = 0

    @property
    def used_bytes(self) -> int:
        """How much is reserved now."""
        return self._used

    @contextmanager
    def reserve(self, size: int) -> Iterator[Reservation]:
        """Reserve memory for a body of `size` bytes as long as the block runs.

        Raises `TemporaryError` when other requests hold too much already.
        """
        reservation = Reservation(self)
        try:
            reservation.grow(size)
            yield reservation
        finally:
            with self._lock:
                self._used -= reservation.size * COPIES

    def take(self, size: int) -> None:
        """Reserve bytes, or raise `TemporaryError`."""
        with self._lock:
            if self._used + size > self.most_bytes:
                raise TemporaryError(
                    f"bodies of other requests take {self._used} of {self.most_bytes} bytes",
                    where="intake",
                    hint="send it again in a moment",
                    retry_after_s=RETRY_AFTER_S,
                )
            self._used += size
