"""Label columns of samples, as spans: `job_id` and `phase`.

Samples carry no labels. Where a file has in each row the job of the GPU, or the phase that it was
in, that is a span from the first row with that value until the first with another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import polars as pl

from steward.model.frame import ENTITY, T_S
from steward.model.span import Span

__all__ = ["LABELS", "LabelSpans"]

LABELS = {"job_id": "job", "phase": "phase"}  # name of the column: kind of the span
_LAST_S = 1e-3  # the last row of a stretch is part of it


@dataclass(slots=True, kw_only=True)
class LabelSpans:
    """Spans of one file; a stretch may go on in the next block."""

    source: str
    _open: dict[tuple[str, str], Span] = field(default_factory=dict)

    def of(self, rows: pl.DataFrame) -> Iterator[Span]:
        """Return the spans of a block, as far as they are known: rows have time and entity."""
        for name, kind in LABELS.items():
            if name in rows.columns:
                yield from self._stretches(rows, name, kind)

    def _stretches(self, rows: pl.DataFrame, name: str, kind: str) -> Iterator[Span]:
        label = pl.col(name).cast(pl.String).str.strip_chars().fill_null("").alias("label")
        table = rows.select(T_S, ENTITY, label).drop_nulls(ENTITY).sort(ENTITY, T_S)
        stretch = pl.struct(ENTITY, "label").rle_id().alias("stretch")
        found = table.group_by(stretch, maintain_order=True).agg(
            pl.col(ENTITY).first(),
            pl.col("label").first(),
            pl.col(T_S).min().alias("from"),
            pl.col(T_S).max().alias("to"),
        )
        for entity, value, from_s, to_s in found.drop("stretch").iter_rows():
            yield from self._next(entity, kind, value, (from_s, to_s))

    def _next(self, entity: str, kind: str, name: str, time: tuple[float, float]) -> Iterator[Span]:
        from_s, to_s = time
        before = self._open.pop((entity, kind), None)
        if before is not None and before.name != name:
            yield replace(before, to_s=from_s)
            before = None
        if name:
            span = before or Span(
                id=f"{self.source}:{entity}:{kind}:{from_s:.6f}",
                entity=entity,
                kind=kind,
                name=name,
                from_s=from_s,
                source=self.source,
            )
            self._open[entity, kind] = replace(span, to_s=to_s + _LAST_S)
            yield self._open[entity, kind]
