"""Our tables as series for others, and as remote write has them; OTLP and text are elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.clients.wire.remote_write_encoder import WriteSeries
from steward.model.frame import ENTITY, T_S, Frame
from steward.model.label import exposed_name, labels_of
from steward.model.metric import Metric
from steward.model.metrics import METRICS

__all__ = ["MetricSeries", "series_of", "written_as"]

_BY_NAME = {each.name: each for each in METRICS}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MetricSeries:
    """One metric of one entity for a while; no value in it is missing."""

    entity: str
    name: str
    t_s: NDArray[np.float64]
    values: NDArray[np.float64]

    @property
    def metric(self) -> Metric | None:
        """The metric's definition."""
        return _BY_NAME.get(self.name)


def series_of(frame: Frame) -> Iterator[MetricSeries]:
    """Take a table apart; what is missing in it is not in the series."""
    names = [name for name in frame.columns if name not in (T_S, ENTITY)]
    for (entity,), part in frame.partition_by(ENTITY, as_dict=True, maintain_order=True).items():
        times = part[T_S].to_numpy()
        for name in names:
            values = part[name].to_numpy()
            there = np.isfinite(values)
            if there.any():
                yield MetricSeries(entity=entity, name=name, t_s=times[there], values=values[there])


def written_as(series: Iterable[MetricSeries]) -> Iterator[WriteSeries]:
    """Return series as remote write has them."""
    for each in series:
        labels = {"__name__": exposed_name(each.name), **labels_of(each.entity)}
        yield labels, np.round(each.t_s * 1e3).astype(np.int64), each.values
