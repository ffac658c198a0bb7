"""Estimators: what is believed about what cannot be seen."""

from steward.learn.estimators.idle_spells import IdleSpells
from steward.learn.estimators.quiet_phases import QuietPhases
from steward.ports import Estimator

__all__ = ["ESTIMATORS"]

ESTIMATORS: dict[str, type[Estimator]] = {
    "idle-spells": IdleSpells,
    "quiet-phases": QuietPhases,
}
