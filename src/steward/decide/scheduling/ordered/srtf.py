"""Shortest remaining time first; it knows durations."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.live import decide_by_rank
from steward.decide.scheduling.ranking import Law, Ranking
from steward.model.decision import Decision
from steward.model.view import ClusterView

__all__ = ["Srtf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Srtf:
    """Whoever is nearest to its end runs; others are stopped. A bound, not a real policy."""

    name: str = "srtf"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.REMAINING, preempts=True, knows_durations=True)

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what to stop and start now, in this policy's order."""
        return decide_by_rank(self.name, self.ranking, view)
