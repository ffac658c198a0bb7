"""How others place jobs: rules that the placement benchmark compares with, on the same free GPUs.

Each takes the load of a network and a job's GPUs and returns nodes with GPUs, or nothing where the
rule would let the job wait. Jobs wider than a node ask for whole nodes under Slurm and Kueue, as
their users write them (`--gpus-per-node=8`, one pod per node).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from steward.decide.fabric.candidates import Candidate, ring_order
from steward.decide.fabric.least_contention import LeastContention, NetworkLoad
from steward.decide.placement import (
    Demand,
    Guide,
    NodeOccupancy,
    Placement,
    TieBreak,
    Typical,
    place_guided,
)
from steward.model.fabric.node_map import NodeMap
from steward.model.fabric.placed_job import TrafficProfile
from steward.sim.fabric.placement_replay import PlacementRule

__all__ = ["RULES", "ours"]

Ints = NDArray[np.int64]

_SIZES = np.array([1, 2, 4, 8], np.int64)
_WEIGHTS = np.array([0.7, 0.1, 0.1, 0.1])


def _candidate(place: NodeMap, kind: str, nodes: Ints, gpus: Ints) -> Candidate:
    """Return a choice, its ring ordered by leaf and pod as ours is: rules differ in nodes alone."""
    taken = dict(zip(nodes.tolist(), gpus.tolist(), strict=True))
    ring = ring_order(place, np.sort(nodes)).tolist()
    return Candidate(kind=kind, nodes=tuple(ring), gpus=tuple(taken[node] for node in ring))


def _kernel(kind: Placement, *, name: str) -> PlacementRule:
    """Return one of the lab's placements as a rule."""

    def rule(load: NetworkLoad, _job: str, _profile: TrafficProfile, gpus: int) -> Candidate | None:
        place, n = load.place, len(load.free)
        out_node, out_gpus = np.zeros(n, np.int64), np.zeros(n, np.int64)
        nodes = NodeOccupancy(
            free=load.free.copy(),
            gpus=place.gpus,
            milli=np.zeros((n, 0), np.int64),
            cpus_free=np.full(n, np.inf),
            memory_free=np.full(n, np.inf),
            type=np.zeros(n, np.int64),
            rack=place.leaf,
            switch=place.pod,
            cluster=np.zeros(n, np.int64),
            up=np.ones(n, np.bool_),
            mig=np.zeros(n, np.int64),
        )
        want = Demand(gpus, 0, 0.0, 0.0, -1)
        code = int(kind)
        if kind == Placement.FGD and gpus > int(place.gpus.max()):
            code = int(Placement.TOPOLOGY)  # what FGD does with gangs, in the lab as well
        sizes = np.array(load.sizes or _SIZES, np.int64)
        weights = np.array(load.weights or _WEIGHTS, np.float64)
        narrow = sizes <= int(place.gpus.max())
        sizes, weights = sizes[narrow], weights[narrow] / weights[narrow].sum()
        zero = np.full(len(sizes), 1000)
        nothing = np.zeros(len(sizes))
        typical = Typical(nothing, sizes, zero, np.full(len(sizes), -1), weights)
        guide = Guide(typical, int(TieBreak.LEAST_FREE_GPUS), 1.0, np.zeros(1))
        used = place_guided(code, nodes, want, guide, out_node, out_gpus)
        if used == 0:
            return None
        return _candidate(place, name, out_node[:used], out_gpus[:used])

    return rule


def _within_node(
    load: NetworkLoad, gpus: int, name: str, *, tightest: bool = True
) -> Candidate | None:
    fits = np.flatnonzero(load.free >= gpus)
    if not len(fits):
        return None
    node = fits[np.argmin(load.free[fits])] if tightest else fits[0]
    return _candidate(load.place, name, np.array([node]), np.array([gpus]))


