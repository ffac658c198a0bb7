"""Feeds of the engine from files: streams one after another, or by time where rules join them.

Rules that join several streams need them interleaved; for the others each stream is read to its end
before the next, so that a thousand files cost the memory of a few. Where there are several cores,
files are read and prefiltered ahead; the engine gets the same, in the same order.
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
from steward.inspection.read_ahead import ReadAhead
from steward.inspection.series.telemetry import telemetry_frames
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
    "Piece",
    "PrometheusFeed",
    "TelemetryFeed",
    "feed",
    "merge_by_time",
]

Piece = LogBlock | Frame | tuple[Event, ...] | int  # an int: time in ns has advanced to it
EngineInput = PrefilteredBlock | Frame | tuple[Event, ...] | int  # prefiltered
P = TypeVar("P", Piece, EngineInput)
NS_PER_S = 1e9
_STEP_S = 300.0
_MOST_THREADS = 8  # more of them wait for the GIL
_WORTH_BYTES = 4 * 2**20


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


def feed(
    engine: RuleEngine,
    feeds: Sequence[Feed],
    *,
    mode: Mode,
    progress: Callable[[EngineInput], None] = lambda _piece: None,
    threads: int | None = None,
) -> Iterator[Hit]:
    """Yield hits, as they become certain.

    `threads` read files ahead; None: as many as are useful, which may be none.
    """
    together = engine.joins_streams and len(feeds) > 1
    if together:
        engine.expect(each.name for each in feeds)
    threads = useful_threads(feeds) if threads is None else threads
    with ReadAhead(threads) if threads else nullcontext() as ahead:
        begin = partial(_open, engine=engine, mode=mode, ahead=ahead)
        pieces: Iterator[EngineInput | str] = (
            merge_by_time([(each.name, begin(each)) for each in feeds])
            if together
            else _sequentially(feeds, begin, open_ahead=2 * threads)
        )
        for piece in pieces:
            if isinstance(piece, str):
                yield from engine.end(piece)
                continue
            yield from _send(engine, piece)
            progress(piece)
    yield from engine.finish()


def useful_threads(feeds: Iterable[Feed]) -> int:
    """Return the number of read-ahead threads: none on one core, nor for small files."""
    cores = len(os.sched_getaffinity(0))
    if cores == 1 or is_plain():  # plain Python holds the GIL
        return 0
    files = (file for each in feeds if isinstance(each, LogFeed) for file in each.files)
    size = 0
    for file in files:
        with suppress(OSError):  # moved just now: the reader reports it
            size += file.stat().st_size
        if size >= _WORTH_BYTES:
            return min(cores, _MOST_THREADS)
    return 0


def _open(
    each: Feed, *, engine: RuleEngine, mode: Mode, ahead: ReadAhead | None
) -> Iterator[EngineInput]:
    """Return the engine's input of a feed; reading ahead starts now, if there is a reader."""
    if not isinstance(each, LogFeed):
        return each.pieces(engine, mode)
    prefilter = engine.prefilter(each.stream.source, shared=ahead is not None)
    blocks = each.pieces(engine, mode)
    return (
        ahead.begin(blocks, prefilter)
        if ahead is not None and each.files
        else map(prefilter, blocks)
    )


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
