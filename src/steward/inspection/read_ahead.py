"""Reads and sifts streams in several threads, ahead of the one that matches.

Files are read, unpacked, cut into entries and searched mostly outside of Python, so that threads
do it at the same time. What depends on the order of streams, the matching, stays with the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from threading import Lock
from types import TracebackType

from steward.decide.rules.prefiltered_block import PrefilteredBlock
from steward.model.rules import LogBlock

__all__ = ["ReadAhead"]

MOST_BYTES = 64 * 2**20  # that may wait to be taken; each stream may always have one piece there
Blocks = Generator[LogBlock]
Sift = Callable[[LogBlock], PrefilteredBlock]


class _Stream:
    """One stream: what is still to be read, and what waits to be taken."""

    __slots__ = ("blocks", "held_bytes", "ready", "rests", "sift", "waiting")

    def __init__(self, blocks: Blocks, sift: Sift) -> None:
        self.blocks, self.sift = blocks, sift
        self.ready: SimpleQueue[Future[PrefilteredBlock] | None] = SimpleQueue()  # None: it is over
        self.waiting = self.held_bytes = 0
        self.rests = False  # nobody reads it, until some of what waits is taken


class ReadAhead:
    """Threads that read ahead. Each stream comes out in its order, and so do its errors.

    A stream is read by one thread, which also sifts what it read while that is in its processor's
    cache. Where there are fewer streams than threads, others sift it: one large file keeps two of
    them busy. No thread waits for another: where as much of a stream waits to be taken as may,
    nobody reads it until some was taken.
    """

    def __init__(self, threads: int, *, most_bytes: int = MOST_BYTES) -> None:
        self._threads, self._most_bytes = threads, most_bytes
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="steward-ahead")
        self._lock = Lock()
        self._closed = False
        self._open: dict[_Stream, None] = {}  # not read to their ends

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop reading, wait for the threads, and close what is open."""
        self._closed = True
        self._pool.shutdown(cancel_futures=True)
        for each in self._open:
            each.blocks.close()

    def begin(self, blocks: Blocks, sift: Sift) -> Iterator[PrefilteredBlock]:
        """Begin to read a stream as soon as a thread is free; return what will come of it."""
        stream = _Stream(blocks, sift)
        with self._lock:
            self._open[stream] = None
        self._pool.submit(self._read, stream)
        return self._taken(stream)

    def _taken(self, stream: _Stream) -> Iterator[PrefilteredBlock]:
        while (future := stream.ready.get()) is not None:
            prefiltered = future.result()
            with self._lock:
                stream.held_bytes -= prefiltered.held_bytes
                stream.waiting -= 1
                rested = stream.rests and self._may_read(stream)
                stream.rests = stream.rests and not rested
            if rested:
                self._pool.submit(self._read, stream)
            yield prefiltered

    # -- what the threads do -----------------------------------------------------------------------

    def _read(self, stream: _Stream) -> None:
        """Read a stream until it is over, or enough of it waits."""
        rests = False
        while not (rests or self._closed):
            try:
                block = next(stream.blocks, None)
            except Exception as fault:  # noqa: BLE001 - whoever takes it raises it
                self._end(stream, fault)
                return
            if block is None:
                self._end(stream)
                return
            with self._lock:
                stream.held_bytes += len(block.buffer)
                stream.waiting += 1
                others_are_free = len(self._open) < self._threads
            sift = partial(self._sift, stream, block)
            stream.ready.put(self._pool.submit(sift) if others_are_free else _done(sift))
            with self._lock:
                stream.rests = rests = not self._may_read(stream)

    def _sift(self, stream: _Stream, block: LogBlock) -> PrefilteredBlock:
        prefiltered = stream.sift(block)
        with self._lock:
            stream.held_bytes += prefiltered.held_bytes - len(block.buffer)
        return prefiltered

    def _may_read(self, stream: _Stream) -> bool:
        """Whether a stream holds less than its share; one piece of each may always wait."""
        share_bytes = self._most_bytes / max(len(self._open), 1)
        return not stream.waiting or stream.held_bytes < share_bytes

    def _end(self, stream: _Stream, fault: Exception | None = None) -> None:
        with self._lock:
            del self._open[stream]
        if fault is not None:
            failed: Future[PrefilteredBlock] = Future()
            failed.set_exception(fault)
            stream.ready.put(failed)
        stream.ready.put(None)


def _done(work: Callable[[], PrefilteredBlock]) -> Future[PrefilteredBlock]:
    """Do something at once, and keep what came of it for whoever takes it."""
    future: Future[PrefilteredBlock] = Future()
    try:
        future.set_result(work())
    except Exception as fault:  # noqa: BLE001 - whoever takes it raises it
        future.set_exception(fault)
    return future
