"""Spans that last: rows of a table by the time of their end, the newest revision of an id counts.

A span that is open is written again once a day, so that retention does not remove it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

import polars as pl

from steward.clock import Clock, WallClock
from steward.model.frame import ENTITY, T_S, Frame
from steward.model.span import Span
from steward.store.files.damage import Note
from steward.store.files.parquet import DAY_S, HOUR_S, TableSchema
from steward.store.files.table import ParquetTable

__all__ = ["SPANS", "LabelInterval", "SpanStore", "label_intervals", "labelled", "read_spans"]

SPANS = TableSchema(
    fixed=(
        (T_S, pl.Float64()),
        (ENTITY, pl.String()),
        ("id", pl.String()),
        ("kind", pl.String()),
        ("name", pl.String()),
        ("from_s", pl.Float64()),
        ("to_s", pl.Float64()),
        ("source", pl.String()),
        ("about", pl.String()),  # JSON
        ("revision", pl.Int64()),
    ),
    order=(ENTITY, T_S, "revision"),
    metrics=False,
)
_EVERYTHING = pl.lit(value=True)
_MAX_RECENT = 50_000  # spans in memory; one that is seen again after that is written again
_MAX_WAITING_ROWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelInterval:
    """An interval in which one set of spans held: `a+b` where two overlapped."""

    entity: str
    from_s: float
    to_s: float
    name: str


class SpanStore:
    """The spans of a store folder, by id. Memory is bounded by the newest spans."""

    def __init__(
        self,
        folder: Path,
        *,
        flush_every_s: float = 30.0,
        keep_days: float = 30.0,
        max_recent: int = _MAX_RECENT,
        clock: Clock | None = None,
    ) -> None:
        self.table = ParquetTable(
            folder,
            SPANS,
            flush_every_s=flush_every_s,
            keep_days=keep_days,
            max_waiting_rows=_MAX_WAITING_ROWS,
        )
        self._clock = clock or WallClock()
        self._max_recent = max_recent
        self._recent: OrderedDict[str, Span] = OrderedDict()
        self._renewed_s: float | None = None
        self._revision = self._newest_revision()

    def keep(self, spans: Iterable[Span]) -> None:
        """Add spans that are new or different; the next flush makes them durable."""
        changed = [span for span in spans if self._recent.get(span.id) != span]
        if changed:
            self.table.append(self._rows(changed))
        for span in changed:
            self._recent[span.id] = span
            self._recent.move_to_end(span.id)
        while len(self._recent) > self._max_recent:
            self._recent.popitem(last=False)

    def upkeep(self, now_s: float) -> None:
        """Do what is due by sample time: renew open spans, flush, compact, remove old ones."""
        if self._renewed_s is None:
            self._renewed_s = now_s
        if now_s - self._renewed_s >= DAY_S:
            self._renewed_s = now_s
            still_open = [span for span in self._recent.values() if span.to_s is None]
            if still_open:
                self.table.append(self._rows(still_open, now_s=now_s))
        self.table.upkeep(now_s)

    def read(self) -> tuple[Span, ...]:
        """Return every span as it is known now."""
        return _newest_spans(self.table.read(_EVERYTHING))

    def _newest_revision(self) -> int:
        newest = self.table.partitions.between(0.0, float("inf"))[-3:]
        if not newest:
            return 0
        rows = self.table.read(_EVERYTHING, from_s=float(newest[0] * HOUR_S))
        return max(rows["revision"].to_list(), default=0)

    def _rows(self, spans: Sequence[Span], *, now_s: float = 0.0) -> Frame:
        self._revision = max(self._revision, int(self._clock.now_s() * 1e9))
        rows = []
        for span in spans:
            self._revision += 1
            at_s = max(now_s, span.from_s) if span.to_s is None else span.to_s
            about = json.dumps(dict(span.about), ensure_ascii=False) if span.about else "{}"
            rows.append(
                (
                    *(at_s, span.entity, span.id, span.kind, span.name),
                    *(span.from_s, span.to_s, span.source, about, self._revision),
                )
            )
        return pl.DataFrame(rows, schema=dict(SPANS.fixed), orient="row")


def read_spans(folder: Path, note: Note) -> tuple[Span, ...]:
    """Read the spans of a store folder that another process may be writing."""
    with closing(ParquetTable(folder / "spans", SPANS, keep_days=None)) as table:
        spans = _newest_spans(table.read(_EVERYTHING))
        for text in table.damage():
            note(text)
    return spans


def _newest_spans(rows: Frame) -> tuple[Span, ...]:
    newest = rows.sort("revision").unique("id", keep="last", maintain_order=True)
    return tuple(
        Span(
            id=row["id"],
            entity=row[ENTITY],
            kind=row["kind"],
            name=row["name"],
            from_s=row["from_s"],
            to_s=row["to_s"],
            source=row["source"],
            about=json.loads(row["about"]),
        )
        for row in newest.iter_rows(named=True)
    )


def label_intervals(spans: Sequence[Span], kind: str) -> list[LabelInterval]:
    """Cut overlapping spans of one kind into intervals that do not overlap, per entity."""
    wanted = sorted((s for s in spans if s.kind == kind), key=lambda s: (s.entity, s.from_s, s.id))
    found: list[LabelInterval] = []
    for entity, group in groupby(wanted, key=lambda span: span.entity):
        found += _intervals(entity, list(group))
    return found


def _intervals(entity: str, spans: list[Span]) -> list[LabelInterval]:
    edges: list[tuple[float, int, Span]] = []
    for span in spans:
        to_s = float("inf") if span.to_s is None else span.to_s
        if to_s > span.from_s:
            edges += [(span.from_s, 1, span), (to_s, 0, span)]
    edges.sort(key=lambda edge: (edge[0], edge[1]))
    found: list[LabelInterval] = []
    now: dict[str, str] = {}
    for (at_s, begins, span), (next_s, _, _) in pairwise(edges):
        if begins:
            now[span.id] = span.name
        else:
            now.pop(span.id, None)
        if now and next_s > at_s:
            name = "+".join(sorted({*now.values()}))
            found.append(LabelInterval(entity=entity, from_s=at_s, to_s=next_s, name=name))
    return found


def labelled(frame: Frame, spans: Sequence[Span], kind: str) -> Frame:
    """Return the frame with a column `kind`: the label of each sample's span, null without one."""
    cut = label_intervals(spans, kind)
    exact = pl.col(ENTITY)
    whole_node = pl.col(ENTITY).str.extract("^([^/@]+)/").add("/*")
    return _joined(_joined(frame, cut, key=exact, into=kind), cut, key=whole_node, into=kind)


def _joined(frame: Frame, cut: list[LabelInterval], *, key: pl.Expr, into: str) -> Frame:
    table = pl.DataFrame(
        [(each.entity, each.from_s, each.to_s, each.name) for each in cut],
        schema={"\0key": pl.String, "\0from": pl.Float64, "\0to": pl.Float64, "\0name": pl.String},
        orient="row",
    ).sort("\0from")
    had = (
        frame if into in frame.columns else frame.with_columns(pl.lit(None, pl.String).alias(into))
    )
    keyed = had.with_row_index("\0row").with_columns(key.alias("\0key")).sort(T_S)
    joined = keyed.join_asof(
        table, left_on=T_S, right_on="\0from", by="\0key", check_sortedness=False
    )
    name = pl.when(pl.col(T_S) < pl.col("\0to")).then(pl.col("\0name"))
    return (
        joined.sort("\0row").with_columns(pl.coalesce(into, name).alias(into)).select(had.columns)
    )
