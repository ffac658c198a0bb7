"""Names of series as steward exposes them. A name that does not exist stops the generator."""

from __future__ import annotations

from steward.model.metric import Metric, MetricKind
from steward.model.metrics import METRICS
from steward.observe.translate import exposed_name

__all__ = ["KEPT", "OWN", "grafana_unit", "own", "series"]

KEPT = {each.name: each for each in METRICS if each.kind is MetricKind.GAUGE}
# What steward says about itself and its agents; tests compare this with what `/metrics` has.
OWN = {
    "steward_agent_clock_offset_seconds": "s",
    "steward_agent_last_heard_seconds": "s",
    "steward_agent_lost_parcels_total": "1",
    "steward_agent_waiting_bytes": "By",
    "steward_behind_seconds": "s",
    "steward_breaker_open": "1",
    "steward_decisions": "1",
    "steward_faults_total": "1",
    "steward_gpus": "1",
    "steward_queue_jobs": "1",
    "steward_saved_gpu_seconds": "s",
    "steward_turn_last_seconds": "s",
    "steward_turn_decided_seconds": "s",
    "steward_turns_total": "1",
}
UNITS = {
    "By": "bytes",
    "By/s": "Bps",
    "W": "watt",
    "Cel": "celsius",
    "Hz": "hertz",
    "s": "s",
    "J": "joule",
    "1/s": "cps",
}


def series(name: str) -> str:
    """Return the exposed name of one of our metrics."""
    return exposed_name(KEPT[name].name)


def own(name: str) -> str:
    """Return one of steward's own series, if there is one of that name."""
    if name not in OWN:
        raise KeyError(name)
    return name


def grafana_unit(metric: Metric) -> str:
    """Return what Grafana calls the unit of a metric."""
    if metric.name.endswith("_share"):
        return "percentunit"
    return UNITS.get(metric.unit, "short")
