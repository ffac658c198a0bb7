"""Read and prefilter streams in background threads, ahead of the matcher.

Reading, decompressing, splitting and searching mostly release the GIL, so that threads run in
parallel. Matching depends on the order of streams and stays with the caller.
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

__all__ = ["InProcess", "ReadAhead"]

MOST_BYTES = 64 * 2**20  # limit of the buffers; each stream may always buffer one block
Blocks = Generator[LogBlock]
BlockPrefilter = Callable[[LogBlock], PrefilteredBlock]


class _Stream:
    """One stream: its unread blocks, and its buffer of prefiltered ones."""

    __slots__ = ("blocks", "held_bytes", "prefilter", "ready", "rests", "waiting")

    def __init__(self, blocks: Blocks, prefilter: BlockPrefilter) -> None:
        self.blocks, self.prefilter = blocks, prefilter
        self.ready: SimpleQueue[Future[PrefilteredBlock] | None] = SimpleQueue()  # None: end
        self.waiting = self.held_bytes = 0
        self.rests = False  # paused until the buffer has room


class InProcess:
    """Read nothing ahead: the caller reads each block when it needs it."""

    def __len__(self) -> int:
        return 0

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        """Do nothing: there is nothing to end."""


class ReadAhead:
    """Pool of read-ahead threads. Each stream yields its blocks and errors in order.

    A stream is read by one thread, which also prefilters each block while it is in the CPU cache.
    Where there are fewer streams than threads, others prefilter it: one large file keeps two of
    them busy. No thread waits for another: a stream with a full buffer is paused until the caller
    consumes some of it.
    """

    def __init__(self, threads: int, *, most_bytes: int = MOST_BYTES) -> None:
        self._threads, self._most_bytes = threads, most_bytes
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="steward-ahead")
        self._lock = Lock()
        self._closed = False
        self._open: dict[_Stream, None] = {}  # not read to the end

    def __len__(self) -> int:
        return self._threads

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

    def begin(self, blocks: Blocks, prefilter: BlockPrefilter) -> Iterator[PrefilteredBlock]:
        """Start to read a stream as soon as a thread is free; return its prefiltered blocks."""
        stream = _Stream(blocks, prefilter)
        with self._lock:
            self._open[stream] = None
        self._pool.submit(self._read, stream)
        return self._results(stream)

    def _results(self, stream: _Stream) -> Iterator[PrefilteredBlock]:
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

    # -- in the threads ----------------------------------------------------------------------------

    def _read(self, stream: _Stream) -> None:
        """Read a stream to its end, or until its buffer is full."""
        rests = False
        while not (rests or self._closed):
            try:
                block = next(stream.blocks, None)
            except Exception as fault:  # noqa: BLE001 - raised by the consumer
                self._end(stream, fault)
                return
            if block is None:
                self._end(stream)
                return
            with self._lock:
                stream.held_bytes += len(block.buffer)
                stream.waiting += 1
                others_are_free = len(self._open) < self._threads
            prefilter = partial(self._prefilter, stream, block)
            stream.ready.put(self._pool.submit(prefilter) if others_are_free else _done(prefilter))
            with self._lock:
                stream.rests = rests = not self._may_read(stream)

    def _prefilter(self, stream: _Stream, block: LogBlock) -> PrefilteredBlock:
        prefiltered = stream.prefilter(block)
        with self._lock:
            stream.held_bytes += prefiltered.held_bytes - len(block.buffer)
        return prefiltered

    def _may_read(self, stream: _Stream) -> bool:
        """Return whether a stream has room in its buffer; one block always fits."""
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
    """Run a function now, and return its result or error as a future."""
    future: Future[PrefilteredBlock] = Future()
    try:
        future.set_result(work())
    except Exception as fault:  # noqa: BLE001 - raised by the consumer
        future.set_exception(fault)
    return future
