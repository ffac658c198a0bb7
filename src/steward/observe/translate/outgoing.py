"""Our tables as series for others: what remote write, OTLP and text files are made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.clients.wire.exposition import shown_labels
from steward.clients.wire.otlp import Sent
from steward.clients.wire.remote_write import Written
from steward.model.frame import ENTITY, T_S, Frame
from steward.model.metric import Alias, Metric, MetricKind
from steward.model.metrics import METRICS
from steward.observe.translate.entities import labels_of
from steward.observe.translate.names import exposed_name

__all__ = ["Series", "sent_as", "series_of", "text_of", "written_as"]

_BY_NAME = {each.name: each for each in METRICS}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """One metric of one entity for a while; no value in it is missing."""

    entity: str
    name: str
    t_s: NDArray[np.float64]
    values: NDArray[np.float64]

    @property
    def metric(self) -> Metric | None:
        """What the table knows about it."""
        return _BY_NAME.get(self.name)


def series_of(frame: Frame) -> Iterator[Series]:
    """Take a table apart; what is missing in it is not in the series."""
    names = [name for name in frame.columns if name not in (T_S, ENTITY)]
    for (entity,), part in frame.partition_by(ENTITY, as_dict=True, maintain_order=True).items():
        times = part[T_S].to_numpy()
        for name in names:
            values = part[name].to_numpy()
            there = np.isfinite(values)
            if there.any():
                yield Series(entity=entity, name=name, t_s=times[there], values=values[there])


def written_as(series: Iterable[Series]) -> Iterator[Written]:
    """Return series as remote write has them."""
    for each in series:
        labels = {"__name__": exposed_name(each.name), **labels_of(each.entity)}
        yield labels, _integers(each.t_s, 1e3), each.values.tolist()


def sent_as(series: Iterable[Series]) -> Iterator[Sent]:
    """Return series as OTLP has them: by the names of the semantic conventions where there are."""
    for each in series:
        metric, alias = each.metric, _convention(each.metric)
        attributes = labels_of(each.entity)
        if metric is not None and metric.of == "gpu":
            attributes |= {"hw.id": each.entity, "hw.type": "gpu"}
        values = each.values / alias.scale if alias else each.values
        yield Sent(
            name=alias.name if alias else each.name,
            unit=metric.unit if metric else "",
            attributes=attributes,
            counter=metric is not None and metric.kind is MetricKind.COUNTER,
            t_ns=_integers(each.t_s, 1e9),
            values=values.tolist(),
        )


def _convention(metric: Metric | None) -> Alias | None:
    """Return OpenTelemetry's name, where one name says it all."""
    aliases = () if metric is None or metric.of != "gpu" else metric.aliases
    return next((each for each in aliases if each.vocabulary == "otel"), None)


def text_of(series: Iterable[Series]) -> Iterator[str]:
    """Return lines of OpenMetrics with their times, as `promtool` takes them for the past."""
    told = ""
    for each in series:
        name = exposed_name(each.name)
        if name != told:
            meaning = each.metric.meaning if each.metric else each.name
            yield f"# HELP {name} {meaning}\n# TYPE {name} gauge\n"
            told = name
        labels = shown_labels(labels_of(each.entity))
        for t_s, value in zip(each.t_s.tolist(), each.values.tolist(), strict=True):
            yield f"{name}{labels} {value!r} {t_s:.3f}\n"


def _integers(t_s: NDArray[np.float64], per_s: float) -> list[int]:
    if per_s == 1e9:  # a float64 of seconds is exact to 0.2 us: round, or every time ends in noise
        return [int(each) * 1000 for each in np.round(t_s * 1e6)]
    return [int(each) for each in np.round(t_s * per_s)]
