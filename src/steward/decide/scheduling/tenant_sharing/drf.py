"""Dominant resource fairness."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.live import decide_by_rank
from steward.decide.scheduling.ranking import Law, Ranking, Sharing
from steward.model.decision import Decision
from steward.model.view import ClusterView

__all__ = ["Drf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drf:
    """Whoever's tenant holds the smallest dominant share for its weight goes next."""

    name: str = "drf"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.ARRIVAL, sharing=Sharing.DOMINANT)

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what to stop and start now, in this policy's order."""
        return decide_by_rank(self.name, self.ranking, view)
