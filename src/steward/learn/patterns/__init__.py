"""Miners of recurring patterns."""

from steward.learn.patterns.idle_habits import IdleHabits
from steward.learn.patterns.model_drift import ModelDrift
from steward.model.view import ClusterView
from steward.ports import Miner

__all__ = ["MINERS"]

MINERS: dict[str, type[Miner[ClusterView]]] = {
    "idle-habits": IdleHabits,
    "model-drift": ModelDrift,
}
