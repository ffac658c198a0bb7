"""Gittins index, learned from the jobs that have ended."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import TieOrder
from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking

__all__ = ["Gittins"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gittins(RankedPolicy):
    """Whoever is likeliest to end for the GPU time spent, by how jobs have gone so far.

    The two-dimensional Gittins form of Tiresias: one distribution of GPU time for all jobs, here
    learned from those that have ended instead of given beforehand.
    """

    name: str = "gittins"

    @property
    def ranking(self) -> Ranking:
        return Ranking(
            law=Law.EXPERIENCE,
            preempts=True,
            ties=TieOrder.RUNNING,
            by_gpus=True,
            similar=False,
        )
