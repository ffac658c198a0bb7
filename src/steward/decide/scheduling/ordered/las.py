"""Least attained service, in levels of run time."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import TieOrder
from steward.decide.scheduling.live import decide_by_rank
from steward.decide.scheduling.ranking import Law, Ranking
from steward.model.decision import Decision
from steward.model.view import ClusterView

__all__ = ["Las"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Las:
    """Whoever has run least goes first; a level is left for good once its time is used up."""

    thresholds_s: tuple[float, ...] = (3250.0, 7200.0)
    name: str = "las"

    @property
    def ranking(self) -> Ranking:
        return Ranking(
            law=Law.LEVEL, preempts=True, ties=TieOrder.RUNNING, thresholds=self.thresholds_s
        )

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what to stop and start now, in this policy's order."""
        return decide_by_rank(self.name, self.ranking, view)
