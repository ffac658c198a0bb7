"""Judge series that are in no store folder: metric by metric, in pieces of any number of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import polars as pl

from steward.model.frame import ENTITY, T_S, Frame
from steward.observe.quality.checks import judge
from steward.observe.quality.column_statistics import figures, merged
from steward.observe.quality.flaw import Flaw, QualityReport
from steward.observe.quality.stuck import WORKS_SHARE
from steward.store.files.kinds import kind_of

__all__ = ["assess_series"]

_KIND = "\0kind"
_PIECES = 16  # figures of so many are merged at a time


def assess_series(pieces: Iterable[tuple[str, Frame]], *, notes: Iterable[str]) -> QualityReport:
    """Judge pieces of (metric, rows of entity, time and value). `notes` is read at the end."""
    tables: dict[str, list[Frame]] = {}
    rows, from_s, to_s = 0, float("inf"), float("-inf")
    for metric, frame in pieces:
        if frame.is_empty():
            continue
        rows += len(frame)
        first, last = frame.select(pl.col(T_S).min().alias("a"), pl.col(T_S).max().alias("b")).row(
            0
        )
        from_s, to_s = min(from_s, first), max(to_s, last)
        some = tables.setdefault(metric, [])
        some.append(figures(frame))
        if len(some) > _PIECES:
            tables[metric] = [merged(some)]
    whole = {
        metric: merged(some).with_columns(kind_of().alias(_KIND)) for metric, some in tables.items()
    }
    flaws = sorted(_flaws(whole), key=lambda f: (-f.severity, f.kind, f.metric, f.entity))
    entities = {entity for table in whole.values() for entity in table[ENTITY]}
    return QualityReport(
        flaws=tuple(flaws),
        files=0,
        rows=rows,
        entities=len(entities),
        metrics=len(whole),
        from_s=from_s if rows else None,
        to_s=to_s if rows else None,
        notes=tuple(notes),
    )


def _flaws(tables: dict[str, Frame]) -> Iterator[Flaw]:
    works = {
        str(entity)
        for metric, table in tables.items()
        if metric.endswith("_share")
        for entity in table.filter(pl.col("q95") >= WORKS_SHARE)[ENTITY]
    }
    for metric, table in sorted(tables.items()):
        for (kind,), group in sorted(table.partition_by(_KIND, as_dict=True).items()):
            for flaw in judge(metric, str(kind), group, active=works):
                yield replace(flaw, of=str(kind))
