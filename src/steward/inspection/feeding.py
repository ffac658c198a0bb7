"""Gives the engine what lies in files: streams one after another, or by time where rules join them.

Rules that look at several streams need them side by side; for the others each stream is read to
its end before the next is opened, so that a thousand files cost the memory of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from pathlib import Path

from steward.decide.rules.engine import TELEMETRY, Engine
from steward.inspection.series.telemetry import telemetry_frames
from steward.model.event import Event
from steward.model.frame import T_S, Frame
from steward.model.rules import Hit, LogBlock, Mode, Stream
from steward.observe.importing.source import Tally as TelemetryTally
from steward.observe.logs import Reading, Tally, read_blocks
from steward.observe.logs.opening import Source

__all__ = ["Feed", "LogFeed", "Piece", "PrometheusFeed", "TelemetryFeed", "by_time", "feed"]

Piece = LogBlock | Frame | tuple[Event, ...] | int  # a number: until then time has passed
NS_PER_S = 1e9
_STEP_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFeed:
    """One stream of a log: a file, a pipe, or a file with those that were rotated away."""

    stream: Stream
    sources: tuple[Source, ...]
    reading: Reading = field(default_factory=Reading)
    tally: Tally = field(default_factory=Tally)

    @property
    def name(self) -> str:
        """What the engine calls it."""
        return self.stream.name

    def pieces(self, engine: Engine, mode: Mode) -> Iterator[Piece]:
        """Read it, a few megabytes at a time."""
        del engine  # it reads every line, whatever rules look for
        return read_blocks(
            self.sources, mode=mode, stream=self.stream, tally=self.tally, reading=self.reading
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryFeed:
    """Samples and events of a file or folder."""

    path: Path
    tally: TelemetryTally = field(default_factory=TelemetryTally)
    name: str = TELEMETRY

    def pieces(self, engine: Engine, mode: Mode) -> Iterator[Piece]:
        """Read what some rule looks at, a window of time after the other."""
        del mode  # numbers mean the same in both
        return telemetry_frames(self.path, engine.wants_metrics, tally=self.tally)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusFeed:
    """A stretch of time about which the engine's metric terms ask a Prometheus themselves."""

    from_s: float
    to_s: float
    name: str = TELEMETRY

    def pieces(self, engine: Engine, mode: Mode) -> Iterator[Piece]:
        """Let the time pass, a few minutes after the other."""
        del engine, mode
        at_s = self.from_s
        while at_s < self.to_s:
            yield int(at_s * NS_PER_S)
            at_s += _STEP_S
        yield int(self.to_s * NS_PER_S)


Feed = LogFeed | TelemetryFeed | PrometheusFeed


def feed(
    engine: Engine,
    feeds: Sequence[Feed],
    *,
    mode: Mode,
    progress: Callable[[Piece], None] = lambda _piece: None,
) -> Iterator[Hit]:
    """Yield what the rules find, as it becomes certain."""
    together = engine.joins_streams and len(feeds) > 1
    if together:
        engine.expect(each.name for each in feeds)
    pieces = by_time if together else _in_turn
    for piece in pieces(engine, feeds, mode):
        if isinstance(piece, str):
            yield from engine.end(piece)
            continue
        yield from _give(engine, piece)
        progress(piece)
    yield from engine.finish()


def _give(engine: Engine, piece: Piece) -> list[Hit]:
    if isinstance(piece, LogBlock):
        return engine.read(piece)
    if isinstance(piece, int):
        return engine.tick(piece)
    return engine.happen(piece) if isinstance(piece, tuple) else engine.sample(piece)


def _in_turn(engine: Engine, feeds: Iterable[Feed], mode: Mode) -> Iterator[Piece | str]:
    for each in feeds:
        yield from each.pieces(engine, mode)


def by_time(engine: Engine, feeds: Iterable[Feed], mode: Mode) -> Iterator[Piece | str]:
    """Yield pieces in the order of their first times, and names of streams that are over."""
    timed = [_with_times(each, engine, mode) for each in feeds]
    for _, piece in merge(*timed, key=lambda pair: pair[0]):
        yield piece


def _with_times(each: Feed, engine: Engine, mode: Mode) -> Iterator[tuple[float, Piece | str]]:
    last_s = float("-inf")
    for piece in each.pieces(engine, mode):
        last_s = max(last_s, _first_s(piece))
        yield last_s, piece
    yield last_s, each.name


def _first_s(piece: Piece) -> float:
    if isinstance(piece, LogBlock):
        return int(piece.t_ns[0]) / NS_PER_S if len(piece) else float("-inf")
    if isinstance(piece, int):
        return piece / NS_PER_S
    return piece[0].t_s if isinstance(piece, tuple) else float(piece[T_S][0])
