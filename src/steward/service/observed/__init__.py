"""Telemetry as people look at it: newest values, series, heat maps, one range against the rest.

Belongs here: reading samples and making few numbers out of many. Does not: how they look (`pages`)
or travel (`api`). Nothing here makes a number up: where nothing is known, there is a gap.
"""

from __future__ import annotations

from steward.service.observed.contrast import Contrast, contrast
from steward.service.observed.heat import Heat, read_heat
from steward.service.observed.newest import Newest, NodeState
from steward.service.observed.series import MOST_POINTS, Series, read_series

__all__ = [
    "MOST_POINTS",
    "Contrast",
    "Heat",
    "Newest",
    "NodeState",
    "Series",
    "contrast",
    "read_heat",
    "read_series",
]
