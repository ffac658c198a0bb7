"""Policies that let two jobs use the same GPUs. Pure: a moment in, choices out; one file each.

Belongs here: who shares with whom, who is looked at first, who moves. Does not: how fast two jobs
are together, and what similar jobs took (`sim/lab/pairs` measures and learns that).
"""

from steward.decide.scheduling.sharing.commons_packed import CommonsPacked
from steward.decide.scheduling.sharing.gandiva_slicing import GandivaSlicing
from steward.decide.scheduling.sharing.lucid import Lucid
from steward.decide.scheduling.sharing.moment import SharingPolicy

__all__ = ["SHARING_POLICIES"]

SHARING_POLICIES: dict[str, type[SharingPolicy]] = {
    "commons-packed": CommonsPacked,
    "gandiva-slicing": GandivaSlicing,
    "lucid": Lucid,
}
