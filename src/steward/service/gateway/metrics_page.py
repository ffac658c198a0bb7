"""The gateway's own metrics as the text that Prometheus scrapes: `steward_gateway_*`."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from steward.service.gateway.call_queue import CallQueue
from steward.service.gateway.status import ClassStatus, GatewayStatus, InstanceStatus
from steward.service.gateway.status_report import status_of
from steward.service.gateway.tallies import BUCKETS_S, Histogram

__all__ = ["metrics_page"]

_P = "steward_gateway_"
_UP = ("serving", "asleep", "swapping")
_CLASS_GAUGES = {
    "queued": "requests that wait",
    "in_flight": "requests at upstreams",
    "oldest_wait_s": "of those that wait",
    "expected_wait_s": "until the first token, of the last one in the queue",
    "bound_wait_s": "what 90 % of such waits stay below",
}
_CLASS_COUNTERS = {
    "done": "requests that ended, with an answer or an error",
    "met": "requests that got all their class promises",
    "missed": "requests that did not",
}
_INSTANCE_GAUGES = {
    "running": "requests that have a token, or are not streamed",
    "waiting": "streams without a token",
    "limit": "requests in flight at most",
    "tokens_per_s": "generated tokens a second",
    "kv_share": "of the KV cache that is used, as the server says",
    "draining": "1 if it gets no more requests",
}


def metrics_page(queue: CallQueue) -> bytes:
    """Return all metrics; nothing of this runs but when it is asked for."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(queue))
    return generate_latest(registry)


class _Page(Collector):
    def __init__(self, queue: CallQueue) -> None:
        self._queue = queue

    def collect(self) -> Iterator[Metric]:
        status = status_of(self._queue, wall_s=lambda: 0.0)
        yield from _classes(status["classes"])
        yield from self._histograms()
        yield from _instances(status["instances"])
        yield from self._counts()
        yield from self._calibration(status)

    def _histograms(self) -> Iterator[Metric]:
        wait = HistogramMetricFamily(f"{_P}queue_wait_seconds", "in the queue", labels=["class"])
        first = HistogramMetricFamily(
            f"{_P}first_token_seconds", "from arrival, of streams", labels=["class"]
        )
        for name, tally in self._queue.tallies.classes.items():
            _fill(wait, name, tally.wait)
            _fill(first, name, tally.first_token)
        yield from (wait, first)

    def _counts(self) -> Iterator[Metric]:
        tallies = self._queue.tallies
        answers = CounterMetricFamily(f"{_P}answers", "by status", labels=["status"])
        for status, count in tallies.answers.items():
            answers.add_metric([str(status)], count)
        faults = CounterMetricFamily(f"{_P}faults", "errors by code", labels=["code"])
        for code, count in tallies.faults.items():
            faults.add_metric([code], count)
        declined = CounterMetricFamily(
            f"{_P}declined", "what a dispatcher chose and could not be done", labels=["what"]
        )
        for what, count in tallies.declined.items():
            declined.add_metric([what], count)
        yield from (answers, faults, declined)
        yield CounterMetricFamily(f"{_P}retries", "requests sent again", value=tallies.retries)
        yield CounterMetricFamily(f"{_P}evictions", "requests put back", value=tallies.evictions)
        yield CounterMetricFamily(
            f"{_P}disconnects", "clients that went before their answer", value=tallies.disconnects
        )

    def _calibration(self, status: GatewayStatus) -> Iterator[Metric]:
        history, found = self._queue.waits.history, status["estimator"]
        yield CounterMetricFamily(
            f"{_P}predicted_waits", "waits with a prediction that are over", value=history.waits
        )
        yield CounterMetricFamily(
            f"{_P}predicted_waits_within_bound",
            "of these, shorter than their 90 % bound",
            value=history.within_bound,
        )
        for name, value, meaning in (
            ("wait_error_median_share", found["median_error"], "|predicted - observed| / observed"),
            ("wait_coverage_90_share", found["coverage_90"], "waits below their 90 % bound"),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"{_P}{name}", f"{meaning}, last 500", value=value)


def _classes(classes: list[ClassStatus]) -> Iterator[Metric]:
    for key, meaning in _CLASS_GAUGES.items():
        gauge = GaugeMetricFamily(f"{_P}{_seconds(key)}", meaning, labels=["class"])
        _add(gauge, classes, key)
        yield gauge
    for key, meaning in _CLASS_COUNTERS.items():
        counter = CounterMetricFamily(f"{_P}requests_{key}", meaning, labels=["class"])
        _add(counter, classes, key)
        yield counter


def _instances(instances: list[InstanceStatus]) -> Iterator[Metric]:
    for key, meaning in _INSTANCE_GAUGES.items():
        name = f"{_P}upstream_{key.replace('per_s', 'per_second')}"
        gauge = GaugeMetricFamily(name, meaning, labels=["upstream"])
        _add(gauge, instances, key)
        yield gauge
    errors = CounterMetricFamily(f"{_P}upstream_errors", "failures", labels=["upstream"])
    _add(errors, instances, "errors")
    up = GaugeMetricFamily(
        f"{_P}upstream_up", "1 if it gets requests, or sleeps", labels=["upstream"]
    )
    for each in instances:
        up.add_metric([each["name"]], float(each["state"] in _UP))
    yield from (errors, up)


def _add(
    family: GaugeMetricFamily | CounterMetricFamily,
    rows: list[ClassStatus] | list[InstanceStatus],
    key: str,
) -> None:
    for each in rows:
        value = dict(each)[key]
        if isinstance(value, int | float):
            family.add_metric([str(each["name"])], float(value))


def _seconds(key: str) -> str:
    return f"{key[:-2]}_seconds" if key.endswith("_s") else key


def _fill(family: HistogramMetricFamily, name: str, histogram: Histogram) -> None:
    total, buckets = 0, []
    bounds = [*(f"{each:g}" for each in BUCKETS_S), "+Inf"]
    for bound, count in zip(bounds, histogram.counts, strict=True):
        total += count
        buckets.append((bound, total))
    family.add_metric([name], buckets, sum_value=histogram.sum_s)
