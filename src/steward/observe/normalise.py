"""Translates a collector's metrics: canonical names, base units, rates instead of counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan

import numpy as np
import polars as pl

from steward.model.event import Event
from steward.model.frame import ENTITY, T_S, Frame, check_frame
from steward.model.metric import Alias, MetricKind
from steward.model.metrics import aliases_from

__all__ = ["Normaliser"]

_ROW = "\0row"  # no metric is called that
MOST_SEEN = 200_000  # entities whose silence is noticed; senders may use any number of names
# DCGM writes "blank" as huge numbers, one set for each type of field; the smallest are these.
DCGM_BLANKS = (2147483632.0, 140737488355312.0, 9223372036854774784.0)


class Normaliser:
    """Translates the frames of one collector; keeps counters and the newest time of entities."""

    def __init__(self, *, source: str, vocabulary: str, gap_after_s: float = 120.0) -> None:
        self.source = source
        self.gap_after_s = gap_after_s
        self._known = aliases_from(vocabulary)
        self._blank = vocabulary == "dcgm"
        self._unknown: set[str] = set()
        self._last_s = 0.0  # the newest time of the frame before
        self._counters: dict[tuple[str, ...], Frame] = {}  # the last readings, per set of counters
        self._seen_s: dict[str, float] = {}

    def normalise(self, frame: Frame) -> tuple[Frame, tuple[Event, ...]]:
        """Return the frame in canonical form, and what was odd about it."""
        if not frame.height:
            return frame, ()
        placed = _placed(frame)
        lost = frame.height - placed.height
        if not placed.height:
            return placed, tuple(self._lost(lost, self._newest_s(frame)))
        t_s = self._last_s = float(placed[T_S].max())  # type: ignore[arg-type]  # Float64
        frame = placed
        events = (*self._lost(lost, t_s), *self._unknown_columns(frame, t_s), *self._gaps(frame))
        return self._rates(check_frame(self._rename(frame), where=self.source)), events

    def _newest_s(self, frame: Frame) -> float:
        times = frame[T_S].drop_nulls() if T_S in frame.columns else ()
        return max((float(t_s) for t_s in times if not isnan(t_s)), default=self._last_s)

    def _lost(self, rows: int, t_s: float) -> list[Event]:
        """Report rows without a time or an entity, and how many."""
        if not rows:
            return []
        text = f"{rows} rows without a time or an entity are left out"
        kind = "telemetry.nameless-rows"
        return [Event(t_s=t_s, kind=kind, subject=self.source, text=text, source=self.source)]

    def _unknown_columns(self, frame: Frame, t_s: float) -> list[Event]:
        """Report columns that are not in the table of metrics, once each."""
        new = set(frame.columns) - {T_S, ENTITY} - set(self._known) - self._unknown
        self._unknown |= new
        return [
            Event(
                t_s=t_s,
                kind="telemetry.unknown-metric",
                subject=name,
                text=f"'{name}' is not in the table of metrics and is left out",
                source=self.source,
            )
            for name in sorted(new)
        ]

    def _gaps(self, frame: Frame) -> list[Event]:
        """Report entities that were silent for too long, between two frames or within one."""
        found = []
        for entity, first_s, last_s, within_s in _spans(frame):
            seen_s = self._seen_s.pop(entity, first_s)
            silent_s = max(first_s - seen_s, within_s or 0.0)
            self._seen_s[entity] = max(seen_s, last_s)  # what comes late takes nothing back
            if silent_s > self.gap_after_s:
                text = f"no samples for {silent_s:.0f} s"
                found.append(
                    Event(
                        t_s=first_s,
                        kind="telemetry.gap",
                        subject=entity,
                        text=text,
                        source=self.source,
                    )
                )
        while len(self._seen_s) > MOST_SEEN:
            del self._seen_s[next(iter(self._seen_s))]  # the one without a sample for longest
        return found

    def _rename(self, frame: Frame) -> Frame:
        by_metric: dict[str, list[pl.Expr]] = {}
        for name in frame.columns:
            if name in self._known:
                metric, alias = self._known[name]
                by_metric.setdefault(metric.name, []).append(self._scaled(name, alias))
        return frame.select_seq(  # in this thread: frames are small, and the turn waits for it
            pl.col(T_S),
            pl.col(ENTITY),
            *(
                (pl.coalesce(each) if len(each) > 1 else each[0]).alias(name)
                for name, each in by_metric.items()
            ),
        )

    def _scaled(self, name: str, alias: Alias) -> pl.Expr:
        value = pl.col(name).cast(pl.Float64)
        if self._blank:
            for blank in DCGM_BLANKS:
                value = (
                    pl.when(value.is_between(blank, blank * 1.0000001)).then(None).otherwise(value)
                )
        value = pl.when(value.is_finite()).then(value)
        return value if alias.scale == 1.0 else (value * alias.scale)

    def _rates(self, frame: Frame) -> Frame:
        """Replace counters by their rates. One that fell was reset: unknown for a period."""
        canonical = aliases_from("canonical")
        counters = {
            name: canonical[name][0].rate
            for name in frame.columns
            if name in canonical
            and canonical[name][0].kind is MetricKind.COUNTER
            and canonical[name][0].rate
        }
        if not counters:
            return frame
        key = tuple(counters)
        kept = frame.select(T_S, ENTITY, *counters).with_row_index(_ROW)
        before = self._counters.get(key, kept.clear().drop(_ROW))
        joined = pl.concat([before, kept], how="diagonal").sort(ENTITY, T_S, maintain_order=True)
        latest = joined.group_by(ENTITY, maintain_order=True).last().select(before.columns)
        fresh = pl.col(T_S) >= pl.col(T_S).max() - self.gap_after_s
        self._counters[key] = latest.filter(fresh)  # jobs that ended are not remembered for ever
        plain = frame.drop(*counters)
        grown = _rates(joined, counters)
        # A rate of the source itself is more exact than two readings of its counter.
        given = [rate for rate in counters.values() if rate in plain.columns]
        return plain.with_columns(
            plain[name].fill_null(grown[name]) if name in given else grown[name]
            for name in grown.columns
        )


def _placed(frame: Frame) -> Frame:
    """Return the rows that have a time and an entity: most often all of them, as they are."""
    names = [name for name in (T_S, ENTITY) if name in frame.columns]
    if any(frame[name].null_count() for name in names):
        frame = frame.drop_nulls(names)
    if T_S in names and np.isnan(frame[T_S].to_numpy()).any():
        frame = frame.filter(pl.col(T_S).is_not_nan())
    return frame


def _spans(frame: Frame) -> Iterable[tuple[str, float, float, float | None]]:
    """Return the first and last time of each entity, and its longest silence in between.

    Jobs are left out: they come and go.
    """
    times = frame[T_S]
    if times.min() == times.max():  # most frames are of one moment
        t_s = times[0]
        return ((entity, t_s, t_s, None) for entity in frame[ENTITY].to_list() if _stays(entity))
    spans = frame.group_by(ENTITY, maintain_order=True).agg(
        pl.col(T_S).min().alias("first_s"),
        pl.col(T_S).max().alias("last_s"),
        pl.col(T_S).sort().diff().max().alias("within_s"),
    )
    return (span for span in spans.iter_rows() if _stays(span[0]))


def _stays(entity: str) -> bool:
    return not entity.startswith("job:") and "@" not in entity


def _rates(readings: Frame, counters: Mapping[str, str]) -> Frame:
    """Return the growth per second between readings of one entity, in the order of their rows."""
    grown_s = pl.col(T_S).diff()
    comparable = (pl.col(ENTITY) == pl.col(ENTITY).shift()) & (grown_s > 0)
    rates = readings.select(
        _ROW,
        *(
            pl.when(comparable & (pl.col(name).diff() >= 0))
            .then(pl.col(name).diff() / grown_s)
            .alias(rate)
            for name, rate in counters.items()
        ),
    )
    return rates.drop_nulls(_ROW).sort(_ROW).drop(_ROW)
