"""Recorded telemetry as series on one time axis, by entity: for change points and anomalies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import polars as pl

from steward.errors import StewardError
from steward.inspection.series.telemetry import recorded_observations
from steward.learn.patterns.series import EntitySeries
from steward.model.frame import ENTITY, T_S, Frame, empty_other
from steward.observe.importing.source import ImportCounts

__all__ = ["MOST_VALUES", "read_entity_series"]

MOST_VALUES = 100_000_000
_AGAIN = "again"  # how often an entity had a row of this moment before
_MOST_MOMENTS = 1.5  # times those of the densest series; with more, clocks differ


def read_entity_series(
    path: Path,
    tally: ImportCounts,
    *,
    only: Sequence[str] = (),
    by_node: bool = True,
    progress: Callable[[str], None] = lambda _what: None,
) -> tuple[EntitySeries, ...]:
    """Return the series of a file or folder, by entity, or of a node and all its devices together.

    `only` are patterns of metrics. Metrics that were never measured are left out.
    """
    long = _long(path, tally, only, progress)
    if not long.height:
        looked = f" of {', '.join(only)}" if only else ""
        raise StewardError(
            f"no number{looked} in it",
            where=str(path),
            hint="it needs a column for the time and columns of numbers; "
            "`steward observe quality` says what is in it",
        )
    if by_node:
        node = pl.col(ENTITY).str.extract(r"^([^/@]+)")
        device = pl.col(ENTITY).str.replace(r"^[^/@]+[/@]?", "")
        long = long.with_columns(
            node.fill_null(pl.col(ENTITY)).alias(ENTITY),
            pl.when(device == "")
            .then(pl.col("metric"))
            .otherwise(pl.concat_str(pl.col("metric"), pl.lit(" of "), device))
            .alias("metric"),
        )
    groups = long.partition_by(ENTITY, as_dict=True)
    return tuple(_entity(str(key[0]), groups[key]) for key in sorted(groups))


def _long(
    path: Path, tally: ImportCounts, only: Sequence[str], progress: Callable[[str], None]
) -> Frame:
    """Return all finite values as rows of time, entity, metric and value."""
    parts, values = [empty_other()], 0
    for seen in recorded_observations(path, tally):
        for table in seen.tables:
            parts.append(_unpivoted(table, only))
            values += parts[-1].height
        if seen.other.height:
            wanted = [m for m in seen.other["metric"].unique().to_list() if _wanted(m, only)]
            parts.append(seen.other.filter(pl.col("metric").is_in(wanted)))
            values += parts[-1].height
        progress(f"reading: {values:,} values")
        if values > MOST_VALUES:
            raise StewardError(
                f"more than {MOST_VALUES:,} values",
                where=str(path),
                hint="choose some metrics with --only, or give a part of it",
            )
    return pl.concat(parts)


def _unpivoted(table: Frame, only: Sequence[str]) -> Frame:
    chosen = [name for name in table.columns if name not in (T_S, ENTITY) and _wanted(name, only)]
    if not chosen:
        return empty_other()
    numbers = table.select(T_S, ENTITY, *(pl.col(name).cast(pl.Float64) for name in chosen))
    long = numbers.unpivot(chosen, index=[T_S, ENTITY], variable_name="metric")
    return long.filter(pl.col("value").is_finite())


def _wanted(metric: str, only: Sequence[str]) -> bool:
    return not only or any(fnmatchcase(metric, each) for each in only)


def _entity(entity: str, rows: Frame) -> EntitySeries:
    """Return the series of one entity; a second value of one moment is a row of its own."""
    rows = _on_one_clock(rows)
    again = pl.int_range(pl.len(), dtype=pl.Int64).over(T_S, "metric").alias(_AGAIN)
    wide = (
        rows.with_columns(again)
        .pivot("metric", index=[T_S, _AGAIN], values="value", aggregate_function="last")
        .sort(T_S, _AGAIN)
    )
    metrics = sorted(name for name in wide.columns if name not in (T_S, _AGAIN))
    values = wide.select(pl.col(name).cast(pl.Float64) for name in metrics).to_numpy()
    return EntitySeries(
        entity=entity,
        metrics=tuple(metrics),
        t_s=wide[T_S].to_numpy(),
        values=np.ascontiguousarray(np.where(np.isfinite(values), values, np.nan), np.float64),
    )


def _on_one_clock(rows: Frame) -> Frame:
    """Return rows with the times of the densest series where series were read at different ones."""
    counts = rows.group_by("metric").agg(pl.col(T_S).n_unique().alias("times"))
    densest = counts.sort("times", "metric")["metric"][-1]
    times = rows.filter(pl.col("metric") == densest)[T_S].unique().sort()
    if rows[T_S].n_unique() <= _MOST_MOMENTS * len(times):
        return rows
    clock = times.to_frame().with_columns(pl.col(T_S).alias("read"))
    joined = rows.sort(T_S).join_asof(clock, on=T_S, strategy="nearest")
    near = joined.with_columns(pl.col("read").alias(T_S)).drop("read")
    return near.unique(subset=[T_S, "metric"], keep="last", maintain_order=True)
