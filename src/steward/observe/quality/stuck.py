"""Sensors that hang for a while: a value that always moved stands still while related ones move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from steward.model.frame import ENTITY, T_S, Frame
from steward.observe.quality.flaw import Flaw, FlawSeverity
from steward.store.files.parquet import lazy_scan

__all__ = ["WORKS_SHARE", "hanging"]

WORKS_SHARE = 0.05  # of the time, at its busiest; less is idle
_AT_LEAST_S = 30.0
_LONGER = 50.0  # than nearly all other spells in which it stood still
_LIVELY = 0.5  # of its samples differ from the one before


def hanging(
    metric: str, table: Frame, files: Sequence[Path], others: Sequence[str]
) -> Iterator[Flaw]:
    """Look for one long spell per entity; `others` are columns of the same files."""
    for row in table.to_dicts():
        if _is_odd(row) and _moved(row, files, others):
            yield Flaw(
                kind="stuck",
                entity=str(row[ENTITY]),
                metric=metric,
                severity=FlawSeverity.WARNING,
                meaning=f"it stood still at {row['still_value']:.6g} for {row['still_s']:.3g} s "
                "while other values of the same device moved",
                hint="the sensor hung: leave these samples out",
                evidence={
                    "from_s": row["still_from_s"],
                    "to_s": row["still_to_s"],
                    "value": row["still_value"],
                    "usual_s": row["run_q95_s"],
                },
            )


def _is_odd(row: Mapping[str, float]) -> bool:
    if not row["still_s"] or not row["run_q95_s"] or row["min"] == row["max"]:
        return False
    if row["still_value"] == 0.0:
        return False  # idle is no fault
    others = row["count"] - row["still_samples"]
    lively = others > 0 and (row["runs"] - 1) / others >= _LIVELY
    return lively and row["still_s"] >= max(_AT_LEAST_S, _LONGER * row["run_q95_s"])


def _moved(row: Mapping[str, float], files: Sequence[Path], others: Sequence[str]) -> bool:
    """Return whether this entity was active in that spell: its other values changed."""
    shares = [name for name in others if name.endswith("_share")]
    looked_at = shares or list(others)
    if not looked_at:
        return False
    spell = pl.col(T_S).is_between(row["still_from_s"], row["still_to_s"])
    mine = pl.col(ENTITY) == row[ENTITY]
    schema = dict.fromkeys(looked_at, pl.Float64()) | {T_S: pl.Float64(), ENTITY: pl.String()}
    rows = lazy_scan(files, schema).filter(spell & mine).select(looked_at).collect()
    moved = [rows[name].drop_nulls().n_unique() > 2 for name in looked_at]
    busy = [(rows[name].quantile(0.95) or 0.0) >= WORKS_SHARE for name in shares]
    return any(moved) and (any(busy) or not shares)
