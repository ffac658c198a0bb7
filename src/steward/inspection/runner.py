"""Runner of rules over files, folders and pipes; returns a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from steward.decide.rules.engine import EngineLimits, RuleEngine
from steward.decide.rules.metric import MetricWatch, compile_metric
from steward.inspection.feeds import EngineInput, Feed, LogFeed, LogReader, TelemetryFeed, feed
from steward.inspection.garbage import few_collections
from steward.inspection.report import HitCollector, RunReport, StreamReport
from steward.model.rules import Hit, LogBlock, MetricTerm, Mode, Rule, Stream
from steward.observe.logs import Following, ReadCounts

__all__ = ["Listeners", "follow_rules", "run_rules"]

Metrics = Callable[[MetricTerm], MetricWatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Callbacks for hits, and for pieces read from feeds."""

    hit: Callable[[Hit], None] = lambda _hit: None
    piece: Callable[[EngineInput], None] = lambda _piece: None


def run_rules(
    rules: Sequence[Rule],
    feeds: Sequence[Feed],
    *,
    mode: Mode,
    listeners: Listeners | None = None,
    metrics: Metrics = compile_metric,
    reader: LogReader | None = None,
) -> RunReport:
    """Read all feeds once, with all rules."""
    listeners = listeners or Listeners()
    began_s = time.perf_counter()
    engine = RuleEngine(rules, mode=mode, compile_metric=metrics)
    collector = HitCollector(rules)
    with few_collections():
        for hit in feed(engine, feeds, mode=mode, progress=listeners.piece, reader=reader):
            collector.add((hit,))
            listeners.hit(hit)
    logs = [(each.stream, each.tally) for each in feeds if isinstance(each, LogFeed)]
    series = [each.tally for each in feeds if isinstance(each, TelemetryFeed)]
    return _report(
        engine,
        collector,
        logs,
        rules=len(rules),
        seconds=time.perf_counter() - began_s,
        samples=sum(each.rows for each in series),
        notes=tuple(note for each in series for note in (*each.notes, *each.complaints())),
    )


def follow_rules(
    rules: Sequence[Rule],
    blocks: Iterable[LogBlock | None],
    *,
    mode: Mode,
    following: Following,
    listeners: Listeners,
) -> RunReport:
    """Follow streams until stopped, or until they end.

    While no lines arrive, time advances for each stream by its own clock. Candidates that are
    pending when it is stopped are dropped: they could still be denied.
    """
    began_s = time.perf_counter()
    engine = RuleEngine(rules, mode=mode)
    collector = HitCollector(rules)

    def report(hits: Iterable[Hit]) -> None:
        for hit in hits:
            collector.add((hit,))
            listeners.hit(hit)

    behind_ns: dict[str, int] = {}
    streams: dict[str, Stream] = {}
    for block in blocks:
        if block is None:
            report(engine.tick(time.time_ns(), behind_ns=behind_ns))
            continue
        streams[block.stream.name] = block.stream
        _note_clock(block, behind_ns)
        report(engine.read(block))
    if not following.stop.is_set():
        report(engine.finish())
    logs = [
        (streams.get(name, Stream(name=name)), each) for name, each in following.tallies.items()
    ]
    seconds = time.perf_counter() - began_s
    return _report(engine, collector, logs, rules=len(rules), seconds=seconds)


def _note_clock(block: LogBlock, behind_ns: dict[str, int]) -> None:
    """Record how far a stream's clock is behind ours: the least lag so far."""
    if len(block):
        name = block.stream.name
        late_ns = time.time_ns() - int(block.t_ns.max())
        behind_ns[name] = min(late_ns, behind_ns.get(name, late_ns))


def _report(  # noqa: PLR0913 - the parts of a report
    engine: RuleEngine,
    collector: HitCollector,
    logs: Sequence[tuple[Stream, ReadCounts]],
    *,
    rules: int,
    seconds: float,
    samples: int = 0,
    notes: tuple[str, ...] = (),
) -> RunReport:
    tallies = [tally for _, tally in logs]
    return RunReport(
        rules=rules,
        lines=sum(each.lines for each in tallies),
        bytes=sum(each.bytes for each in tallies),
        samples=samples,
        unparsed=sum(each.unparsed for each in tallies),
        seconds=seconds,
        findings=collector.findings(),
        streams=tuple(_stream(*each) for each in logs),
        counts={**asdict(engine.counts), **_of_series(engine)},
        notes=(*notes, *_failed_queries(engine), *_storms(engine)),
    )


def _failed_queries(engine: RuleEngine) -> list[str]:
    return [f"{term.expr}: {each.problem}" for term, each in engine.metric_counts if each.problem]


def _storms(engine: RuleEngine) -> list[str]:
    count = engine.counts.suppressed
    left_out = f"storms: {count:,} matches of terms left out, beyond {EngineLimits().storm_lines}"
    return [f"{left_out} of one term and log in 10 s"] if count else []


def _of_series(engine: RuleEngine) -> dict[str, int]:
    """Return the maximum counts over metric terms: terms read the same samples."""
    counts = [each for _, each in engine.metric_counts]
    return {
        "late_samples": max((each.late for each in counts), default=0),
        "untimed_samples": max((each.untimed for each in counts), default=0),
        "evicted_series": max((each.evicted for each in counts), default=0),
    }


def _stream(stream: Stream, tally: ReadCounts) -> StreamReport:
    return StreamReport(
        stream=stream.name,
        source=stream.source,
        format=tally.format,
        lines=tally.lines,
        bytes=tally.bytes,
        unparsed=tally.unparsed,
        late=tally.late,
        backwards=tally.backwards,
        undecodable=tally.undecodable,
        cut=tally.cut,
        notes=tuple(tally.notes),
    )
