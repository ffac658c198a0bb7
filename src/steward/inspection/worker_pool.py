"""Pool of processes that read and prefilter log files, ahead of the matcher.

Processes share no interpreter lock, so that two cores do nearly twice the work of one; threads
reach 1.4 times (decision 0032). They are started as new programs: this process has threads (of
OpenBLAS, of polars, of a progress display) whose locks a forked copy would inherit in any state.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from multiprocessing.connection import Pipe
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType

from steward.decide.rules.prefiltered_block import PrefilteredBlock, ScannedBlock, attribute
from steward.decide.rules.routes import Route
from steward.errors import StewardError
from steward.inspection.scan_worker import (
    Acknowledge,
    CloseStream,
    EndOfStream,
    OpenStream,
    Reply,
    Request,
)
from steward.model.rules import Mode, Stream
from steward.observe.logs import ReadCounts, Reading

__all__ = ["StreamFiles", "WorkerPool"]

MOST_BYTES = 64 * 2**20  # limit of the buffers; each stream may always buffer one block
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from steward.inspection.scan_worker import main; main(int(sys.argv[1]))"
)
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
_END_S = 10.0  # a process in an uninterruptible read does not end earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFiles:
    """The files of one stream, and how they are read."""

    stream: Stream
    files: tuple[Path, ...]
    mode: Mode
    reading: Reading
    tally: ReadCounts  # is filled at the end of the stream

    @property
    def size_bytes(self) -> int:
        """Size of the files; 0 for one that is gone, which the reader reports."""
        return sum(each.stat().st_size for each in self.files if each.exists())


@dataclass(slots=True, kw_only=True, eq=False)
class _OpenStream:
    number: int
    log: StreamFiles
    size_bytes: int
    ready: SimpleQueue[ScannedBlock | EndOfStream | None] = field(default_factory=SimpleQueue)


class _WorkerProcess:
    """One process with its connection, and a thread that receives what it sends."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), *sys.path],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=os.environ | _ONE_THREAD,
                process_group=0,  # Ctrl-C is for the parent, which ends its workers
            )
        self.streams: dict[int, _OpenStream] = {}
        self.known_routes: set[int] = set()
        self._ended = False
        self._receiver = threading.Thread(
            target=self._receive, name="steward-scan-receiver", daemon=True
        )
        self._receiver.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def load_bytes(self) -> int:
        """Size of what it has to read, or is reading."""
        return sum(each.size_bytes for each in list(self.streams.values()))

    def add(self, stream: _OpenStream, request: OpenStream) -> None:
        self.streams[stream.number] = stream
        self.send(request)
        if self._ended:
            stream.ready.put(None)

    def send(self, request: Request) -> None:
        """Send a request; one that has ended is noticed by the receiver."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connection.send(request)

    def failure(self, where: str) -> StewardError:
        """Return the error for a process that ended before its work was done."""
        status = self._process.wait()
        how = f"status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
        return StewardError(
            f"the worker process {self.pid} that read this ended early, by {how}",
            where=where,
            hint="use `--jobs 1` to read in one process, which also needs less memory",
        )

    def terminate(self) -> None:
        """Send the signal to end, whatever it does."""
        self._process.terminate()

    def close(self) -> None:
        """Wait until it has ended."""
        self._receiver.join(_END_S)
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)

    def _receive(self) -> None:
        try:
            while True:
                reply: Reply = self._connection.recv()
                number, piece = reply
                stream = self.streams.get(number)
                if isinstance(piece, EndOfStream):
                    self.streams.pop(number, None)
                if stream is not None:
                    stream.ready.put(piece)
        except (EOFError, OSError):
            self._ended = True
            for stream in list(self.streams.values()):
                stream.ready.put(None)


class WorkerPool:
    """Read streams in other processes. Each stream yields its blocks and errors in order.

    The processes start at once, and load their code while the caller loads rules. A stream is read
    by one process; it is given to the one that has least to read.
    """

    def __init__(self, workers: int, *, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._routes: dict[Route | None, int] = {}
        self._last_number = 0
        self._workers: list[_WorkerProcess] = []
        try:
            for _ in range(workers):
                self._workers.append(_WorkerProcess())
        except OSError:
            self.close()
            raise

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the workers."""
        return tuple(each.pid for each in self._workers)

    def begin(
        self, log: StreamFiles, route: Route | None, *, open_streams: int
    ) -> Iterator[PrefilteredBlock]:
        """Start to read a stream, one of so many that are open; return its prefiltered blocks."""
        self._last_number += 1
        stream = _OpenStream(number=self._last_number, log=log, size_bytes=log.size_bytes)
        worker = min(self._workers, key=lambda each: each.load_bytes)
        number = self._routes.setdefault(route, len(self._routes))
        is_new = number not in worker.known_routes
        worker.known_routes.add(number)
        request = OpenStream(
            number=stream.number,
            name=log.stream.name,
            files=log.files,
            mode=log.mode,
            reading=log.reading,
            route=number,
            terms=route.terms if is_new and route is not None else None,
            most_bytes=self._most_bytes // max(open_streams, 1),
        )
        worker.add(stream, request)
        return _results(worker, stream, route)

    def close_streams(self) -> None:
        """Stop reading what was begun and not read to its end."""
        for worker in self._workers:
            for number in list(worker.streams):
                worker.streams.pop(number, None)
                worker.send(CloseStream(number=number))

    def close(self) -> None:
        """End all processes."""
        for each in self._workers:
            each.terminate()
        for each in self._workers:
            each.close()
        self._workers = []


def _results(
    worker: _WorkerProcess, stream: _OpenStream, route: Route | None
) -> Iterator[PrefilteredBlock]:
    while True:
        piece = stream.ready.get()
        if piece is None:
            raise worker.failure(stream.log.stream.name)
        if isinstance(piece, EndOfStream):
            break
        worker.send(Acknowledge(number=stream.number, held_bytes=piece.held_bytes))
        yield attribute(piece, stream.log.stream, route)
    for each in fields(ReadCounts):
        setattr(stream.log.tally, each.name, getattr(piece.tally, each.name))
    if piece.problem:
        raise StewardError(piece.problem, where=piece.where, hint=piece.hint)
