"""Telemetry as people look at it: newest values, series, heat maps, one range against the rest.

Belongs here: reading samples and making few numbers out of many. Does not: how they look (`pages`)
or travel (`api`). Nothing here makes a number up: where nothing is known, there is a gap.
"""

from __future__ import annotations

from steward.service.telemetry.contrast import Contrast, contrast
from steward.service.telemetry.heat_map import LONGEST_S, MetricHeatMap, read_heat_map
from steward.service.telemetry.latest_values import LatestValues, NodeSummary
from steward.service.telemetry.series import MOST_POINTS, Series, read_series

__all__ = [
    "LONGEST_S",
    "MOST_POINTS",
    "Contrast",
    "LatestValues",
    "MetricHeatMap",
    "NodeSummary",
    "Series",
    "contrast",
    "read_heat_map",
    "read_series",
]
