"""What an elastic policy sees in one round, and what it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from steward.model.goodput import GoodputModel

__all__ = [
    "ElasticChoice",
    "ElasticJob",
    "ElasticPolicy",
    "ElasticView",
    "Needs",
    "Placement",
    "fill_freest",
]

Placement = tuple[int, ...]  # the node of each replica; () is none
Needs = Literal["size", "step times", "goodput"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticJob:
    """A job that is there and not finished. Fields that a policy does not need are empty."""

    row: int
    age_s: float
    attained_gpu_s: float
    restarts: int
    restarting: bool  # it saves or loads just now
    placement: Placement
    replicas: int  # asked for
    batch: float  # asked for
    restart_s: float  # what a change costs it
    steps_left: float = 0.0  # at the batch size asked for
    step_s: tuple[float, ...] = ()  # by replicas, at that batch size; [0] is 0
    models: tuple[GoodputModel | None, ...] = ()  # by GPU type; None: it never ran there
    samples_per_s: tuple[float, ...] = ()  # of one GPU, by GPU type
    max_replicas: int = 1  # the most that may be tried now


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticView:
    """One round. `jobs` stand in the order of arrival."""

    jobs: tuple[ElasticJob, ...]
    node_gpus: tuple[int, ...]  # 0: the node is down
    node_type: tuple[int, ...]
    types: int = 1
    memory: object = None  # what the same policy handed on last round

    @property
    def total_gpus(self) -> int:
        """GPUs of all nodes that are up."""
        return sum(self.node_gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticChoice:
    """Who runs where until the next round. Jobs that are not named run nowhere."""

    placements: Mapping[int, Placement]
    memory: object = field(default=None)


class ElasticPolicy(Protocol):
    """A policy that chooses sizes as well as places."""

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> Needs: ...

    @property
    def fixed_batch(self) -> bool: ...  # jobs keep the batch size they asked for

    def decide(self, moment: ElasticView) -> ElasticChoice: ...


def fill_freest(
    wanted: list[tuple[int, int]], kept: dict[int, Placement], node_gpus: tuple[int, ...]
) -> dict[int, Placement]:
    """Place (job, replicas) one after the other, each on the nodes with the most free GPUs.

    Ties go to the lowest node. What is kept stays where it is.
    """
    held = Counter(node for nodes in kept.values() for node in nodes)
    free = [gpus - held[node] for node, gpus in enumerate(node_gpus)]
    placed = dict(kept)
    for row, replicas in wanted:
        nodes: list[int] = []
        while len(nodes) < replicas:
            freest = free.index(max(free))
            taken = min(free[freest], replicas - len(nodes))
            free[freest] -= taken
            nodes += [freest] * taken
        placed[row] = tuple(nodes)
    return placed
