"""Which metric of which entity a foreign series is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from steward.model.metric import Alias, Metric, MetricKind
from steward.model.metrics import METRICS

__all__ = ["SeriesMapping", "known_mapping", "rates_by_name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesMapping:
    """One series, as we see it. Without a `metric` it is kept under its own `name`."""

    entity: str
    name: str
    metric: Metric | None = None
    scale: float = 1.0
    rises: bool = False  # a counter: its growth per second is what `metric` means
    adds: bool = False  # one of several series that make up the entity's figure together
    blanks: bool = False  # DCGM's huge numbers mean "no value"


def known_mapping(
    entity: str, found: tuple[Metric, Alias], rates: dict[str, Metric], *, adds: bool = False
) -> SeriesMapping:
    """Return the mapping to a canonical metric; counters are kept as their rates."""
    metric, alias = found
    rises = metric.kind is MetricKind.COUNTER and bool(metric.rate)
    target = rates[metric.rate] if rises else metric
    return SeriesMapping(
        entity=entity,
        name=target.name,
        metric=target,
        scale=alias.scale,
        rises=rises,
        adds=adds,
        blanks=alias.vocabulary == "dcgm",
    )


@cache
def rates_by_name() -> dict[str, Metric]:
    """Return every metric by its own name; a counter's `rate` is one of them."""
    return {each.name: each for each in METRICS}
