"""Dominant resource fairness."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking, Sharing

__all__ = ["Drf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drf(RankedPolicy):
    """Whoever's tenant holds the smallest dominant share for its weight goes next."""

    name: str = "drf"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.ARRIVAL, sharing=Sharing.DOMINANT)
