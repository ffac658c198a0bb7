"""Replays in which two jobs may use the same GPUs: exact, one event after the other.

Belongs here: time, who runs how fast alone and beside whom, what similar jobs took, where GPUs are
free, and the record of it. Does not: who should share or start (`decide/scheduling/colocation`).
"""

from steward.sim.lab.colocation.replay import replay_colocation

__all__ = ["replay_colocation"]
