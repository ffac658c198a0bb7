"""The one door to all placements: which nodes, and how many GPUs on each.

Compiled, for the replay engines and for live policies alike. `place` and `place_guided` only read
the state; `take` and `give` change it.
"""

from __future__ import annotations

import numpy as np

from steward.compiled import njit
from steward.decide.placement.gangs import count_only, in_smallest_domain, most_free_first, packed
from steward.decide.placement.score_cache import place_scored
from steward.decide.placement.scores import Guide, Placement, TieBreak, Typical
from steward.decide.placement.shares import place_fraction, place_without_gpu
from steward.decide.placement.state import Demand, Ints, NodeOccupancy, give, locality, take

__all__ = [
    "Demand",
    "Guide",
    "NodeOccupancy",
    "Placement",
    "TieBreak",
    "Typical",
    "give",
    "locality",
    "place",
    "place_guided",
    "place_unscored",
    "take",
]

_LEAST_FREE_GPUS = int(TieBreak.LEAST_FREE_GPUS)


@njit
def place(kind: int, nodes: NodeOccupancy, want: Demand, out_node: Ints, out_gpus: Ints) -> int:
    """Choose nodes for a job and return how many; 0: it does not fit now.

    Writes the nodes and the whole GPUs on each; for a fraction `out_gpus[0]` is -(GPU + 1), for a
    job without GPUs 0. Both arrays need a place for every node. Without a guide, FGD knows no
    typical jobs and packs by free GPUs, and RANDOM is the same for every job.
    """
    if kind < Placement.FGD:
        return place_unscored(kind, nodes, want, out_node, out_gpus)
    none, nothing = np.zeros(0, np.int64), np.zeros(0)
    typical = Typical(nothing, none, none, none, nothing)
    guide = Guide(typical, _LEAST_FREE_GPUS, 1.0, np.zeros(1))
    return place_scored(kind, nodes, want, guide, out_node, out_gpus)


@njit
def place_guided(
    kind: int, nodes: NodeOccupancy, want: Demand, guide: Guide, out_node: Ints, out_gpus: Ints
) -> int:
    """Do what `place` does with typical jobs, a draw, and ties of choice."""
    if kind < Placement.FGD:
        return place_unscored(kind, nodes, want, out_node, out_gpus)
    return place_scored(kind, nodes, want, guide, out_node, out_gpus)


@njit
def place_unscored(
    kind: int, nodes: NodeOccupancy, want: Demand, out_node: Ints, out_gpus: Ints
) -> int:
    """Do what `place` does for COUNT, PACKED, SPREAD and TOPOLOGY: half the code to compile."""
    if want.gpus == 0:
        if want.milli > 0:
            return place_fraction(kind, nodes, want, out_node, out_gpus)
        return place_without_gpu(kind, nodes, want, out_node, out_gpus)
    if kind == Placement.COUNT:
        return count_only(nodes, want, out_node, out_gpus)
    if kind == Placement.SPREAD:
        return most_free_first(nodes, want, out_node, out_gpus)
    if kind == Placement.PACKED:
        return packed(nodes, want, out_node, out_gpus)
    return in_smallest_domain(nodes, want, out_node, out_gpus)
