"""Backfill with a reservation for everybody."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import Walk
from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking

__all__ = ["ConservativeBackfill"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConservativeBackfill(RankedPolicy):
    """Every waiting job gets a date, and nobody may pass if that moves another's date.

    As in Slurm: dates rest on time limits, and only the first `depth` jobs are looked at, at most
    every `interval_s`.
    """

    depth: int = 100
    interval_s: float = 30.0
    name: str = "conservative-backfill"

    @property
    def ranking(self) -> Ranking:
        return Ranking(
            law=Law.ARRIVAL, walk=Walk.CONSERVATIVE, depth=self.depth, interval_s=self.interval_s
        )
