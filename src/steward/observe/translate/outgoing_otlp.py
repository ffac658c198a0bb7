"""Our series and lines as OTLP has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from steward.clients.wire.otlp_encoder import LogRecord, OutgoingSeries
from steward.model.event import LogLine
from steward.model.label import labels_of
from steward.model.metric import Alias, Metric, MetricKind
from steward.observe.translate.outgoing import MetricSeries

__all__ = ["logged_as", "sent_as"]

_SEVERITY = (23, 22, 21, 17, 13, 10, 9, 5)  # of syslog's levels: fatal, error, warn, info, debug


def sent_as(series: Iterable[MetricSeries]) -> Iterator[OutgoingSeries]:
    """Return series as OTLP has them: by the names of the semantic conventions where there are."""
    for each in series:
        metric, alias = each.metric, _convention(each.metric)
        attributes = labels_of(each.entity)
        if metric is not None and metric.of == "gpu":
            attributes |= {"hw.id": each.entity, "hw.type": "gpu"}
        values = each.values / alias.scale if alias else each.values
        yield OutgoingSeries(
            name=alias.name if alias else each.name,
            unit=metric.unit if metric else "",
            attributes=attributes,
            counter=metric is not None and metric.kind is MetricKind.COUNTER,
            t_ns=_nanoseconds(each.t_s),
            values=values.tolist(),
        )


def _convention(metric: Metric | None) -> Alias | None:
    """Return OpenTelemetry's name, where a name alone is enough."""
    aliases = () if metric is None or metric.of != "gpu" else metric.aliases
    return next((each for each in aliases if each.vocabulary == "otel"), None)


def logged_as(lines: Iterable[LogLine]) -> Iterator[LogRecord]:
    """Return lines as OTLP has them; what wrote a line is its service."""
    for each in lines:
        of_job = each.entity.startswith("job:")
        whose = {"job_id": each.entity[4:]} if of_job else {"host.name": each.entity}
        yield LogRecord(
            t_ns=round(each.t_s * 1e6) * 1000,
            severity=_SEVERITY[min(max(each.level, 0), 7)],
            text=each.text,
            resource={**whose, "service.name": each.source},
            attributes={},
        )


def _nanoseconds(t_s: NDArray[np.float64]) -> list[int]:
    # a float64 of seconds is exact to 0.2 us: round, or every time ends in noise
    return [int(each) * 1000 for each in np.round(t_s * 1e6)]
