"""Short frames for tests of metric terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from steward.decide.rules.metric import MetricWatch, compile_metric
from steward.model.rules import Item, MetricTerm

BUSY = "gpu.busy_share"
IDLE = "steward_gpu_busy_share < 0.3"


def busy(
    values: Mapping[str, Sequence[float | None]],
    *,
    from_s: float = 1000.0,
    step_s: float = 10.0,
    metric: str = BUSY,
) -> pl.DataFrame:
    """Return one sample of each entity every `step_s`."""
    rows = [
        (from_s + step_s * i, entity, value)
        for entity, some in values.items()
        for i, value in enumerate(some)
    ]
    schema = {"t_s": pl.Float64, "entity": pl.String, metric: pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def watch(expr: str = IDLE, *, for_s: float = 0.0, interval_s: float = 0.0) -> MetricWatch:
    return compile_metric(MetricTerm(expr=expr, for_s=for_s, interval_s=interval_s))


def reports(items: Iterable[Item]) -> list[tuple[str, float, float]]:
    """Return entity, time and begin of each report."""
    return [(item.entity, item.t_ns / 1e9, item.since_ns / 1e9) for item in items]
