"""One range of time against the rest: which metrics were different, most different first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.frame import ENTITY, T_S
from steward.service.telemetry.series import MOST_POINTS, step_for
from steward.store.telemetry import Telemetry

__all__ = ["Contrast", "contrast"]

Floats = NDArray[np.float64]
STEPS_INSIDE = 20  # of the requested range


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Means of one metric. `distance` counts standard deviations of the whole time."""

    entity: str
    metric: str
    inside: float
    outside: float
    samples_inside: int
    samples_outside: int
    distance: float


def contrast(
    telemetry: Telemetry,
    entities: Sequence[str],
    *,
    whole: tuple[float, float],
    inside: tuple[float, float],
) -> list[Contrast]:
    """Compare all metrics of some entities inside a range with those outside, in `whole`."""
    shortest_s = (whole[1] - whole[0]) / MOST_POINTS
    step_s = step_for(max(shortest_s, (inside[1] - inside[0]) / STEPS_INSIDE))
    steps = telemetry.read(entities=entities, from_s=whole[0], to_s=whole[1], step_s=step_s)
    found = []
    for part in steps.partition_by(ENTITY, maintain_order=True):
        middle = part[T_S].to_numpy() + step_s / 2
        within = (middle >= inside[0]) & (middle < inside[1])
        for name in [each.removesuffix(".mean") for each in part.columns if each.endswith(".mean")]:
            means = part[f"{name}.mean"].cast(float).to_numpy()
            counts = part[f"{name}.count"].cast(float).fill_null(0.0).to_numpy()
            one = _contrast(str(part[ENTITY][0]), name, (means, counts), within)
            found += [one] if one is not None else []
    return sorted(found, key=lambda each: (-each.distance, each.entity, each.metric))


def _contrast(
    entity: str, metric: str, columns: tuple[Floats, Floats], within: NDArray[np.bool_]
) -> Contrast | None:
    known = np.isfinite(columns[0]) & (columns[1] > 0)
    means, counts, within = columns[0][known], columns[1][known], within[known]
    if not within.any() or within.all():
        return None
    inside = float(np.average(means[within], weights=counts[within]))
    outside = float(np.average(means[~within], weights=counts[~within]))
    spread = float(means.std())
    return Contrast(
        entity=entity,
        metric=metric,
        inside=inside,
        outside=outside,
        samples_inside=int(counts[within].sum()),
        samples_outside=int(counts[~within].sum()),
        distance=abs(inside - outside) / spread if spread > 0 else 0.0,
    )
