"""Commons: idle guarantees as a common pool, shared by what similar jobs have taken."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.live import decide_by_rank
from steward.decide.scheduling.passes.ordered import Ties
from steward.decide.scheduling.ranking import Law, Ranking, Sharing
from steward.model.decision import Decision
from steward.model.view import View

__all__ = ["Commons"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commons:
    """Guarantees first; what is idle is common, and goes where it ends most work for its share.

    A job's rank is how much GPU time similar past jobs took for each that ended, from where this
    one is; where little is known that is least attained service. Within its guarantee a tenant's
    jobs go by rank, at once, whoever has to make room. Above it ranks are multiplied by how many
    times its guarantee the tenant holds. `lead`: a running job is only stopped for one that ranks
    so many times better. `patience`: and only if all its stops together cost at most this share of
    the time it has run. `strength` and `memory` say how much is learned from how many past
    jobs: see `learn/experience.py`.
    """

    lead: float = 2.0
    patience: float = 0.05
    strength: float = 10.0
    memory: float = 1000.0
    name: str = "commons"

    @property
    def ranking(self) -> Ranking:
        return Ranking(
            law=Law.EXPERIENCE,
            preempts=True,
            ties=Ties.RUNNING,
            by_gpus=True,
            sharing=Sharing.COMMONS,
            lead=self.lead,
            patience=self.patience,
            strength=self.strength,
            memory=self.memory,
        )

    def decide(self, view: View) -> tuple[Decision, ...]:
        """Return what to stop and start now, in this policy's order."""
        return decide_by_rank(self.name, self.ranking, view)
