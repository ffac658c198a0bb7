"""Metric terms of rules: PromQL over frames, with state for each entity.

Belongs here: what a condition on series is worth and since when it holds. Does not: where samples
come from, asking a Prometheus (`inspection`), or what a rule makes of it (`decide.rules.engine`).
"""

from __future__ import annotations

from steward.decide.rules.metric.arranging import Arranged, Numbering, arrange
from steward.decide.rules.metric.beside import Beside
from steward.decide.rules.metric.intake import WatchCounts
from steward.decide.rules.metric.phases import Phases, phase_frame, span_events
from steward.decide.rules.metric.watch import Ended, MetricWatch, TermWatch, compile_metric

__all__ = [
    "Arranged",
    "Beside",
    "Ended",
    "MetricWatch",
    "Numbering",
    "Phases",
    "TermWatch",
    "WatchCounts",
    "arrange",
    "compile_metric",
    "phase_frame",
    "span_events",
]
