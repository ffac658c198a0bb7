"""Reads and sifts streams in several threads, ahead of the one that matches.

Files are read, unpacked, cut into entries and searched mostly outside of Python, so that threads
do it at the same time. What depends on the order of streams, the matching, stays with the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Lock
from types import TracebackType

from steward.decide.rules.sifting import Sifted
from steward.model.rules import LogBlock

__all__ = ["Ahead"]

MOST_BYTES = 64 * 2**20  # that may wait to be taken; each stream may always have one piece there
Blocks = Generator[LogBlock]
Sift = Callable[[LogBlock], Sifted]


class _Stream:
    """One stream: what is still to be read, and what waits to be taken."""

    __slots__ = ("blocks", "ready", "sift", "waiting")

    def __init__(self, blocks: Blocks, sift: Sift) -> None:
        self.blocks, self.sift = blocks, sift
        self.ready: SimpleQueue[Future[Sifted] | None] = SimpleQueue()  # None: it is over
        self.waiting = 0


class Ahead:
    """Threads that read ahead. Each stream comes out in its order, and so do its errors.

    A stream is read by one thread at a time, while others sift what was read of it: one large file
    keeps two of them busy. No thread waits for another: where as much waits to be taken as may,
    reading stops, and goes on when some of it was taken.
    """

    def __init__(self, threads: int, *, most_bytes: int = MOST_BYTES) -> None:
        self._threads, self._most_bytes = threads, most_bytes
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="steward-ahead")
        self._lock = Lock()
        self._held_bytes = 0
        self._open: dict[_Stream, None] = {}  # not read to their ends
        self._resting: dict[_Stream, None] = {}  # of these, those that nobody reads

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop reading, wait for the threads, and close what is open."""
        self._pool.shutdown(cancel_futures=True)  # what a thread would go on with is refused
        for each in self._open:
            each.blocks.close()

    @property
    def wants_more(self) -> bool:
        """Whether some thread would have nothing to do, and there is room for what it reads."""
        return len(self._open) < self._threads and self._held_bytes < self._most_bytes

    def begin(self, blocks: Blocks, sift: Sift) -> Iterator[Sifted]:
        """Begin to read a stream at once; return what will come of it."""
        stream = _Stream(blocks, sift)
        with self._lock:
            self._open[stream] = None
        self._pool.submit(self._read, stream)
        return self._taken(stream)

    def _taken(self, stream: _Stream) -> Iterator[Sifted]:
        while (future := stream.ready.get()) is not None:
            sifted = future.result()
            with self._lock:
                self._held_bytes -= sifted.held_bytes
                stream.waiting -= 1
                rested = [each for each in self._resting if self._may_read(each)]
                for each in rested:
                    del self._resting[each]
            for each in rested:
                self._pool.submit(self._read, each)
            yield sifted

    # -- what the threads do -----------------------------------------------------------------------

    def _read(self, stream: _Stream) -> None:
        try:
            block = next(stream.blocks, None)
        except Exception as fault:  # noqa: BLE001 - whoever takes it raises it
            self._end(stream, fault)
            return
        if block is None:
            self._end(stream)
            return
        with self._lock:
            self._held_bytes += len(block.buffer)
            stream.waiting += 1
        stream.ready.put(self._pool.submit(self._sift, stream, block))
        with self._lock:
            goes_on = self._may_read(stream)
            if not goes_on:
                self._resting[stream] = None
        if goes_on:
            self._pool.submit(self._read, stream)

    def _sift(self, stream: _Stream, block: LogBlock) -> Sifted:
        sifted = stream.sift(block)
        with self._lock:
            self._held_bytes += sifted.held_bytes - len(block.buffer)
        return sifted

    def _may_read(self, stream: _Stream) -> bool:
        return not stream.waiting or self._held_bytes < self._most_bytes

    def _end(self, stream: _Stream, fault: Exception | None = None) -> None:
        with self._lock:
            del self._open[stream]
        if fault is not None:
            failed: Future[Sifted] = Future()
            failed.set_exception(fault)
            stream.ready.put(failed)
        stream.ready.put(None)