def _whole_nodes(load: NetworkLoad, gpus: int) -> tuple[NDArray[np.bool_], int]:
    size = int(load.place.gpus.max())
    return load.free >= size, -(-gpus // size)


def _sized(load: NetworkLoad, name: str, nodes: list[int], gpus: int) -> Candidate:
    size = int(load.place.gpus.max())
    counts = np.full(len(nodes), size, np.int64)
    counts[-1] = gpus - size * (len(nodes) - 1)
    order = np.argsort(np.array(nodes))
    return _candidate(load.place, name, np.array(nodes, np.int64)[order], counts)


def slurm_tree(
    load: NetworkLoad, _job: str, _profile: TrafficProfile, gpus: int
) -> Candidate | None:
    """`topology/tree`: the lowest switch that holds the job; inside, leaves by best fit.

    While no leaf holds the rest, the leaf with most nodes is used up (`_eval_nodes_topo`).
    """
    if gpus <= int(load.place.gpus.max()):
        return _within_node(load, gpus, "slurm-tree", tightest=False)
    whole, count = _whole_nodes(load, gpus)
    place = load.place
    for of in (place.leaf, place.pod, np.zeros(len(whole), np.int64)):
        room = np.bincount(of[whole], minlength=int(of.max()) + 1)
        fits = np.flatnonzero(room >= count)
        if not len(fits):
            continue
        switch = fits[np.argmin(room[fits])]
        return _sized(
            load, "slurm-tree", _best_fit_leaves(place, whole & (of == switch), count), gpus
        )
    return None


def _best_fit_leaves(place: NodeMap, usable: NDArray[np.bool_], count: int) -> list[int]:
    room = np.bincount(place.leaf[usable], minlength=int(place.leaf.max()) + 1)
    chosen: list[int] = []
    while len(chosen) < count:
        rest = count - len(chosen)
        holds = np.flatnonzero(room >= rest)
        leaf = holds[np.argmin(room[holds])] if len(holds) else int(np.argmax(room))
        nodes = np.flatnonzero(usable & (place.leaf == leaf))
        chosen += nodes[:rest].tolist()
        room[leaf] = 0
    return chosen


def slurm_block(
    load: NetworkLoad, _job: str, _profile: TrafficProfile, gpus: int
) -> Candidate | None:
    """`topology/block`, with leaves as blocks: fewest blocks, then the tightest set."""
    if gpus <= int(load.place.gpus.max()):
        return _within_node(load, gpus, "slurm-block", tightest=False)
    whole, count = _whole_nodes(load, gpus)
    place = load.place
    if whole.sum() < count:
        return None
    room = np.bincount(place.leaf[whole], minlength=int(place.leaf.max()) + 1)
    chosen: list[int] = []
    while len(chosen) < count:
        rest = count - len(chosen)
        holds = np.flatnonzero(room >= rest)
        block = holds[np.argmin(room[holds])] if len(holds) else int(np.argmax(room))
        chosen += np.flatnonzero(whole & (place.leaf == block))[:rest].tolist()
        room[block] = 0
    return _sized(load, "slurm-block", chosen, gpus)


def kueue(load: NetworkLoad, _job: str, _profile: TrafficProfile, gpus: int) -> Candidate | None:
    """Topology-aware scheduling, `preferred` rack: best fit at the lowest level that holds all.

    Below it, at each level, the fewest domains: largest first, and for the last the one that fits
    best. Pods of a job smaller than a node go to the node with the least room.
    """
    if gpus <= int(load.place.gpus.max()):
        return _within_node(load, gpus, "kueue")
    whole, count = _whole_nodes(load, gpus)
    place = load.place
    if whole.sum() < count:
        return None
    levels = [np.zeros(len(whole), np.int64), place.pod, place.leaf]
    start = 0
    for depth, of in enumerate(levels):
        room = np.bincount(of[whole], minlength=int(of.max()) + 1)
        if (room >= count).any():
            start = depth
    parts = _fewest(levels[start], whole, {0: count} if start == 0 else None, count)
    for depth in range(start + 1, len(levels)):
        parts = _children(levels[depth - 1], levels[depth], whole, parts)
    chosen = [
        node
        for leaf, taken in parts.items()
        for node in np.flatnonzero(whole & (levels[-1] == leaf))[:taken].tolist()
    ]
    return _sized(load, "kueue", chosen, gpus)


def _fewest(
    of: Ints, whole: NDArray[np.bool_], given: dict[int, int] | None, count: int
) -> dict[int, int]:
    if given is not None:
        return given
    room = np.bincount(of[whole], minlength=int(of.max()) + 1)
    holds = np.flatnonzero(room >= count)
    return {int(holds[np.argmin(room[holds])]): count}


def _children(
    parent: Ints, of: Ints, whole: NDArray[np.bool_], parts: dict[int, int]
) -> dict[int, int]:
    out: dict[int, int] = {}
    for domain, count in parts.items():
        inside = whole & (parent == domain)
        room = np.bincount(of[inside], minlength=int(of.max()) + 1)
        rest = count
        while rest > 0:
            holds = np.flatnonzero(room >= rest)
            child = int(holds[np.argmin(room[holds])] if len(holds) else np.argmax(room))
            out[child] = min(rest, int(room[child]))
            rest -= out[child]
            room[child] = 0
    return out


def balanced(load: NetworkLoad, job: str, profile: TrafficProfile, gpus: int) -> Candidate | None:
    """As many nodes under each of the fewest leaves that allow it; else as Slurm's tree does."""
    size = int(load.place.gpus.max())
    if gpus <= size:
        return _within_node(load, gpus, "balanced")
    whole, count = _whole_nodes(load, gpus)
    room = np.bincount(load.place.leaf[whole], minlength=int(load.place.leaf.max()) + 1)
    for leaves in range(1, 9):
        if count % leaves:
            continue
        able = np.flatnonzero(room >= count // leaves)
        if len(able) >= leaves:
            able = able[np.argsort(room[able], kind="stable")][:leaves]
            chosen = [
                node
                for leaf in able.tolist()
                for node in np.flatnonzero(whole & (load.place.leaf == leaf))[: count // leaves]
            ]
            return _sized(load, "balanced", chosen, gpus)
    return slurm_tree(load, job, profile, gpus)


def ours(policy: LeastContention, least_share: float = 0.0) -> PlacementRule:
    """Return least-contention as a rule; it lets a job wait that would compute too little."""

    def rule(load: NetworkLoad, job: str, profile: TrafficProfile, gpus: int) -> Candidate | None:
        ranked = policy.rank(load, job, profile, gpus)
        if not ranked:
            return None
        best = ranked[0]
        if load.jobs and best.gained_gpus < least_share * best.ideal_gpus:
            return None
        return best.candidate

    return rule


RULES: dict[str, Callable[[], PlacementRule]] = {
    "count": lambda: _kernel(Placement.COUNT, name="count"),
    "packed": lambda: _kernel(Placement.PACKED, name="packed"),
    "spread": lambda: _kernel(Placement.SPREAD, name="spread"),
    "balanced": lambda: balanced,
    "fgd": lambda: _kernel(Placement.FGD, name="fgd"),
    "slurm-tree": lambda: slurm_tree,
    "slurm-block": lambda: slurm_block,
    "kueue": lambda: kueue,
}
