"""Checks of counters without a canonical name (`other/`): do they fall, and is it a reset?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from steward.model.frame import ENTITY, T_S
from steward.observe.quality.flaw import Flaw, FlawSeverity

__all__ = ["counter_flaws"]

_WIDTHS = (2.0**32, 2.0**64, 2.0**16)


def counter_flaws(files: Sequence[Path]) -> Iterator[Flaw]:
    """Look for series that nearly always grow and sometimes fall, hour by hour."""
    pieces = [_falls(file) for file in files]
    if not pieces:
        return
    by_series = (
        pl.concat(pieces)
        .group_by(ENTITY, "metric")
        .agg(pl.col("grew", "fell").sum(), pl.col("before").max(), pl.col("least").min())
    )
    counters = by_series.filter(
        (pl.col("fell") > 0) & (pl.col("grew") >= 20 * pl.col("fell")) & (pl.col("least") >= 0)
    )
    for row in counters.sort(ENTITY, "metric").to_dicts():
        wrapped = any(0.9 * width <= row["before"] <= width for width in _WIDTHS)
        yield Flaw(
            kind="counter-wrapped" if wrapped else "counter-reset",
            entity=str(row[ENTITY]),
            metric=str(row["metric"]),
            severity=FlawSeverity.INFO,
            meaning=f"it grew {row['grew']} times and fell {row['fell']} times (from "
            f"{row['before']:.6g})",
            hint="take rates only where it grows; a wrapped one has lost its upper bits"
            if wrapped
            else "take rates only where it grows: whatever counts was restarted",
            evidence={"grew": row["grew"], "fell": row["fell"], "before": row["before"]},
        )


def _falls(file: Path) -> pl.DataFrame:
    rows = pl.scan_parquet(file, glob=False).sort(ENTITY, "metric", T_S)
    step = pl.col("value").diff()
    return (
        rows.group_by(ENTITY, "metric", maintain_order=True)
        .agg(
            (step > 0).sum().alias("grew"),
            (step < 0).sum().alias("fell"),
            pl.col("value").filter(step.shift(-1) < 0).max().alias("before"),
            pl.col("value").min().alias("least"),
        )
        .collect()
    )
