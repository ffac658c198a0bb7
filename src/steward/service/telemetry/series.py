"""Series that a screen can show: never more than some thousand points, gaps left as gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.model.frame import ENTITY, T_S, Frame
from steward.store.telemetry import Telemetry

__all__ = ["MOST_POINTS", "STEPS_S", "Series", "period_of", "read_series", "step_for"]

Floats = NDArray[np.float64]
MOST_POINTS = 2000
# The store has copies per 10 s and per 300 s: steps that are multiples of these are cheap.
STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
FEWEST = 4  # samples from which a period can be computed
GAP_PERIODS = 1.75  # samples that are further apart have one missing between them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """One metric of one entity. NaN is a gap; `step_s` is 0 where every sample is a point."""

    entity: str
    metric: str
    step_s: float
    t_s: Floats
    mean: Floats
    least: Floats
    most: Floats


def step_for(least_s: float) -> float:
    """Return the shortest step that is not shorter than `least_s`.

    >>> step_for(0.3), step_for(43.2), step_for(1e6)
    (0.5, 60, 1036800.0)
    """
    day_s = STEPS_S[-1]
    longer = -(-least_s // day_s) * day_s
    return next((step for step in STEPS_S if step >= least_s), longer)


def read_series(  # noqa: PLR0913 - what, of whom, from when to when, how fine
    telemetry: Telemetry,
    entities: Sequence[str],
    metrics: Sequence[str],
    *,
    from_s: float,
    to_s: float,
    step_s: float | None = None,
    points: int = MOST_POINTS,
) -> list[Series]:
    """Read what is known of these metrics in that time; those without any sample are left out.

    Without `step_s`, every sample is a point if there are few enough, else steps are as short as
    `points` allow. Steps have the least, the greatest and the mean value: no spike is lost.
    """
    shortest_s = (to_s - from_s) / points
    chosen_s = max(step_s, shortest_s) if step_s else step_for(shortest_s)
    steps = telemetry.read(
        entities=entities, metrics=metrics, from_s=from_s, to_s=to_s, step_s=chosen_s
    )
    if step_s is None and _is_sparse(steps, metrics, points):
        rows = telemetry.read(entities=entities, metrics=metrics, from_s=from_s, to_s=to_s)
        return [_exact(each, name) for each, name in _parts(rows, metrics, "")]
    return [_stepped(each, name, chosen_s) for each, name in _parts(steps, metrics, ".mean")]


def period_of(
    telemetry: Telemetry, entity: str, metric: str, *, from_s: float, to_s: float
) -> float | None:
    """Return how far samples are apart at the end of that time, or None when there are too few.

    Reads the samples of the last hour with any, and steps before that: never a whole history.
    """
    for window_s in (120.0, 3600.0):
        times = _times(telemetry, entity, metric, (max(from_s, to_s - window_s), to_s))
        if len(times) >= FEWEST:
            return float(np.median(np.diff(times)))
    step_s = step_for((to_s - from_s) / MOST_POINTS)
    steps = telemetry.read(
        entities=[entity], metrics=[metric], from_s=from_s, to_s=to_s, step_s=step_s
    )
    known = steps.filter(pl.col(f"{metric}.count") > 0) if steps.height else steps
    if not known.height or int(known[f"{metric}.count"].sum()) < FEWEST:
        return None
    end_s = min(to_s, float(known[T_S][-1]) + step_s)
    times = _times(telemetry, entity, metric, (max(from_s, end_s - 3600.0), end_s))
    if len(times) >= FEWEST:
        return float(np.median(np.diff(times)))
    lasted_s = float(known[T_S][-1] - known[T_S][0]) + step_s
    return lasted_s / int(known[f"{metric}.count"].sum())


def _times(telemetry: Telemetry, entity: str, metric: str, time: tuple[float, float]) -> Floats:
    rows = telemetry.read(entities=[entity], metrics=[metric], from_s=time[0], to_s=time[1])
    return rows.filter(pl.col(metric).is_not_null())[T_S].to_numpy()


def _is_sparse(steps: Frame, metrics: Sequence[str], points: int) -> bool:
    """Return True if there are so few samples that each can be a point."""
    counts = [steps[name] for each in metrics if (name := f"{each}.count") in steps.columns]
    return all(int(each.sum() or 0) <= points for each in counts)


def _parts(frame: Frame, metrics: Sequence[str], end: str) -> Iterator[tuple[Frame, str]]:
    for part in frame.partition_by(ENTITY, maintain_order=True):
        for name in metrics:
            if f"{name}{end}" in part.columns:
                known = part.filter(pl.col(f"{name}{end}").is_not_null())
                if known.height:
                    yield known, name


def _exact(rows: Frame, metric: str) -> Series:
    times, values = _with_gaps(rows[T_S].to_numpy(), rows[metric].to_numpy())
    return Series(
        entity=rows[ENTITY][0],
        metric=metric,
        step_s=0.0,
        t_s=times,
        mean=values,
        least=values,
        most=values,
    )


def _stepped(rows: Frame, metric: str, step_s: float) -> Series:
    columns = [rows[f"{metric}.{each}"].to_numpy() for each in ("mean", "min", "max")]
    times, mean, least, most = _with_gaps(rows[T_S].to_numpy(), *columns)
    return Series(
        entity=rows[ENTITY][0],
        metric=metric,
        step_s=step_s,
        t_s=times,
        mean=mean,
        least=least,
        most=most,
    )


def _with_gaps(times: Floats, *columns: Floats) -> tuple[Floats, ...]:
    """Put a point without a value into every gap, so that no line is drawn across it."""
    apart = np.diff(times)
    if not len(apart):
        return (times, *columns)
    gaps = np.flatnonzero(apart > GAP_PERIODS * np.median(apart)) + 1
    middles = (times[gaps - 1] + times[gaps]) / 2
    return (
        np.insert(times, gaps, middles),
        *(np.insert(each.astype(np.float64), gaps, np.nan) for each in columns),
    )
