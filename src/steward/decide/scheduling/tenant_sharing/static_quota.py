"""Static quotas: what most sites have."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking, Sharing

__all__ = ["StaticQuota"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticQuota(RankedPolicy):
    """Every tenant has its GPUs and stays within them; what one leaves idle, nobody uses."""

    name: str = "static-quota"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.ARRIVAL, sharing=Sharing.STATIC)
