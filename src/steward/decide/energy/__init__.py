"""What may be done slower so that it needs less energy."""

from __future__ import annotations

from collections.abc import Mapping

from steward.decide.energy.save_energy import SaveEnergy
from steward.model.view import ClusterView
from steward.ports import Policy

__all__ = ["POLICIES"]

POLICIES: Mapping[str, type[Policy[ClusterView]]] = {"save-energy": SaveEnergy}
