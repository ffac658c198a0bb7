"""Who leaves service for its health, and who comes back."""

from __future__ import annotations

from collections.abc import Mapping

from steward.decide.health.climb_ladder import ClimbLadder
from steward.decide.health.move_off_drained import MoveOffDrained
from steward.decide.health.move_off_slow import MoveOffSlow
from steward.decide.health.undrain_recovered import UndrainRecovered
from steward.model.view import ClusterView
from steward.ports import Policy

__all__ = ["POLICIES"]

POLICIES: Mapping[str, type[Policy[ClusterView]]] = {
    "climb-ladder": ClimbLadder,
    "move-off-drained": MoveOffDrained,
    "move-off-slow": MoveOffSlow,
    "undrain-recovered": UndrainRecovered,
}
