"""What a gateway reports about itself, as pages and commands read it. None is "not known"."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "BatchFigures",
    "ClassFigures",
    "EstimatorFigures",
    "GatewaySnapshot",
    "InstanceFigures",
    "ServingEvent",
    "WaitFigures",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatorFigures:
    """How well waits were predicted lately."""

    name: str = ""
    median_error: float | None = None
    coverage_90: float | None = None
    requests: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFigures:
    """One deadline class; counts are since the gateway started."""

    name: str
    queued: float | None = None
    in_flight: float | None = None
    done: float | None = None
    met: float | None = None
    missed: float | None = None
    attainment: float | None = None
    oldest_wait_s: float | None = None
    expected_wait_s: float | None = None
    bound_wait_s: float | None = None
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFigures:
    """One model server behind the gateway."""

    name: str
    url: str = ""
    model: str = ""
    type: str = ""
    state: str = ""
    role: str = ""
    breaker: str = ""
    running: float | None = None
    waiting: float | None = None
    limit: float | None = None
    tokens_per_s: float | None = None
    kv_share: float | None = None
    errors: float | None = None
    draining: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFigures:
    """One request that waited: what was expected, the bound of it, and what came."""

    t_s: float
    deadline_class: str
    expected_s: float
    observed_s: float
    bound_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingEvent:
    """Something that happened to an instance, or to the gateway itself ("")."""

    t_s: float
    what: str
    instance: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFigures:
    """Open batches, and items of all batches by state."""

    open: float | None = None
    waiting: float | None = None
    done: float | None = None
    failed: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySnapshot:
    """One moment of a gateway. `left_out` counts rows of its answer that could not be read."""

    t_s: float | None = None
    policy: str = ""
    estimator: EstimatorFigures = EstimatorFigures()
    classes: tuple[ClassFigures, ...] = ()
    instances: tuple[InstanceFigures, ...] = ()
    waits: tuple[WaitFigures, ...] = ()  # oldest first
    events: tuple[ServingEvent, ...] = ()  # oldest first
    batches: BatchFigures = BatchFigures()
    left_out: int = 0
