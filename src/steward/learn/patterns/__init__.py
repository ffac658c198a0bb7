"""Miners: what keeps happening."""

from steward.learn.patterns.idle_habits import IdleHabits
from steward.ports import Miner

__all__ = ["MINERS"]

MINERS: dict[str, type[Miner]] = {"idle-habits": IdleHabits}
