"""Static quotas: what most sites have."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.live import decide_by_rank
from steward.decide.scheduling.ranking import Law, Ranking, Sharing
from steward.model.decision import Decision
from steward.model.view import ClusterView

__all__ = ["StaticQuota"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticQuota:
    """Every tenant has its GPUs and stays within them; what one leaves idle, nobody uses."""

    name: str = "static-quota"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.ARRIVAL, sharing=Sharing.STATIC)

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what to stop and start now, in this policy's order."""
        return decide_by_rank(self.name, self.ranking, view)
