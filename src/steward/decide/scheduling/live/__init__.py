"""The rank-based policies on a live view, through the same compiled passes that the lab replays.

Belongs here: a view as a queue of jobs, ranks without knowing durations, the answer as decisions
with their reasons. Does not: who goes first (`passes/`) and where it goes (`decide/placement`).
"""

from steward.decide.scheduling.live.decisions import decide_by_rank
from steward.decide.scheduling.live.ranked_policy import RankedPolicy

__all__ = ["RankedPolicy", "decide_by_rank"]
