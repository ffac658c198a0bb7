"""The gateway's status as JSON: `GET /steward/v1/status`. Dashboard and CLI read this shape.

Times are Unix seconds; durations in seconds; None is "not known".
"""

from __future__ import annotations

from typing import TypedDict

__all__ = [
    "BatchCounts",
    "ClassStatus",
    "EstimatorStatus",
    "GatewayEvent",
    "GatewayStatus",
    "InstanceStatus",
    "WaitRecord",
]


class EstimatorStatus(TypedDict):
    """How well waits were predicted, over the last 500 requests that waited."""

    name: str
    median_error: float | None  # |predicted - observed| / observed
    coverage_90: float | None  # share of waits that stayed below their 90 % bound
    requests: int


class ClassStatus(TypedDict):
    """One deadline class; counts are since the gateway started."""

    name: str
    queued: int
    in_flight: int
    done: int
    met: int
    missed: int
    attainment: float | None  # met / (met + missed)
    oldest_wait_s: float
    expected_wait_s: float | None  # of a request that came now
    bound_wait_s: float | None  # what 90 % of such waits stay below
    deadline_s: float | None  # the first promise of the class


class InstanceStatus(TypedDict):
    """One upstream."""

    name: str
    url: str
    model: str  # several are joined by ", "
    type: str
    state: str  # serving, starting, draining, down
    role: str  # any, interactive, batch
    running: int
    waiting: int  # sent, no token yet
    limit: int
    tokens_per_s: float
    kv_share: float | None  # from its own metrics
    breaker: str  # closed, open, half-open
    errors: int
    draining: bool


WaitRecord = TypedDict(
    "WaitRecord",
    {"t_s": float, "class": str, "expected_s": float, "bound_s": float, "observed_s": float},
)


class GatewayEvent(TypedDict):
    """Something that happened to an instance, or to the gateway ("")."""

    t_s: float
    what: str
    instance: str
    why: str


class BatchCounts(TypedDict):
    """Batches that are open, and items of all batches by state."""

    open: int
    waiting: int
    done: int
    failed: int


class GatewayStatus(TypedDict):
    """All of it."""

    t_s: float
    policy: str
    estimator: EstimatorStatus
    classes: list[ClassStatus]
    instances: list[InstanceStatus]
    waits: list[WaitRecord]  # the last 500
    events: list[GatewayEvent]  # the last 200
    batches: BatchCounts
