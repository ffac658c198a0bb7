"""Shortest job first; it knows durations."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import Walk
from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking

__all__ = ["Sjf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sjf(RankedPolicy):
    """The shortest waiting job first, and nobody passes it; running jobs are never stopped."""

    name: str = "sjf"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.DURATION, walk=Walk.STRICT, knows_durations=True)
