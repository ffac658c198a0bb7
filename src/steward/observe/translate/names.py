"""Our names as Prometheus wants them: `gpu.busy_share` is exposed as `steward_gpu_busy_share`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from steward.model.metric import Metric
from steward.model.metrics import METRICS

__all__ = ["by_exposed_name", "exposed_name", "rates_by_name"]

PREFIX = "steward_"


@cache
def exposed_name(name: str) -> str:
    """Return a metric's name in Prometheus' alphabet.

    >>> exposed_name("gpu.memory.used_bytes")
    'steward_gpu_memory_used_bytes'
    """
    return PREFIX + name.replace(".", "_").replace("-", "_")


@cache
def by_exposed_name() -> Mapping[str, Metric]:
    """Return every metric by its exposed name."""
    return {exposed_name(each.name): each for each in METRICS}


@cache
def rates_by_name() -> dict[str, Metric]:
    """Return every metric by its own name; a counter's `rate` is one of them."""
    return {each.name: each for each in METRICS}
