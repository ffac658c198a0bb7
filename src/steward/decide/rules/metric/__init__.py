"""Metric terms of rules: PromQL over frames, with state for each entity.

Belongs here: evaluation of conditions on series, and since when each holds. Does not: sources of
samples, queries to a Prometheus (`inspection`), or matching (`decide.rules.engine`).
"""

from __future__ import annotations

from steward.decide.rules.metric.combined_watch import CombinedWatch
from steward.decide.rules.metric.evaluation import EvaluatedPoints
from steward.decide.rules.metric.phases import Phases, phase_frame, span_events
from steward.decide.rules.metric.results import Results
from steward.decide.rules.metric.sample_buffer import WatchCounts
from steward.decide.rules.metric.sorted_frame import KeyIndex, SortedFrame, sort_frame
from steward.decide.rules.metric.watch import Ended, MetricWatch, TermWatch, compile_metric

__all__ = [
    "CombinedWatch",
    "Ended",
    "EvaluatedPoints",
    "KeyIndex",
    "MetricWatch",
    "Phases",
    "Results",
    "SortedFrame",
    "TermWatch",
    "WatchCounts",
    "compile_metric",
    "phase_frame",
    "sort_frame",
    "span_events",
]
