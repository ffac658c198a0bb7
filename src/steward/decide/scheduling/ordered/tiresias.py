"""Tiresias (NSDI'19): discretised two-dimensional LAS."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import TieOrder
from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking

__all__ = ["Tiresias"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiresias(RankedPolicy):
    """Whoever has used least GPU time goes first; a level is left once its GPU time is used up.

    `promote` gives a job that waited so many times the time it ran a new start; 0 is never. (The
    authors' own simulator lets jobs of several GPUs leave a level late; this one does not.)
    """

    thresholds_gpu_s: tuple[float, ...] = (3250.0, 7200.0)
    promote: float = 0.0
    name: str = "tiresias"

    @property
    def ranking(self) -> Ranking:
        return Ranking(
            law=Law.LEVEL,
            preempts=True,
            ties=TieOrder.RUNNING,
            by_gpus=True,
            thresholds=self.thresholds_gpu_s,
            promote=self.promote,
        )
