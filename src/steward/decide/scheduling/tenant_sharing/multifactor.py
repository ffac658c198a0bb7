"""Fair share as in Slurm's multifactor priority."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking, Sharing

__all__ = ["Multifactor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Multifactor(RankedPolicy):
    """Whoever's tenant has used least for its share goes first; age is the second factor.

    Use is remembered with a half-life. Jobs that do not fit are passed over; none is stopped.
    """

    half_life_s: float = 7 * 86_400.0
    name: str = "multifactor"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.ARRIVAL, sharing=Sharing.FAIR_TREE, half_life_s=self.half_life_s)
