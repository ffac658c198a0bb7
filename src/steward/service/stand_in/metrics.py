"""vLLM's metrics of a simulated server, under its names of today and of before, and SGLang's."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from steward.model.serving.view import DONE
from steward.sim.serving.live import LiveServer, Progress
from steward.sim.serving.state import ServingState

__all__ = ["ServerMetrics"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Upper bounds as vLLM has them.
_SHORT_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5)
_TTFT_S = (*_SHORT_S, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)
_ITL_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_LONG_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0),
    *(240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_NAMES = {
    "time_to_first_token_seconds": _TTFT_S,
    "inter_token_latency_seconds": (*_ITL_S, 20.0, 40.0, 80.0),
    "request_queue_time_seconds": _LONG_S,
    "request_prefill_time_seconds": _LONG_S,
    "request_decode_time_seconds": _LONG_S,
    "e2e_request_latency_seconds": _LONG_S,
}
_OLD = {  # names of vLLM before V1
    "kv_cache_usage_perc": "gpu_cache_usage_perc",
    "inter_token_latency_seconds": "time_per_output_token_seconds",
    "prefix_cache_queries": "gpu_prefix_cache_queries",
    "prefix_cache_hits": "gpu_prefix_cache_hits",
}
_SGLANG = {
    "num_requests_running": "num_running_reqs",
    "num_requests_waiting": "num_queue_reqs",
    "kv_cache_usage_perc": "token_usage",
    **{name: name for name in ("time_to_first_token_seconds", "inter_token_latency_seconds")},
    **{name: name for name in ("e2e_request_latency_seconds", "prompt_tokens")},
    "generation_tokens": "generation_tokens",
}


class _Histogram:
    """Counts by upper bound, of many values at a time."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = np.array(bounds)
        self.counts = np.zeros(len(bounds) + 1, np.int64)
        self.sum = 0.0

    def add(self, values: Floats, times: Ints | None = None) -> None:
        weights = np.ones(len(values), np.int64) if times is None else times
        np.add.at(self.counts, np.searchsorted(self.bounds, values), weights)
        self.sum += float(values @ weights)

    def buckets(self) -> list[tuple[str, float]]:
        names = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        return list(zip(names, np.cumsum(self.counts).tolist(), strict=True))


