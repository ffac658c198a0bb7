"""Runs rules over files, folders and pipes, and says what was found and how it was read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

from steward.decide.rules.engine import Engine
from steward.inspection.feeding import LogFeed, Piece, TelemetryFeed, feed
from steward.inspection.report import Gathering, RunReport, StreamReport
from steward.model.rules import Hit, Mode, Rule

__all__ = ["run_rules"]


def run_rules(
    rules: Sequence[Rule],
    feeds: Sequence[LogFeed | TelemetryFeed],
    *,
    mode: Mode,
    on_hit: Callable[[Hit], None] = lambda _hit: None,
    progress: Callable[[Piece], None] = lambda _piece: None,
) -> RunReport:
    """Read all feeds once, with all rules."""
    began_s = time.perf_counter()
    engine = Engine(rules, mode=mode)
    gathering = Gathering(rules)
    for hit in feed(engine, feeds, mode=mode, progress=progress):
        gathering.add((hit,))
        on_hit(hit)
    logs = [each.tally for each in feeds if isinstance(each, LogFeed)]
    series = [each.tally for each in feeds if isinstance(each, TelemetryFeed)]
    return RunReport(
        rules=len(rules),
        lines=sum(each.lines for each in logs),
        bytes=sum(each.bytes for each in logs),
        samples=sum(each.rows for each in series),
        unparsed=sum(each.unparsed for each in logs),
        seconds=time.perf_counter() - began_s,
        findings=gathering.findings(),
        streams=tuple(_stream(each) for each in feeds if isinstance(each, LogFeed)),
        counts={**asdict(engine.counts), **_of_series(engine)},
        notes=tuple(
            f"{term.expr}: {each.problem}" for term, each in engine.metric_counts if each.problem
        ),
    )


def _of_series(engine: Engine) -> dict[str, int]:
    """Return the most that any metric term could not use: terms look at the same samples."""
    counts = [each for _, each in engine.metric_counts]
    return {
        "late_samples": max((each.late for each in counts), default=0),
        "untimed_samples": max((each.untimed for each in counts), default=0),
        "evicted_series": max((each.evicted for each in counts), default=0),
    }


def _stream(each: LogFeed) -> StreamReport:
    tally = each.tally
    return StreamReport(
        stream=each.stream.name,
        source=each.stream.source,
        format=tally.format,
        lines=tally.lines,
        bytes=tally.bytes,
        unparsed=tally.unparsed,
        notes=tuple(tally.notes),
    )
