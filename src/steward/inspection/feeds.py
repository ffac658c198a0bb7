"""Feeds of the engine from files: streams one after another, or by time where rules join them.

Rules that join several streams need them interleaved; for the others each stream is read to its end
before the next, so that a thousand files cost the memory of a few. Where there are several cores,
files are read and prefiltered ahead, by threads or, where they are large, by processes; the engine
gets the same, in the same order.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from pathlib import Path
from typing import TypeVar

from steward.compiled import is_plain
from steward.decide.rules.engine import TELEMETRY, RuleEngine
from steward.decide.rules.prefiltered_block import PrefilteredBlock
from steward.inspection.read_ahead import InProcess, ReadAhead
from steward.inspection.series.telemetry import telemetry_frames
from steward.inspection.worker_pool import StreamFiles, WorkerPool
from steward.model.event import Event
from steward.model.frame import T_S, Frame
from steward.model.rules import Hit, LogBlock, Mode, Stream
from steward.observe.importing.source import ImportCounts as TelemetryTally
from steward.observe.logs import ReadCounts, Reading, read_blocks
from steward.observe.logs.sources import Source

__all__ = [
    "EngineInput",
    "Feed",
    "LogFeed",
    "LogReader",
    "Piece",
    "PrometheusFeed",
    "TelemetryFeed",
    "feed",
    "merge_by_time",
    "reader_for",
]

Piece = LogBlock | Frame | tuple[Event, ...] | int  # an int: time in ns has advanced to it
EngineInput = PrefilteredBlock | Frame | tuple[Event, ...] | int  # prefiltered
P = TypeVar("P", Piece, EngineInput)
NS_PER_S = 1e9
_STEP_S = 300.0
_MOST_THREADS = 8  # more of them wait for the GIL
_MOST_WORKERS = 8  # more of them wait for the one matcher
_WORTH_BYTES = 4 * 2**20  # from here on threads save time
_WORTH_PROCESSES_BYTES = 256 * 2**20  # a process takes a second of a core to start
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".zstd")
_UNPACKED_TIMES = 6  # larger than packed


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFeed:
    """One stream of a log: a file, a pipe, or a file with those that were rotated away."""

    stream: Stream
    sources: tuple[Source, ...]
    reading: Reading = field(default_factory=Reading)
    tally: ReadCounts = field(default_factory=ReadCounts)

    @property
    def name(self) -> str:
        """Name of the stream in the engine."""
        return self.stream.name

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the stream; none for a pipe, which may stay open for ever."""
        paths = tuple([each for each in self.sources if isinstance(each, Path) and each.is_file()])
        return paths if len(paths) == len(self.sources) else ()

    def pieces(self, engine: RuleEngine, mode: Mode) -> Generator[LogBlock]:
        """Yield blocks of a few megabytes."""
        del engine  # reads every line, whatever rules need
        return read_blocks(
            self.sources, mode=mode, stream=self.stream, tally=self.tally, reading=self.reading
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryFeed:
    """Samples and events of a file or folder."""

    path: Path
    tally: TelemetryTally = field(default_factory=TelemetryTally)
    name: str = TELEMETRY

    def pieces(self, engine: RuleEngine, mode: Mode) -> Iterator[Frame | tuple[Event, ...]]:
        """Yield the metrics that some rule needs, one window of time after the other."""
        del mode  # numbers are the same in both
        return telemetry_frames(self.path, engine.needed_metrics, tally=self.tally)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusFeed:
    """A time range for metric terms that query a Prometheus themselves."""

    from_s: float
    to_s: float
    name: str = TELEMETRY

    def pieces(self, engine: RuleEngine, mode: Mode) -> Iterator[int]:
        """Yield times a few minutes apart."""
        del engine, mode
        at_s = self.from_s
        while at_s < self.to_s:
            yield int(at_s * NS_PER_S)
            at_s += _STEP_S
        yield int(self.to_s * NS_PER_S)


Feed = LogFeed | TelemetryFeed | PrometheusFeed
LogReader = InProcess | ReadAhead | WorkerPool


def feed(
    engine: RuleEngine,
    feeds: Sequence[Feed],
    *,
    mode: Mode,
    progress: Callable[[EngineInput], None] = lambda _piece: None,
    reader: LogReader | None = None,
) -> Iterator[Hit]:
    """Yield hits, as they become certain. Without a reader, `reader_for` chooses one."""
    together = engine.joins_streams and len(feeds) > 1
    if together:
        engine.expect(each.name for each in feeds)
    with nullcontext(reader) if reader is not None else reader_for(feeds) as used:
        open_ahead = 2 * len(used)
        begin = partial(
            _open,
            engine=engine,
            mode=mode,
            reader=used,
            open_streams=len(feeds) if together else open_ahead + 1,
        )
        pieces: Iterator[EngineInput | str] = (
            merge_by_time([(each.name, begin(each)) for each in feeds])
            if together
            else _sequentially(feeds, begin, open_ahead=open_ahead)
        )
        try:
            for piece in pieces:
                if isinstance(piece, str):
                    yield from engine.end(piece)
                    continue
                yield from _send(engine, piece)
                progress(piece)
        finally:
            if isinstance(used, WorkerPool):
                used.close_streams()
    yield from engine.finish()


def reader_for(feeds: Sequence[Feed], *, jobs: int | None = None) -> LogReader:
    """Return what reads files: processes, threads, or the caller itself.

    `jobs` is the number of processes, 1 for the caller alone; None: as many as are useful.
    """
    if jobs == 1 or is_plain():  # plain: for input that is read before a process has started
        return InProcess()
    workers = jobs or useful_workers(feeds)
    if workers:
        with suppress(OSError):  # no more processes are allowed: threads do the same
            return WorkerPool(workers)
    threads = useful_threads(feeds)
    return ReadAhead(threads) if threads else InProcess()


def useful_workers(feeds: Iterable[Feed]) -> int:
    """Return the number of processes to start: none on one core, nor for a single or small files.

    A single stream is read faster by threads, which read and search it at the same time.
    """
    cores = len(os.sched_getaffinity(0))
    if cores == 1:
        return 0
    sizes = [sum(map(_unpacked_bytes, each.files)) for each in feeds if isinstance(each, LogFeed)]
    total, largest = sum(sizes), max(sizes, default=0)
    if total < _WORTH_PROCESSES_BYTES:
        return 0
    several = min(cores, _MOST_WORKERS, round(total / largest))
    return several if several > 1 else 0


def useful_threads(feeds: Iterable[Feed]) -> int:
    """Return the number of read-ahead threads: none on one core, nor for small files."""
    cores = len(os.sched_getaffinity(0))
    if cores == 1:
        return 0
    files = (file for each in feeds if isinstance(each, LogFeed) for file in each.files)
    size = 0
    for file in files:
        size += _bytes(file)
        if size >= _WORTH_BYTES:
            return min(cores, _MOST_THREADS)
    return 0


def _bytes(file: Path) -> int:
    with suppress(OSError):  # moved just now: the reader reports it
        return file.stat().st_size
    return 0


def _unpacked_bytes(file: Path) -> int:
    return _bytes(file) * (_UNPACKED_TIMES if file.suffix in _PACKED else 1)


def _open(
    each: Feed, *, engine: RuleEngine, mode: Mode, reader: LogReader, open_streams: int
) -> Iterator[EngineInput]:
    """Return the engine's input of a feed; reading ahead starts now."""
    if not isinstance(each, LogFeed):
        return each.pieces(engine, mode)
    source, can_be_sent = each.stream.source, each.files and each.reading.stamp is None
    if isinstance(reader, WorkerPool) and can_be_sent:
        log = StreamFiles(
            stream=each.stream,
            files=each.files,
            mode=mode,
            reading=each.reading,
            tally=each.tally,
        )
        return reader.begin(log, engine.route(source), open_streams=open_streams)
    prefilter = engine.prefilter(source, shared=isinstance(reader, ReadAhead))
    blocks = each.pieces(engine, mode)
    if isinstance(reader, ReadAhead) and each.files:
        return reader.begin(blocks, prefilter)
    return map(prefilter, blocks)


def _send(engine: RuleEngine, piece: EngineInput) -> list[Hit]:
    if isinstance(piece, PrefilteredBlock):
        return engine.read_prefiltered(piece)
    if isinstance(piece, int):
        return engine.tick(piece)
    return engine.happen(piece) if isinstance(piece, tuple) else engine.sample(piece)


def _sequentially(
    feeds: Iterable[Feed], begin: Callable[[Feed], Iterator[EngineInput]], *, open_ahead: int
) -> Iterator[EngineInput]:
    """Yield the pieces of one feed after the other; some are opened while others are read."""
    opened: deque[Iterator[EngineInput]] = deque()
    for each in feeds:
        opened.append(begin(each))
        if len(opened) > open_ahead:
            yield from opened.popleft()
    while opened:
        yield from opened.popleft()


def merge_by_time(opened: Iterable[tuple[str, Iterator[P]]]) -> Iterator[P | str]:
    """Yield pieces of named streams in the order of their first times, and names at their ends."""
    timed = [_with_times(name, pieces) for name, pieces in opened]
    for _, piece in merge(*timed, key=lambda pair: pair[0]):
        yield piece


def _with_times(name: str, pieces: Iterable[P]) -> Iterator[tuple[float, P | str]]:
    last_s = float("-inf")
    for piece in pieces:
        last_s = max(last_s, _first_s(piece))
        yield last_s, piece
    yield last_s, name


def _first_s(piece: Piece | EngineInput) -> float:
    if isinstance(piece, LogBlock | PrefilteredBlock):
        return int(piece.t_ns[0]) / NS_PER_S if len(piece) else float("-inf")
    if isinstance(piece, int):
        return piece / NS_PER_S
    return piece[0].t_s if isinstance(piece, tuple) else float(piece[T_S][0])
