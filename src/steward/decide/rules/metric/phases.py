"""Phases of runs and jobs as a series: `steward_phase{phase="compile"}` is 1 while it lasts.

A mark gives the begin and end of a phase; conditions need to know whether it lasts *now*. So a span
becomes samples: one when it begins, one every minute while it lasts, and "none" when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import polars as pl

from steward.decide.rules.metric.lookups import PHASE_COLUMN
from steward.model.event import Event
from steward.model.frame import ENTITY, T_S, Frame, empty_frame
from steward.model.span import Span

__all__ = ["Phases", "phase_frame", "span_events"]

EVERY_S = 60.0  # well below the lookback time
_MOST_NAMES = 200  # each is a column; further ones are one phase, `other`
_NONE = float("nan")

PhaseRows = dict[tuple[float, str], dict[str, float]]  # time and entity: phase: value


class Phases:
    """Live phases of a site: which last, and which have ended since the last call."""

    def __init__(self) -> None:
        self._open: dict[str, Span] = {}
        self._reported: set[tuple[str, str]] = set()

    def add(self, spans: Iterable[Span], now_s: float) -> Frame:
        """Add spans that are new or changed; return the samples of this moment."""
        for span in _of_phases(spans):
            self._open[span.id] = span
        lasting = {
            id_: span for id_, span in self._open.items() if span.to_s is None or span.to_s > now_s
        }
        now = {
            (span.entity, name) for span, name in _named(lasting.values()) if span.from_s <= now_s
        }
        rows: PhaseRows = {}
        for entity, name in now | self._reported:
            rows.setdefault((now_s, entity), {})[name] = 1.0 if (entity, name) in now else _NONE
        self._open, self._reported = lasting, now
        return _frame(rows)


def phase_frame(spans: Iterable[Span], *, from_s: float, to_s: float) -> Frame:
    """Return the samples of all phases in `[from_s, to_s)`; consecutive frames do not overlap."""
    by_entity: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for span, name in _named(_of_phases(spans)):
        end_s = float("inf") if span.to_s is None else span.to_s
        by_entity.setdefault((span.entity, name), []).append((span.from_s, end_s))
    rows: PhaseRows = {}
    for (entity, name), stretches in by_entity.items():
        for began_s, end_s in _united(stretches):
            for t_s, value in _samples(began_s, end_s, from_s, to_s):
                rows.setdefault((t_s, entity), {})[name] = value
    return _frame(rows)


def span_events(spans: Iterable[Span], *, from_s: float, to_s: float) -> tuple[Event, ...]:
    """Return span events in `[from_s, to_s)`, as rules read them: `phase.began n01 compile`.

    The first word is the kind of the span (`job`, `run`, `workload`, `phase`), then what happened.
    """
    found = [
        Event(
            t_s=at_s,
            kind=f"{span.kind}.{what}",
            subject=span.entity,
            text=span.name,
            source=span.source,
        )
        for span in spans
        for at_s, what in ((span.from_s, "began"), (span.to_s, "ended"))
        if at_s is not None and from_s <= at_s < to_s and not span.entity.endswith("/*")
    ]
    return tuple(sorted(found, key=lambda event: (event.t_s, event.kind, event.subject)))


def _of_phases(spans: Iterable[Span]) -> Iterator[Span]:
    """Leave out `n01/*`, which repeats the span of the node."""
    return (span for span in spans if span.kind == "phase" and not span.entity.endswith("/*"))


def _named(spans: Iterable[Span]) -> Iterator[tuple[Span, str]]:
    names: set[str] = set()
    for span in spans:
        if len(names) < _MOST_NAMES:
            names.add(span.name)
        yield span, span.name if span.name in names else "other"


def _united(stretches: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Merge overlapping stretches: a phase lasts until the last rank has left it."""
    found: list[tuple[float, float]] = []
    for began_s, end_s in sorted(stretches):
        if found and began_s <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end_s))
        elif end_s > began_s:
            found.append((began_s, end_s))
    return found


def _samples(
    began_s: float, end_s: float, from_s: float, to_s: float
) -> Iterator[tuple[float, float]]:
    count = max(0, -int(-(from_s - began_s) // EVERY_S))
    while (at_s := began_s + count * EVERY_S) < min(to_s, end_s):
        yield at_s, 1.0
        count += 1
    if from_s <= end_s < to_s:
        yield end_s, _NONE


def _frame(rows: Mapping[tuple[float, str], Mapping[str, float]]) -> Frame:
    if not rows:
        return empty_frame()
    ordered = sorted(rows)
    columns: dict[str, list[float | None] | list[str] | list[float]] = {
        T_S: [t_s for t_s, _ in ordered],
        ENTITY: [entity for _, entity in ordered],
    }
    for name in sorted({name for row in rows.values() for name in row}):
        columns[PHASE_COLUMN + name] = [rows[key].get(name) for key in ordered]
    schema = {name: pl.String if name == ENTITY else pl.Float64 for name in columns}
    return pl.DataFrame(columns, schema=schema, strict=False)
