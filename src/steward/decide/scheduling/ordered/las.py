"""Least attained service, in levels of run time."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import TieOrder
from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking

__all__ = ["Las"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Las(RankedPolicy):
    """Whoever has run least goes first; a level is left for good once its time is used up."""

    thresholds_s: tuple[float, ...] = (3250.0, 7200.0)
    name: str = "las"

    @property
    def ranking(self) -> Ranking:
        return Ranking(
            law=Law.LEVEL, preempts=True, ties=TieOrder.RUNNING, thresholds=self.thresholds_s
        )
