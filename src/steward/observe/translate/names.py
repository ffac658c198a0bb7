"""Every metric by its name, for those that look up what a counter becomes."""

from __future__ import annotations

from functools import cache

from steward.model.metric import Metric
from steward.model.metrics import METRICS

__all__ = ["rates_by_name"]


@cache
def rates_by_name() -> dict[str, Metric]:
    """Return every metric by its own name; a counter's `rate` is one of them."""
    return {each.name: each for each in METRICS}
