"""Quota with borrowing and reclaim, as in Kueue."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking, Sharing

__all__ = ["Kueue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kueue(RankedPolicy):
    """Idle quota is lent to whoever comes first; its owner reclaims it from the youngest borrower.

    Heads of queues within quota go before those that borrow; jobs that do not fit are passed over.
    """

    name: str = "kueue"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.ARRIVAL, sharing=Sharing.BORROW)
