"""Policies that let two jobs use the same GPUs. Pure: a moment in, choices out; one file each.

Belongs here: who shares with whom, who is looked at first, who moves. Does not: how fast two jobs
are together, and what similar jobs took (`sim/lab/colocation` measures and learns that).
"""

from steward.decide.scheduling.colocation.commons_packed import CommonsPacked
from steward.decide.scheduling.colocation.gandiva_slicing import GandivaSlicing
from steward.decide.scheduling.colocation.interface import ColocationPolicy
from steward.decide.scheduling.colocation.lucid import Lucid

__all__ = ["COLOCATION_POLICIES"]

COLOCATION_POLICIES: dict[str, type[ColocationPolicy]] = {
    "commons-packed": CommonsPacked,
    "gandiva-slicing": GandivaSlicing,
    "lucid": Lucid,
}
