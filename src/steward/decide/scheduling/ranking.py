"""What makes a rank-based policy: the law of its ranks, its walk, and whether it stops jobs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from steward.decide.scheduling.kernels.ordered import TieOrder, Walk

__all__ = ["ABOUT_TO_END_GPU_S", "Law", "Ranking", "Sharing"]

ABOUT_TO_END_GPU_S = 60.0  # the rank of a job that is about to miss its deadline


class Law(IntEnum):
    """What a job's rank is. Smaller goes first; equal ranks go by arrival."""

    ARRIVAL = 0
    DURATION = 1  # needs to know it
    REMAINING = 2  # needs to know it
    LEVEL = 3  # how many thresholds its attained time or service has passed
    EXPERIENCE = 4  # expected service per ended job, from similar past jobs
    PREDICTED = 5  # mean duration of similar past jobs, when it arrived


class Sharing(IntEnum):
    """How tenants share. With `ONE_QUEUE` they do not matter."""

    ONE_QUEUE = 0
    STATIC = 1  # each stays within its quota
    BORROW = 2  # idle quota is lent, and reclaimed by stopping who borrowed last
    FAIR_TREE = 3  # least decayed use for its share first
    DOMINANT = 4  # least dominant share first
    COMMONS = 5  # guarantees first, then rank weighed by share


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """One policy of the rank-based family, as data."""

    law: Law
    walk: Walk = Walk.FIT
    ties: TieOrder = TieOrder.WAITING
    preempts: bool = False
    by_gpus: bool = False  # ranks are multiplied by GPUs: service instead of time
    sharing: Sharing = Sharing.ONE_QUEUE
    thresholds: tuple[float, ...] = ()
    promote: float = 0.0
    patience: float = np.inf  # no bound on what stops may cost
    depth: int = 100
    interval_s: float = 30.0
    half_life_s: float = 7 * 86_400.0
    strength: float = 10.0
    memory: float = 1000.0
    lead: float = 1.0
    old_s: float = np.inf  # who has waited longer counts for more
    class_weight: float = 1.0  # of a priority class, over the next lower one
    deadlines: bool = False  # they count
    moves: bool = False  # running jobs may move to make room on a node
    gang_wait_s: float = np.inf  # where they may not: a gang that has waited so long goes first
    goal: str = ""  # which GPUs are filled first: see `Goal`
    rolling: float = 1.0  # part of similar jobs in a prediction; the rest is of boosted trees
    similar: bool = True  # False: all jobs are one class
    knows_durations: bool = False
