"""SpanStore that last: one JSON line each, the last one of an id counts."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise
from math import isfinite
from pathlib import Path

import polars as pl

from steward.model.frame import ENTITY, T_S, Frame
from steward.model.span import Span
from steward.store.files.damage import Note
from steward.store.files.json_lines import JsonLines, read_json_lines

__all__ = ["LabelInterval", "SpanStore", "labelled", "read_spans", "segments"]

_REWRITE_ABOVE = 1000  # lines that later ones have replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelInterval:
    """A stretch of time in which one set of spans held: `a+b` where two overlapped."""

    entity: str
    from_s: float
    to_s: float
    name: str


class SpanStore:
    """All spans of a store folder, by id."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._notes: deque[str] = deque(maxlen=20)
        lines = list(read_json_lines(file, self._notes.append))
        self._by_id = _by_id(lines)
        if len(lines) - len(self._by_id) > max(_REWRITE_ABOVE, len(self._by_id)):
            self._rewrite()
        self._lines = JsonLines(file)

    def keep(self, spans: Iterable[Span]) -> None:
        """Take spans that are new or different; the others cost nothing."""
        changed = [span for span in spans if self._by_id.get(span.id) != span]
        for span in changed:
            self._by_id[span.id] = span
        self._lines.append(asdict(span) for span in changed)

    def all(self) -> tuple[Span, ...]:
        """Return every span as it is known now."""
        return tuple(self._by_id.values())

    def flush(self) -> None:
        """Make all that was taken durable."""
        self._lines.flush()

    def damage(self) -> tuple[str, ...]:
        """Say what was broken or given up."""
        return (*self._notes, *self._lines.damage())

    def _rewrite(self) -> None:
        """Leave only the lines that count; a crash leaves either file, whole."""
        tmp = self._file.with_name(self._file.name + ".tmp")
        tmp.unlink(missing_ok=True)
        try:
            fresh = JsonLines(tmp)
            fresh.append(asdict(span) for span in self._by_id.values())
            fresh.flush()
            os.replace(tmp, self._file)  # noqa: PTH105 - pathlib has no word for it that is clearer
        except OSError:
            tmp.unlink(missing_ok=True)  # the longer file says the same


def read_spans(file: Path, note: Note) -> tuple[Span, ...]:
    """Read the spans of a folder that somebody else may be writing."""
    return tuple(_by_id(read_json_lines(file, note)).values())


def segments(spans: Sequence[Span], kind: str) -> list[LabelInterval]:
    """Cut overlapping spans of one kind into stretches that do not overlap, per entity."""
    wanted = sorted((s for s in spans if s.kind == kind), key=lambda s: (s.entity, s.from_s, s.id))
    found: list[LabelInterval] = []
    for entity, group in groupby(wanted, key=lambda span: span.entity):
        found += _stretches(entity, list(group))
    return found


def _stretches(entity: str, spans: list[Span]) -> list[LabelInterval]:
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
    """Return the frame with a column `kind`: whose each sample was, null where nobody says."""
    cut = segments(spans, kind)
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


def _by_id(records: Iterable[Mapping[str, object]]) -> dict[str, Span]:
    spans: dict[str, Span] = {}
    for record in records:
        span = _span(record)
        if span is not None:
            spans[span.id] = span
    return spans


def _span(record: Mapping[str, object]) -> Span | None:
    texts = [record.get(key) for key in ("id", "entity", "kind", "name")]
    from_s, to_s, about = record.get("from_s"), record.get("to_s"), record.get("about")
    if not all(isinstance(text, str) for text in texts) or not _is_time(from_s):
        return None
    span_id, entity, kind, name = map(str, texts)
    said = about if isinstance(about, Mapping) else {}
    return Span(
        id=span_id,
        entity=entity,
        kind=kind,
        name=name,
        from_s=float(str(from_s)),
        to_s=float(str(to_s)) if _is_time(to_s) else None,
        source=str(record.get("source") or ""),
        about={str(key): str(value) for key, value in said.items()},
    )


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
