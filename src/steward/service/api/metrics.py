"""`/metrics` for Prometheus: the loop, its agents, and the newest value of every metric."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from steward.model.cluster_snapshot import GpuState
from steward.observe.forwarding import ForwardStatus
from steward.observe.intake import AgentState
from steward.service.api.replies import failures
from steward.service.live_state import LiveState, StateSnapshot
from steward.service.wire.metrics_text import holders, metrics_text

__all__ = ["StateMetrics", "metric_routes"]

HOUR_S = 3600.0  # Prometheus counts in base units
JOULES_PER_KWH = 3.6e6
END = b"# EOF\n"


class StateMetrics(Collector):
    """Makes metric families of the newest snapshot, per request."""

    def __init__(self, live_state: LiveState, *, now_s: Callable[[], float] = time.time) -> None:
        self._live_state = live_state
        self._now_s = now_s

    def collect(self) -> Iterator[Metric]:
        snapshot = self._live_state.refresh()
        yield from _loop(snapshot)
        yield from _worth(snapshot)
        yield from _gpus(snapshot)
        yield from _agents(self._live_state.roster.all(), self._now_s())
        forwarding = self._live_state.loop.forwarding
        if forwarding is not None:
            yield from _forwarding(forwarding.status)


def metric_routes(live_state: LiveState) -> APIRouter:
    """Return the route that Prometheus scrapes."""
    routes = APIRouter(tags=["health"])
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StateMetrics(live_state))

    @routes.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, **failures()},
    )
    def metrics(request: Request) -> Response:
        """Return all metrics in Prometheus' text format, or as OpenMetrics if requested."""
        wanted = "application/openmetrics-text" in request.headers.get("accept", "")
        view = live_state.loop.view
        shown = metrics_text(
            live_state.loop.latest,
            since_s=view.t_s - live_state.settings.observe.stale_after_s,
            held=holders(view),
            openmetrics=wanted,
        )
        if not wanted:
            own = generate_latest(registry)
            return Response(own + shown.text.encode(), media_type=CONTENT_TYPE_LATEST)
        own = bytes(openmetrics.generate_latest(registry))  # type: ignore[no-untyped-call]
        whole = own.removesuffix(END) + shown.text.encode() + END
        return Response(whole, media_type=openmetrics.CONTENT_TYPE_LATEST)

    return routes


def _loop(snapshot: StateSnapshot) -> Iterator[Metric]:
    status = snapshot.status
    yield CounterMetricFamily("steward_turns", "Turns of the loop.", value=status.turns)
    yield CounterMetricFamily(
        "steward_faults", "Faults that the loop got over.", value=snapshot.faults
    )
    yield GaugeMetricFamily(
        "steward_turn_last_seconds", "Wall time of the last turn.", value=status.last_turn_s
    )
    yield GaugeMetricFamily(
        "steward_turn_decided_seconds",
        "Wall time from the beginning of the last turn until its decisions were carried out.",
        value=status.last_decided_s,
    )
    yield GaugeMetricFamily(
        "steward_behind_seconds", "How late the last turn began.", value=status.behind_s
    )
    yield GaugeMetricFamily(
        "steward_breaker_open",
        "1 while the circuit breaker lets nothing through.",
        value=float(status.breaker != "closed"),
    )


def _forwarding(targets: Sequence[ForwardStatus]) -> Iterator[Metric]:
    sent, dropped, waiting = {}, {}, {}
    for what in ("samples", "lines"):
        sent[what] = CounterMetricFamily(
            f"steward_forwarded_{what}", f"Forwarded {what} that arrived.", labels=["target"]
        )
        dropped[what] = CounterMetricFamily(
            f"steward_forward_dropped_{what}",
            f"Forwarded {what} that did not arrive, by why.",
            labels=["target", "reason"],
        )
        waiting[what] = GaugeMetricFamily(
            f"steward_forward_waiting_{what}", f"Forwarded {what} that wait.", labels=["target"]
        )
        for each in targets:
            told = asdict(each)
            sent[what].add_metric([each.name], told[f"sent_{what}"])
            waiting[what].add_metric([each.name], told[f"waiting_{what}"])
            for reason, count in told[f"dropped_{what}"].items():
                dropped[what].add_metric([each.name, reason], count)
    yield from (*sent.values(), *dropped.values(), *waiting.values())


def _worth(snapshot: StateSnapshot) -> Iterator[Metric]:
    decisions = GaugeMetricFamily(
        "steward_decisions", "Decisions by their present state.", labels=["state"]
    )
    for state, count in snapshot.states.items():
        decisions.add_metric([state.value], count)
    yield decisions
    savings = snapshot.savings
    for name, unit, interval in (
        ("gpu_seconds", "GPU-seconds put to work", savings.gpu_hours.times(HOUR_S)),
        ("cost", f"money ({savings.assumptions.currency})", savings.cost),
        ("energy_joules", "joules", savings.energy_kwh.times(JOULES_PER_KWH)),
        ("co2_grams", "grams of CO2", savings.co2_kg.times(1000.0)),
    ):
        family = GaugeMetricFamily(
            f"steward_saved_{name}", f"Measured savings: {unit}, 95 % interval.", labels=["bound"]
        )
        for bound in ("low", "mid", "high"):
            family.add_metric([bound], getattr(interval, bound))
        yield family
    yield GaugeMetricFamily(
        "steward_stop_cost_gpu_seconds",
        "GPU-seconds that stopping jobs for others cost; not taken off the savings.",
        value=snapshot.stop_cost_gpu_hours * HOUR_S,
    )


def _gpus(snapshot: StateSnapshot) -> Iterator[Metric]:
    shown = snapshot.cluster
    yield GaugeMetricFamily("steward_queue_jobs", "Jobs that wait.", value=len(shown.queue))
    states = GaugeMetricFamily("steward_gpus", "GPUs by what they do now.", labels=["state"])
    for state in GpuState:
        states.add_metric([state.value], shown.states.get(state, 0))
    yield states


def _agents(agents: Sequence[AgentState], now_s: float) -> Iterator[Metric]:
    heard = GaugeMetricFamily(
        "steward_agent_last_heard_seconds",
        "How long ago an agent's newest parcel came.",
        labels=["node"],
    )
    waiting = GaugeMetricFamily(
        "steward_agent_waiting_bytes", "What an agent has not sent yet.", labels=["node"]
    )
    offset = GaugeMetricFamily(
        "steward_agent_clock_offset_seconds",
        "How far this server's clock is ahead of an agent's.",
        labels=["node"],
    )
    lost = CounterMetricFamily(
        "steward_agent_lost_parcels",
        "Parcels that an agent had to give up since it was started.",
        labels=["node"],
    )
    for each in agents:
        heard.add_metric([each.node], max(0.0, now_s - each.heard_s))
        waiting.add_metric([each.node], each.buffered_bytes)
        lost.add_metric([each.node], each.gaps)
        if each.offset_s is not None:
            offset.add_metric([each.node], each.offset_s)
    yield from (heard, waiting, offset, lost)
