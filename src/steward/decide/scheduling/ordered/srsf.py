"""Shortest remaining service first; it knows durations."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking

__all__ = ["Srsf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Srsf(RankedPolicy):
    """Whoever needs least GPU time to its end runs; others are stopped.

    The best bound on mean completion time that we have.
    """

    name: str = "srsf"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.REMAINING, preempts=True, by_gpus=True, knows_durations=True)
