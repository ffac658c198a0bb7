"""Commons: idle guarantees as a common pool, shared by what similar jobs have taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steward.decide.scheduling.goals import Goal
from steward.decide.scheduling.kernels.ordered import TieOrder
from steward.decide.scheduling.live import RankedPolicy
from steward.decide.scheduling.ranking import Law, Ranking, Sharing
from steward.errors import StewardError, unknown_name

__all__ = ["Commons"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commons(RankedPolicy):
    """Guarantees first; what is idle is common, and goes where it ends most work for its share.

    A job's rank is how much GPU time similar past jobs took for each that ended, from where this
    one is; where little is known that is least attained service. Within its guarantee a tenant's
    jobs go by rank, at once, whoever has to make room. Above it ranks are multiplied by how many
    times its guarantee the tenant holds. `lead`: a running job is only stopped for one that ranks
    so many times better. `patience`: and only if all its stops together cost at most this share of
    the time it has run. `class_weight`: one priority class up counts as being so many times
    nearer to the end. A job that will miss its deadline if it waits on ranks like one that is
    about to end, until it is due. `old_s`: who has waited so long counts for more, by doublings;
    it helps the last hundredth of jobs and costs the others, so it is off. `moves`: running jobs
    go to another node where that lets a gang in that must be on one. `gang_wait_s`: where nobody
    moves, as always live, a job of several GPUs that has waited so long goes first after all
    guarantees, and runs at least so long; a node is cleared or kept for it. It lets wide jobs in
    and costs the narrow ones, so it is off. `goal`: which machines
    are filled first, where they differ: those that add least cost, energy or carbon. (Live, nobody
    moves and machines have no bill yet.) `strength` and `memory` say how much is learned from how
    many past jobs: see `learn/experience.py`.
    """

    lead: float = 2.0
    class_weight: float = 2.0
    old_s: float = np.inf
    moves: bool = True
    gang_wait_s: float = np.inf
    goal: str = ""
    patience: float = 0.05
    strength: float = 10.0
    memory: float = 1000.0
    name: str = "commons"

    def __post_init__(self) -> None:
        """Refuse what ranks would be divided by."""
        RankedPolicy.__post_init__(self)
        for option in ("lead", "class_weight", "old_s", "gang_wait_s", "strength"):
            if not getattr(self, option) > 0:
                raise StewardError(f"{option} must be above 0", where=self.name)
        if not self.memory >= 1:
            raise StewardError("memory must be at least 1 job", where=self.name)
        if self.goal not in set(Goal):
            raise unknown_name("goal", self.goal, [each.value for each in Goal if each.value])

    @property
    def ranking(self) -> Ranking:
        return Ranking(
            law=Law.EXPERIENCE,
            preempts=True,
            ties=TieOrder.RUNNING,
            by_gpus=True,
            sharing=Sharing.COMMONS,
            lead=self.lead,
            class_weight=self.class_weight,
            deadlines=True,
            old_s=self.old_s,
            moves=self.moves,
            gang_wait_s=self.gang_wait_s,
            goal=self.goal,
            patience=self.patience,
            strength=self.strength,
            memory=self.memory,
        )
