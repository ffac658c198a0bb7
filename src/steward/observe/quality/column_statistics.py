"""The figures of one metric by entity that all checks look at, file by file, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from steward.model.frame import ENTITY, T_S, Frame

__all__ = ["SENTINELS", "figures", "load", "merged"]

# Placeholders of sensors without a value: all bits set, in the common widths.
SENTINELS = (-1.0, 65535.0, 2147483647.0, 4294967295.0, 1.8446744073709552e19, 9.223372036854776e18)
_ROUNDING = 1e-6  # in any of our units this is nothing
_V = "\0v"
_RUN = "\0run"


def load(file: Path, metric: str, *, node: str | None = None) -> Frame:
    """Read one metric of a file: entity, time and value, sorted so."""
    rows = pl.scan_parquet(file, glob=False).select(ENTITY, T_S, pl.col(metric).alias(_V))
    if node is not None:
        rows = rows.filter(pl.col(ENTITY) == node)
    return rows.collect().sort(ENTITY, T_S)


def figures(rows: Frame) -> Frame:
    """Return one row per entity: how many values, how they lie, and how long they stand still."""
    known = rows.filter(pl.col(_V).is_not_null())
    counted = rows.group_by(ENTITY).agg(pl.len().alias("rows"))
    if known.is_empty():
        return counted.join(_nothing(), on=ENTITY, how="left").with_columns(
            pl.col("count", "runs").fill_null(0)
        )
    value = pl.col(_V)
    spread = known.group_by(ENTITY).agg(
        pl.len().alias("count"),
        (value == 0).sum().alias("zeros"),
        (value < -_ROUNDING).sum().alias("negatives"),
        value.is_in(list(SENTINELS)).sum().alias("sentinels"),
        value.filter(value.is_in(list(SENTINELS))).first().alias("sentinel"),
        value.min().alias("min"),
        value.max().alias("max"),
        (value == value.max()).sum().alias("at_max"),
        value.quantile(0.05).alias("q05"),
        value.median().alias("q50"),
        value.quantile(0.95).alias("q95"),
        value.approx_n_unique().alias("different"),
        pl.col(T_S).min().alias("from_s"),
        pl.col(T_S).max().alias("to_s"),
        pl.col(T_S).diff().median().alias("period_s"),
    )
    still = _still(known)
    return (
        counted.join(spread, on=ENTITY, how="left")
        .join(still, on=ENTITY, how="left")
        .with_columns(pl.col("count", "runs").fill_null(0))
    )


def _still(known: Frame) -> Frame:
    """Return how long values were repeated, by entity."""
    same_entity = pl.col(ENTITY) == pl.col(ENTITY).shift(1)
    begins = (~(same_entity & (pl.col(_V) == pl.col(_V).shift(1)))).fill_null(value=True)
    runs = (
        known.with_columns(begins.cum_sum().alias(_RUN))
        .group_by(_RUN, maintain_order=True)
        .agg(
            pl.col(ENTITY).first(),
            pl.col(_V).first().alias("value"),
            pl.col(T_S).first().alias("began_s"),
            pl.col(T_S).last().alias("ended_s"),
            pl.len().alias("samples"),
        )
    )
    following = pl.col("began_s").shift(-1).over(ENTITY)
    # The first and last run of a file are cut off: they have no full period.
    whole = following.is_not_null() & pl.col("began_s").shift(1).over(ENTITY).is_not_null()
    lasted = (following - pl.col("began_s")).alias("lasted_s")
    timed = runs.with_columns(lasted, whole.alias("whole"))
    held = pl.col("ended_s") - pl.col("began_s")
    longest = held.arg_max()
    return timed.group_by(ENTITY).agg(
        pl.len().alias("runs"),
        pl.col("lasted_s").filter(pl.col("whole")).quantile(0.25).alias("run_q25_s"),
        pl.col("lasted_s").filter(pl.col("whole")).quantile(0.95).alias("run_q95_s"),
        held.max().alias("still_s"),
        pl.col("began_s").get(longest).alias("still_from_s"),
        pl.col("ended_s").get(longest).alias("still_to_s"),
        pl.col("value").get(longest).alias("still_value"),
        pl.col("samples").get(longest).alias("still_samples"),
    )


def _nothing() -> Frame:
    floats = (
        "sentinel", "min", "max", "q05", "q50", "q95", "from_s", "to_s", "period_s", "run_q25_s",
        "run_q95_s", "still_s", "still_from_s", "still_to_s", "still_value",
    )  # fmt: skip
    whole = ("count", "zeros", "negatives", "sentinels", "at_max", "different", "runs",
             "still_samples")  # fmt: skip
    schema: dict[str, pl.DataType] = {ENTITY: pl.String()}
    schema |= dict.fromkeys(whole, pl.UInt32()) | dict.fromkeys(floats, pl.Float64())
    return pl.DataFrame(schema=schema)


def merged(pieces: Sequence[Frame]) -> Frame:
    """Put the figures of several files together. Middles become middles of middles."""
    united = pl.concat(pieces, how="diagonal_relaxed")
    longest = pl.col("still_s").arg_max()
    sums = ("rows", "count", "zeros", "negatives", "sentinels", "runs")
    middles = ("q05", "q50", "q95", "period_s", "run_q25_s", "run_q95_s")
    top = pl.col("max").max()
    return (
        united.group_by(ENTITY)
        .agg(
            *(pl.col(name).sum() for name in sums),
            pl.col("sentinel").drop_nulls().first(),
            pl.col("min").min(),
            top,
            pl.col("at_max").filter(pl.col("max") == top).sum(),
            *(pl.col(name).median() for name in middles),
            pl.col("different").max(),
            pl.col("from_s").min(),
            pl.col("to_s").max(),
            *(
                pl.col(name).get(longest)
                for name in ("still_from_s", "still_to_s", "still_value", "still_samples")
            ),
            pl.col("still_s").max(),
        )
        .sort(ENTITY)
    )
