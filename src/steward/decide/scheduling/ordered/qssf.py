"""Quasi-shortest service first (Helios, SC'21)."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.kernels.ordered import Walk
from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking

__all__ = ["Qssf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Qssf(RankedPolicy):
    """The waiting job with the least predicted GPU time first, and nobody passes it.

    Predictions are made on arrival, from jobs that had ended by then: in part (`rolling`) the mean
    of those of the same user and model, leaning on the tenant's and on all where there are few, and
    for the rest boosted trees over all that is known of a job. Live there is the first part only.
    """

    rolling: float = 0.1
    strength: float = 10.0
    name: str = "qssf"

    @property
    def ranking(self) -> Ranking:
        return Ranking(
            law=Law.PREDICTED,
            walk=Walk.STRICT,
            by_gpus=True,
            rolling=self.rolling,
            strength=self.strength,
        )
