"""A heat map of one metric in which what recurs becomes a stripe.

As in FlameScope, time runs twice: to the right by whole columns (a second, a minute, an hour) and
upwards within a column. A stall at the same offset of every second, or a job that writes its
checkpoint every ten minutes, is a visible line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.frame import T_S
from steward.service.telemetry.series import period_of
from steward.store.telemetry import Telemetry

__all__ = ["LONGEST_S", "MetricHeatMap", "RhythmMap", "read_heat_map", "rhythm_map_for"]

Floats = NDArray[np.float64]
MOST_COLUMNS = 600
MOST_CELLS = 40_000
TIERED_S = 10.0  # from here on the store has coarser copies
SLACK = 0.8  # of a period: sampling is never quite even


@dataclass(frozen=True, slots=True, kw_only=True)
class RhythmMap:
    """How long a column and a row of it are."""

    column_s: float
    row_s: float

    @property
    def rows(self) -> int:
        return round(self.column_s / self.row_s)


RHYTHM_MAPS = tuple(
    RhythmMap(column_s=column_s, row_s=row_s)
    for column_s, rows_s in (
        (1.0, (0.05, 0.1, 0.2)),
        (60.0, (1.0, 2.0, 5.0, 10.0, 15.0)),
        (3600.0, (60.0, 120.0, 300.0, 600.0)),
        (86400.0, (1800.0, 3600.0)),
    )
    for row_s in rows_s
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MetricHeatMap:
    """`values` has a row per column of the map, oldest first, from offset 0 on; NaN is a gap."""

    entity: str
    metric: str
    from_s: float
    rhythm_map: RhythmMap
    period_s: float
    values: Floats

    @property
    def range(self) -> tuple[float, float]:
        """From where to where the colours go: shares from 0 to 1, others as they are."""
        if self.metric.endswith("_share"):
            return 0.0, 1.0
        known = self.values[np.isfinite(self.values)]
        return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


def rhythm_map_for(span_s: float, period_s: float) -> RhythmMap:
    """Return the finest map that samples so far apart can fill and a screen can show.

    >>> [rhythm_map_for(*each).row_s for each in ((300, 0.1), (3600, 1), (3600, 10), (86400, 1))]
    [0.1, 1.0, 10.0, 60.0]
    """
    for each in RHYTHM_MAPS:
        columns = span_s / each.column_s + 1
        if (
            each.row_s >= SLACK * period_s
            and columns <= MOST_COLUMNS + 1
            and columns * each.rows <= MOST_CELLS
        ):
            return each
    return RHYTHM_MAPS[-1]


LONGEST_S = MOST_COLUMNS * RHYTHM_MAPS[-1].column_s


def read_heat_map(
    telemetry: Telemetry, entity: str, metric: str, *, from_s: float, to_s: float
) -> MetricHeatMap | None:
    """Read one metric of one entity as a heat map; None when there are too few samples.

    The caller checks that the time is not longer than `LONGEST_S`: no map of more is bounded.
    """
    period_s = period_of(telemetry, entity, metric, from_s=from_s, to_s=to_s)
    if period_s is None:
        return None
    rhythm_map = rhythm_map_for(to_s - from_s, period_s)
    begin_s = from_s // rhythm_map.column_s * rhythm_map.column_s
    times, means, counts = _samples(telemetry, entity, metric, (from_s, to_s, rhythm_map.row_s))
    columns = int((to_s - begin_s) // rhythm_map.column_s) + 1
    # A tick is never early: a sample that is a hair before its row is one that was rounded.
    cells = np.floor((times - begin_s) / rhythm_map.row_s + 1e-3).astype(np.int64)
    inside = (cells >= 0) & (cells < columns * rhythm_map.rows)
    cells, means, counts = cells[inside], means[inside], counts[inside]
    sums = np.bincount(cells, means * counts, columns * rhythm_map.rows)
    weights = np.bincount(cells, counts, columns * rhythm_map.rows)
    values = np.divide(sums, weights, out=np.full(len(sums), np.nan), where=weights > 0)
    return MetricHeatMap(
        entity=entity,
        metric=metric,
        from_s=begin_s,
        rhythm_map=rhythm_map,
        period_s=period_s,
        values=values.reshape(columns, rhythm_map.rows),
    )


def _samples(
    telemetry: Telemetry, entity: str, metric: str, time: tuple[float, float, float]
) -> tuple[Floats, Floats, Floats]:
    """Return times, values and how many samples each stands for."""
    from_s, to_s, row_s = time
    step_s = row_s if row_s >= TIERED_S else None
    rows = telemetry.read(
        entities=[entity], metrics=[metric], from_s=from_s, to_s=to_s, step_s=step_s
    )
    value = f"{metric}.mean" if step_s else metric
    if value not in rows.columns:
        return np.empty(0), np.empty(0), np.empty(0)
    rows = rows.drop_nulls(value)
    counts = rows[f"{metric}.count"].to_numpy() if step_s else np.ones(rows.height)
    return rows[T_S].to_numpy(), rows[value].to_numpy(), counts
