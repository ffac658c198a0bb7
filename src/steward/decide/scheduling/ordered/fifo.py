"""First in, first out."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import Walk
from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking

__all__ = ["Fifo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo(RankedPolicy):
    """First come, first served; whoever does not fit blocks everybody behind it."""

    name: str = "fifo"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.ARRIVAL, walk=Walk.STRICT)
