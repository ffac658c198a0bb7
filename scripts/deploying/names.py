"""Names of series as steward exposes them. A name that does not exist stops the generator."""

from __future__ import annotations

from steward.model.metric import Metric, MetricKind
from steward.model.metrics import METRICS
from steward.observe.translate import exposed_name

__all__ = ["GATEWAY", "KEPT", "OWN", "gateway", "grafana_unit", "own", "series"]

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
# What a gateway in front of model servers says; tests compare this with what its `/metrics` has.
GATEWAY = {
    "steward_gateway_answers_total": "1",
    "steward_gateway_bound_wait_seconds": "s",
    "steward_gateway_disconnects_total": "1",
    "steward_gateway_evictions_total": "1",
    "steward_gateway_expected_wait_seconds": "s",
    "steward_gateway_faults_total": "1",
    "steward_gateway_first_token_seconds_bucket": "s",
    "steward_gateway_in_flight": "1",
    "steward_gateway_oldest_wait_seconds": "s",
    "steward_gateway_predicted_waits_total": "1",
    "steward_gateway_predicted_waits_within_bound_total": "1",
    "steward_gateway_queue_wait_seconds_bucket": "s",
    "steward_gateway_queued": "1",
    "steward_gateway_requests_done_total": "1",
    "steward_gateway_requests_met_total": "1",
    "steward_gateway_requests_missed_total": "1",
    "steward_gateway_retries_total": "1",
    "steward_gateway_upstream_errors_total": "1",
    "steward_gateway_upstream_kv_share": "1",
    "steward_gateway_upstream_limit": "1",
    "steward_gateway_upstream_running": "1",
    "steward_gateway_upstream_tokens_per_second": "1/s",
    "steward_gateway_upstream_up": "1",
    "steward_gateway_upstream_waiting": "1",
    "steward_gateway_wait_error_median_share": "1",
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


def gateway(name: str) -> str:
    """Return the whole name of one of a gateway's series, if there is one."""
    whole = f"steward_gateway_{name}"
    if whole not in GATEWAY:
        raise KeyError(whole)
    return whole


def grafana_unit(metric: Metric) -> str:
    """Return what Grafana calls the unit of a metric."""
    if metric.name.endswith("_share"):
        return "percentunit"
    return UNITS.get(metric.unit, "short")
