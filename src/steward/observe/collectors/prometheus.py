"""Reads exporters, and a Prometheus server, as sources: what they show becomes our samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from steward.clients.prometheus import Exporter, PrometheusServer, QuerySeries
from steward.clients.web import Endpoint
from steward.clients.wire.exposition import labels_of_text, shown_labels
from steward.clients.wire.samples import Samples
from steward.errors import StewardError
from steward.model.event import Availability, Event, Observation
from steward.model.metrics import CANONICAL, aliases_from
from steward.observe.receive import Readings, Sorter, observation_of
from steward.observe.translate import Place, entity_of, place_series
from steward.observe.translate.entities import node_name

__all__ = ["Prometheus"]

AT_ONCE = 16


class Prometheus:
    """Exporters (`targets`) and questions to a Prometheus server (`server`, `queries`).

    A target is `http://HOST:PORT/metrics`, or `NODE=http://...` to say which node it speaks for.
    `queries` has a name for each PromQL expression; an answer whose series have no name gets that
    one, which may be one of our metrics. `token_file` and `ca` are for all of them.
    """

    name = "prometheus"
    vocabulary = CANONICAL

    def __init__(
        self,
        *,
        targets: tuple[str, ...] = (),
        server: str = "",
        queries: Mapping[str, str] | None = None,
        token_file: str = "",
        ca: str = "",
        timeout_s: float = 3.0,
    ) -> None:
        endpoint = partial(Endpoint, token=_token(token_file), ca=ca, timeout_s=timeout_s)
        sources: list[_Target | _Asked] = [_Target(each, endpoint) for each in targets]
        if server and queries:
            sources.append(_Asked(PrometheusServer(endpoint(url=server)), dict(queries)))
        self._sources = tuple(sources)
        self._silent: set[str] = set()

    def available(self) -> Availability:
        if not self._sources:
            return Availability(
                status="missing",
                reason="no exporter and no server is named",
                hint="set targets, or server and queries, in [plugs.prometheus]",
            )
        named = ", ".join(source.where for source in self._sources[:3])
        return Availability(status="ok", reason=f"{len(self._sources)} to be read: {named}")

    def collect(self, t_s: float) -> Observation:
        if not self._sources:
            return Observation()
        with ThreadPoolExecutor(min(AT_ONCE, len(self._sources))) as pool:
            answers = list(pool.map(partial(_answer, t_s=t_s), self._sources))
        readings = [each for each in answers if isinstance(each, Readings)]
        seen = observation_of(readings)
        events = self._changes(zip(self._sources, answers, strict=True), t_s)
        return Observation(frames=seen.frames, other=seen.other, events=(*seen.events, *events))

    def _changes(
        self, answers: Iterable[tuple[_Target | _Asked, Readings | StewardError]], t_s: float
    ) -> list[Event]:
        """Say who has fallen silent and who speaks again, once each."""
        events = []
        for source, answer in answers:
            failed = isinstance(answer, StewardError)
            if failed != (source.where in self._silent):
                kind = "telemetry.scrape-failed" if failed else "telemetry.scrape-works"
                text = str(answer) if failed else "it answers again"
                events.append(
                    Event(t_s=t_s, kind=kind, subject=source.where, text=text, source=self.name)
                )
            (self._silent.add if failed else self._silent.discard)(source.where)
        return events


def _answer(source: _Target | _Asked, *, t_s: float) -> Readings | StewardError:
    try:
        return source.read(t_s)
    except StewardError as fault:
        return fault


def _token(file: str) -> str:
    if not file:
        return ""
    try:
        return Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise StewardError(f"the token cannot be read: {fault}", where=file) from fault


class _Target:
    """One exporter, with what is known of its series."""

    def __init__(self, target: str, endpoint: Callable[..., Endpoint]) -> None:
        node, named, url = target.partition("=")
        if not named or "://" in node:
            node, url = "", target
        self.where = url
        self._about = {"node": node} if node else {}
        self._exporter = Exporter(endpoint(url=url))
        self._sorter = Sorter(self._place, source="prometheus")

    def read(self, t_s: float) -> Readings:
        return self._sorter.sort(self._exporter.scrape(t_s), sender=self.where)

    def _place(self, key: bytes) -> Place:
        return place_series({"instance": self.where, **labels_of_text(key), **self._about})


class _Asked:
    """A server and the questions that it is asked."""

    def __init__(self, server: PrometheusServer, queries: Mapping[str, str]) -> None:
        self.where = server.url
        self._server = server
        self._queries = queries
        self._sorter = Sorter(_place_of_answer, source="prometheus")

    def read(self, t_s: float) -> Readings:
        found: list[tuple[bytes, float, float]] = []
        for name, promql in self._queries.items():
            for series in self._server.query(promql, at_s=t_s):
                found += _points(name, series)
        return self._sorter.sort(_samples(found), sender=self.where)


def _points(name: str, series: QuerySeries) -> Iterable[tuple[bytes, float, float]]:
    named = series.labels.get("__name__", name)
    rest = {label: value for label, value in series.labels.items() if label != "__name__"}
    key = shown_labels({"__name__": named, **rest}).encode()
    return ((key, t_s, value) for t_s, value in zip(series.t_s, series.values, strict=True))


def _samples(found: list[tuple[bytes, float, float]]) -> Samples:
    ends = np.cumsum([len(key) for key, _, _ in found], dtype=np.int64)
    return Samples(
        buffer=np.frombuffer(b"".join(key for key, _, _ in found), np.uint8),
        starts=np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1]]),
        ends=ends,
        series=np.arange(len(found)),
        t_ms=np.array([t_s * 1000 for _, t_s, _ in found], np.int64),
        values=np.array([value for _, _, value in found], np.float64),
    )


def _place_of_answer(key: bytes) -> Place:
    labels = labels_of_text(key)
    ours = aliases_from(CANONICAL).get(labels["__name__"])
    if ours is None:
        return place_series(labels)
    node = labels.get("node") or node_name(labels.get("instance", ""))
    entity = entity_of({**labels, "node": node}, of_job=ours[0].of in ("job", "share"))
    return Place(entity=entity or "unknown", name=ours[0].name, metric=ours[0])
