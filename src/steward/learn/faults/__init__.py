"""What faults mean together: which are one, which follow from others, and how often they come.

Belongs here: episodes, causes, rates and forecasts of failures. Does not: reading them
(`observe.faults`), and what is done about them (`decide.health`).
"""

from __future__ import annotations

from steward.learn.faults.causes import with_causes
from steward.learn.faults.episodes import GAPS_S, episodes, sensitivity

__all__ = ["GAPS_S", "episodes", "sensitivity", "with_causes"]
