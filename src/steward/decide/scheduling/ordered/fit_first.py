"""First in, first out, for those that fit."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import Walk
from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking

__all__ = ["FitFirst"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitFirst(RankedPolicy):
    """In order of arrival, whoever fits now; large jobs may wait for ever (also called FJF)."""

    name: str = "fit-first"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.ARRIVAL, walk=Walk.FIT)
