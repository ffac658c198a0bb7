"""Our series as lines of text, for files that others read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from steward.clients.wire.exposition import shown_labels
from steward.model.label import exposed_name, labels_of
from steward.observe.translate.outgoing import MetricSeries

__all__ = ["text_of"]


def text_of(series: Iterable[MetricSeries]) -> Iterator[str]:
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
