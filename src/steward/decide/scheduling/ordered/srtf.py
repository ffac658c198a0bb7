"""Shortest remaining time first; it knows durations."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking

__all__ = ["Srtf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Srtf(RankedPolicy):
    """Whoever is nearest to its end runs; others are stopped. A bound, not a real policy."""

    name: str = "srtf"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.REMAINING, preempts=True, knows_durations=True)
