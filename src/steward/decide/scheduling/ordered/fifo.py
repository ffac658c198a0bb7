"""First in, first out."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import Walk
from steward.decide.scheduling.live import decide_by_rank
from steward.decide.scheduling.ranking import Law, Ranking
from steward.model.decision import Decision
from steward.model.view import ClusterView

__all__ = ["Fifo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo:
    """First come, first served; whoever does not fit blocks everybody behind it."""

    name: str = "fifo"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.ARRIVAL, walk=Walk.STRICT)

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what to stop and start now, in this policy's order."""
        return decide_by_rank(self.name, self.ranking, view)
