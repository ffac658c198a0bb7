"""Shortest job first; it knows durations."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import Walk
from steward.decide.scheduling.live import decide_by_rank
from steward.decide.scheduling.ranking import Law, Ranking
from steward.model.decision import Decision
from steward.model.view import ClusterView

__all__ = ["Sjf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sjf:
    """The shortest waiting job first, and nobody passes it; running jobs are never stopped."""

    name: str = "sjf"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.DURATION, walk=Walk.STRICT, knows_durations=True)

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what to stop and start now, in this policy's order."""
        return decide_by_rank(self.name, self.ranking, view)
