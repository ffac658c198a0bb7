"""Sends bodies one after the other, tries again when that may help, and never holds too many."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from steward.errors import StewardError, TemporaryError

__all__ = ["DeliveryStats", "QueuedSender", "RetryingSender"]

FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 30.0
_END = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryStats:
    """What became of the samples that were offered."""

    sent: int = 0
    refused: int = 0  # the receiver rejected them permanently
    given_up: int = 0  # dropped: no answer for too long, or the queue was full
    tries_again: int = 0
    last_fault: str = ""


class RetryingSender:
    """Brings one body after the other to its receiver, and counts what became of them.

    A `TemporaryError` is tried again with growing pauses for at most `patience_s`; anything else
    is final. Once `stop` is set, nothing is tried any more.
    """

    def __init__(
        self,
        send: Callable[[bytes], object],
        *,
        patience_s: float,
        stop: threading.Event,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._send = send
        self._patience_s = patience_s
        self._stop = stop
        self._now_s = now_s
        self._lock = threading.Lock()
        self._stats = DeliveryStats()
        self.trouble = ""  # why the newest body has not arrived; nothing when it has

    @property
    def stats(self) -> DeliveryStats:
        """Totals until now."""
        return self._stats

    def deliver(self, body: bytes, samples: int) -> None:
        """Send a body until it is accepted, refused, or dropped."""
        until_s, wait_s = self._now_s() + self._patience_s, FIRST_WAIT_S
        while not self._stop.is_set():
            try:
                self._send(body)
            except TemporaryError as fault:
                self.count(tries_again=1, fault=str(fault))
                pause_s = max(fault.retry_after_s or 0.0, wait_s * random.uniform(0.5, 1.0))  # noqa: S311 - spread
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
                if self._now_s() + pause_s > until_s or self._stop.wait(pause_s):
                    break
            except StewardError as fault:
                self.count(refused=samples, fault=str(fault))
                return
            else:
                self.count(sent=samples)
                return
        self.count(given_up=samples)

    def count(self, *, fault: str = "", **more: int) -> None:
        """Add to what is counted."""
        with self._lock:
            now = self._stats
            self._stats = DeliveryStats(
                sent=now.sent + more.get("sent", 0),
                refused=now.refused + more.get("refused", 0),
                given_up=now.given_up + more.get("given_up", 0),
                tries_again=now.tries_again + more.get("tries_again", 0),
                last_fault=fault or now.last_fault,
            )
            self.trouble = "" if more.get("sent") else fault or self.trouble


class QueuedSender:
    """One thread that calls `send` for each body, in order; see `RetryingSender` for its tries.

    When `most_waiting` bodies wait, more are dropped and counted, unless the caller would rather
    wait.
    """

    def __init__(
        self,
        send: Callable[[bytes], object],
        *,
        most_waiting: int = 100,
        patience_s: float = 300.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stop = threading.Event()
        self._delivery = RetryingSender(send, patience_s=patience_s, stop=self._stop, now_s=now_s)
        self._waiting: queue.Queue[tuple[bytes, int] | None] = queue.Queue(most_waiting)
        self._thread = threading.Thread(target=self._work, name="sender", daemon=True)
        self._thread.start()

    @property
    def stats(self) -> DeliveryStats:
        """Totals until now."""
        return self._delivery.stats

    def offer(self, body: bytes, samples: int, *, wait: bool = False) -> bool:
        """Queue a body; return whether there was room for it."""
        try:
            self._waiting.put((body, samples), block=wait)
        except queue.Full:
            self._delivery.count(given_up=samples)
            return False
        return True

    def close(self, *, within_s: float = 10.0) -> DeliveryStats:
        """Send what waits, but no longer than that; drop what is left then."""
        timer = threading.Timer(within_s, self._stop.set)
        timer.daemon = True
        timer.start()
        self._waiting.put(_END)
        self._thread.join()
        timer.cancel()
        return self.stats

    def _work(self) -> None:
        while (each := self._waiting.get()) is not None:
            self._delivery.deliver(*each)
