"""Quota with borrowing and reclaim, as in Kueue."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.live import decide_by_rank
from steward.decide.scheduling.ranking import Law, Ranking, Sharing
from steward.model.decision import Decision
from steward.model.view import ClusterView

__all__ = ["Kueue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kueue:
    """Idle quota is lent to whoever comes first; its owner reclaims it from the youngest borrower.

    Heads of queues within quota go before those that borrow; jobs that do not fit are passed over.
    """

    name: str = "kueue"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.ARRIVAL, sharing=Sharing.BORROW)

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what to stop and start now, in this policy's order."""
        return decide_by_rank(self.name, self.ranking, view)