class ServerMetrics(Collector):
    """What one server counted, and what it is doing now, in one of `METRIC_DIALECTS`."""

    def __init__(self, server: LiveServer, *, model: str, speed: float, dialect: str) -> None:
        self._server = server
        self._speed = speed
        self._dialect = dialect
        self._labels = {"model_name": model, "engine": "0"}
        self._histograms = {name: _Histogram(bounds) for name, bounds in _NAMES.items()}
        self._totals = dict.fromkeys(
            (
                *("prompt_tokens", "generation_tokens", "num_preemptions"),
                *("prefix_cache_queries", "prefix_cache_hits"),
            ),
            0,
        )
        self.reasons: dict[int, str] = {}  # why a row will end
        self._ended = {"stop": 0, "length": 0, "abort": 0}
        self.adapters: dict[str, int] = {}  # requests in flight by LoRA adapter
        self._last_s = np.zeros(2 * server.places)
        self._last_tokens = np.zeros(2 * server.places, np.int64)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def record(self, t_s: float, progress: Progress, state: ServingState) -> None:
        """Count what requests got by `t_s` of the server's time, and those that ended."""
        rows, generated = progress.rows, progress.generated
        before = self._last_tokens[rows]
        fresh = generated - before
        new = (before == 0) & (fresh > 0)
        self._last_s[rows[new]] = state.first_s[rows[new]]
        gaps = fresh - new  # the first token is no gap
        finish_s = state.finish_s[rows]
        at_s = np.where(np.isnan(finish_s), t_s, finish_s)
        wide = gaps > 0
        each_s = (at_s - self._last_s[rows])[wide] / gaps[wide] / self._speed
        self._histograms["inter_token_latency_seconds"].add(each_s, gaps[wide])
        self._totals["generation_tokens"] += int(fresh.sum())
        self._last_s[rows[wide]] = at_s[wide]
        self._last_tokens[rows] = generated
        self._record_first(rows[new], state)
        over = rows[progress.ended]
        if len(over):
            self._record_end(over, state)
            self._last_tokens[over] = 0

    def _record_first(self, rows: Ints, state: ServingState) -> None:
        if len(rows):
            first_s = (state.first_s[rows] - state.arrival_s[rows]) / self._speed
            self._histograms["time_to_first_token_seconds"].add(first_s)
            self._totals["prompt_tokens"] += int(state.prompt[rows].sum())
            if self._server.prefix_block_tokens:
                self._totals["prefix_cache_queries"] += int(state.prompt[rows].sum())
                self._totals["prefix_cache_hits"] += int(state.reused[rows].sum())

    def _record_end(self, rows: Ints, state: ServingState) -> None:
        self._totals["num_preemptions"] += int(state.preemptions[rows].sum())
        done = rows[state.status[rows] == DONE]
        self._ended["abort"] += len(rows) - len(done)
        for row in done.tolist():
            self._ended[self.reasons[row]] += 1
        marks_s = (state.arrival_s, state.sent_s, state.first_s, state.finish_s)
        arrived_s, begun_s, first_s, finish_s = (column[done] / self._speed for column in marks_s)
        for name, values in (
            ("request_queue_time_seconds", begun_s - arrived_s),
            ("request_prefill_time_seconds", first_s - begun_s),
            ("request_decode_time_seconds", finish_s - first_s),
            ("e2e_request_latency_seconds", finish_s - arrived_s),
        ):
            self._histograms[name].add(values)

    def text(self) -> bytes:
        """Return the metrics as Prometheus reads them."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the dialect."""
        if self._dialect == "none":
            return
        for metric in self._all():
            name = self._name(metric.name)
            if name:
                for place, sample in enumerate(metric.samples):
                    renamed = name + sample.name.removeprefix(metric.name)
                    metric.samples[place] = sample._replace(name=renamed)
                metric.name = name
                yield metric

    def _name(self, name: str) -> str:
        """Return what the dialect calls a metric; "" if it has none like it."""
        if self._dialect == "sglang":
            return f"sglang:{_SGLANG[name]}" if name in _SGLANG else ""
        if self._dialect == "vllm-old":
            name = _OLD.get(name, name)
        return f"vllm:{name}"

    def _all(self) -> Iterator[Metric]:
        server = self._server
        yield self._gauge("num_requests_running", server.running)
        yield self._gauge("num_requests_waiting", server.waiting)
        yield self._gauge("kv_cache_usage_perc", server.kv_used_share)
        if self._dialect == "vllm-old":
            yield self._gauge("num_requests_swapped", 0)
        for name, total in self._totals.items():
            yield self._counter(name, total)
        yield from self._requests_by_end()
        for name, histogram in self._histograms.items():
            family = HistogramMetricFamily(name, name, labels=list(self._labels))
            family.add_metric([*self._labels.values()], histogram.buckets(), histogram.sum)
            yield family
        yield from self._descriptions()

    def _requests_by_end(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "request_success",
            "requests by why they ended",
            labels=[*self._labels, "finished_reason"],
        )
        for reason, count in self._ended.items():
            family.add_metric([*self._labels.values(), reason], count)
        yield family

    def _descriptions(self) -> Iterable[Metric]:
        server = self._server
        kind = server.kind
        about = {
            "block_size": str(kind.block_tokens),
            "num_gpu_blocks": str(kind.kv_tokens // kind.block_tokens),
            "enable_prefix_caching": str(server.prefix_block_tokens > 0),
            "gpu_memory_utilization": "0.9",
            "engine": "0",
        }
        cache = GaugeMetricFamily("cache_config_info", "the KV cache", labels=list(about))
        cache.add_metric(list(about.values()), 1)
        names = ("max_lora", "waiting_lora_adapters", "running_lora_adapters")
        lora = GaugeMetricFamily("lora_requests_info", "LoRA adapters in use", labels=names)
        busy = ",".join(name for name, count in self.adapters.items() if count)
        lora.add_metric([str(len(self.adapters)), "", busy], time.time())
        asleep = GaugeMetricFamily(
            "engine_sleep_state", "1 for the state it is in", labels=[*self._labels, "sleep_state"]
        )
        for state, holds in (("awake", not server.asleep), ("weights_offloaded", server.asleep)):
            asleep.add_metric([*self._labels.values(), state], holds)
        return cache, lora, asleep

    def _gauge(self, name: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, name, labels=list(self._labels))
        family.add_metric([*self._labels.values()], value)
        return family

    def _counter(self, name: str, value: float) -> Metric:
        family = CounterMetricFamily(name, name, labels=list(self._labels))
        family.add_metric([*self._labels.values()], value)
        return family
