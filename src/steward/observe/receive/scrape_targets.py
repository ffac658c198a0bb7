"""Exporters and a Prometheus server, polled once per turn and converted to readings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from steward.clients.prometheus import Exporter, PrometheusServer, QuerySeries
from steward.clients.web import Endpoint
from steward.clients.wire.exposition import labels_of_text, shown_labels
from steward.clients.wire.samples import WireSamples
from steward.model.metrics import CANONICAL, aliases_from
from steward.observe.receive.converter import SampleConverter
from steward.observe.receive.tables import Readings
from steward.observe.translate import SeriesMapping, entity_of, map_series
from steward.observe.translate.entities import node_name

__all__ = ["QueryTarget", "ScrapeTarget"]


class ScrapeTarget:
    """One exporter, with what is known of its series."""

    def __init__(self, target: str, endpoint: Callable[..., Endpoint]) -> None:
        node, named, url = target.partition("=")
        if not named or "://" in node:
            node, url = "", target
        self.where = url
        self._about = {"node": node} if node else {}
        self._exporter = Exporter(endpoint(url=url))
        self._converter = SampleConverter(self._map, source="prometheus")

    def read(self, t_s: float) -> Readings:
        """Scrape it once."""
        return self._converter.read(self._exporter.scrape(t_s), sender=self.where)

    def close(self) -> None:
        """Close the connection."""
        self._exporter.close()

    def _map(self, key: bytes) -> SeriesMapping:
        return map_series({"instance": self.where, **labels_of_text(key), **self._about})


class QueryTarget:
    """A server and its queries."""

    def __init__(self, endpoint: Endpoint, queries: Mapping[str, str]) -> None:
        self.where = endpoint.url
        self._server = PrometheusServer(endpoint)
        self._queries = queries
        self._converter = SampleConverter(_map_answer, source="prometheus")

    def read(self, t_s: float) -> Readings:
        """Run all queries once."""
        found: list[tuple[bytes, float, float]] = []
        for name, promql in self._queries.items():
            for series in self._server.query(promql, at_s=t_s):
                found += _points(name, series)
        return self._converter.read(_samples(found), sender=self.where)

    def close(self) -> None:
        """Close the connection."""
        self._server.close()


def _points(name: str, series: QuerySeries) -> Iterable[tuple[bytes, float, float]]:
    named = series.labels.get("__name__", name)
    rest = {label: value for label, value in series.labels.items() if label != "__name__"}
    key = shown_labels({"__name__": named, **rest}).encode()
    return ((key, t_s, value) for t_s, value in zip(series.t_s, series.values, strict=True))


def _samples(found: list[tuple[bytes, float, float]]) -> WireSamples:
    ends = np.cumsum([len(key) for key, _, _ in found], dtype=np.int64)
    return WireSamples(
        buffer=np.frombuffer(b"".join(key for key, _, _ in found), np.uint8),
        starts=np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1]]),
        ends=ends,
        series=np.arange(len(found)),
        t_ms=np.array([t_s * 1000 for _, t_s, _ in found], np.int64),
        values=np.array([value for _, _, value in found], np.float64),
    )


def _map_answer(key: bytes) -> SeriesMapping:
    labels = labels_of_text(key)
    ours = aliases_from(CANONICAL).get(labels["__name__"])
    if ours is None:
        return map_series(labels)
    node = labels.get("node") or node_name(labels.get("instance", ""))
    entity = entity_of({**labels, "node": node}, of_job=ours[0].of in ("job", "share"))
    return SeriesMapping(entity=entity or "unknown", name=ours[0].name, metric=ours[0])
