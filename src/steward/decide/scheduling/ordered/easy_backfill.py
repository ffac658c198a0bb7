"""Backfill with one reservation."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import Walk
from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking

__all__ = ["EasyBackfill"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EasyBackfill(RankedPolicy):
    """In order of arrival; the first that does not fit gets a date, and others may pass it.

    Dates rest on time limits, not on durations: a job behind may start if by its limit it ends
    before that date, or leaves enough GPUs for it.
    """

    name: str = "easy-backfill"

    @property
    def ranking(self) -> Ranking:
        return Ranking(law=Law.ARRIVAL, walk=Walk.EASY)
