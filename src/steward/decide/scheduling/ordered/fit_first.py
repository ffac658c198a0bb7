"""First in, first out, for those that fit."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import Walk
from steward.decide.scheduling.live import decide_by_rank
from steward.decide.scheduling.ranking import Law, Ranking
from steward.model.decision import Decision
from steward.model.view import ClusterView

__all__ = ["FitFirst"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitFirst:
    """In order of arrival, whoever fits now; large jobs may wait for ever (also called FJF)."""

    name: str = "fit-first"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.ARRIVAL, walk=Walk.FIT)

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what to stop and start now, in this policy's order."""
        return decide_by_rank(self.name, self.ranking, view)
