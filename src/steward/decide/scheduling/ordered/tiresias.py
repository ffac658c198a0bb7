"""Tiresias (NSDI'19): discretised two-dimensional LAS."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import TieOrder
from steward.decide.scheduling.live import decide_by_rank
from steward.decide.scheduling.ranking import Law, Ranking
from steward.model.decision import Decision
from steward.model.view import ClusterView

__all__ = ["Tiresias"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiresias:
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

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what to stop and start now, in this policy's order."""
        return decide_by_rank(self.name, self.ranking, view)
