"""How good one node is for one job that it can hold: a number, higher is better.

Fragmentation gradient descent (FGD, ATC'23) and the rivals of that paper, as its simulator defines
them. All scores are whole numbers of 0..100, and that matters: what remains equal after rounding
is decided by the tie-break.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from steward.compiled import njit
from steward.decide.placement.state import (
    WHOLE,
    Demand,
    Floats,
    Ints,
    NodeOccupancy,
    sliced,
)

__all__ = [
    "Guide",
    "Placement",
    "ScoredNode",
    "TieBreak",
    "Typical",
    "any_gpu",
    "fragment",
    "pseudo_random",
    "score_on",
    "scored_node",
    "second_key",
]

_MOST_CPUS = 128.0  # of a node, to weigh CPUs against GPUs; the paper's constants
_MOST_MILLI = 8000.0
_SLACK = 1e-6  # CPUs


class Placement(IntEnum):
    """Kinds of placement, as numbers that compiled code compares."""

    COUNT = 0
    PACKED = 1
    SPREAD = 2
    TOPOLOGY = 3
    FGD = 4
    BEST_FIT = 5
    DOT_PRODUCT = 6
    GPU_PACKING = 7
    GPU_CLUSTERING = 8
    RANDOM = 9


class TieBreak(IntEnum):
    """What decides between nodes of equal score, before the order of names does."""

    NAME = 0
    LEAST_FREE_GPUS = 1
    BEST_FIT = 2
    LEAST_FREE_CPUS = 3
    RANDOM = 4


class Typical(NamedTuple):
    """The jobs that are to be expected, by shape: what idle GPUs should remain useful for."""

    cpus: Floats
    gpus: Ints  # how many GPUs
    milli: Ints  # thousandths needed of each: 1000 is whole, 0 is a job without GPU
    type_mask: Ints
    share: Floats  # of all jobs; together 1


class Guide(NamedTuple):
    """What a scored placement looks at beside the state. `draw[0]` is 0..1, new for every job."""

    typical: Typical
    ties: int
    unit: float  # scores are rounded down to multiples of it; 0: not rounded
    draw: Floats


class ScoredNode(NamedTuple):
    """One node as scores see it."""

    node: int
    idle: Ints  # free thousandths of each GPU
    cpus_free: float
    type: int
    slices: int  # per GPU; 0: not cut
    sizes: Ints  # (node, size): as in the state


@njit
def scored_node(nodes: NodeOccupancy, node: int) -> ScoredNode:
    """Look at one node."""
    idle = np.zeros(nodes.gpus[node], np.int64)
    for gpu in range(len(idle)):
        if nodes.milli.shape[1] > 0:
            idle[gpu] = max(nodes.milli[node, gpu], 0)
        elif gpu < nodes.free[node]:
            idle[gpu] = WHOLE
    return ScoredNode(
        node, idle, nodes.cpus_free[node], nodes.type[node], nodes.mig[node], nodes.sizes
    )


@njit
def _total(idle: Ints) -> int:
    total = 0
    for milli in idle:
        total += milli
    return total


@njit
def fragment(spot: ScoredNode, cpus_free: float, typical: Typical) -> float:
    """Idle thousandths of a node that the next job, drawn from the typical ones, could not use."""
    total = _total(spot.idle)
    if total == 0:
        return 0.0
    lost = 0.0
    for i in range(len(typical.share)):
        need = typical.milli[i]
        unusable = total
        if (
            need > 0
            and (typical.type_mask[i] >> spot.type) & 1
            and typical.cpus[i] <= cpus_free + _SLACK
        ):
            if need < WHOLE:
                need = sliced(need, spot.slices)
            enough, too_small = 0, 0
            for milli in spot.idle:
                if milli >= need:
                    enough += 1
                else:
                    too_small += milli
            if enough >= typical.gpus[i]:
                unusable = too_small
        lost += typical.share[i] * unusable
    return lost


@njit
def _rounded(score: float, unit: float) -> float:
    return np.floor(score / unit + 1e-12) * unit if unit > 0.0 else score


@njit
def _tightest_gpu(idle: Ints, need: int) -> int:
    best = -1
    for gpu in range(len(idle)):
        if idle[gpu] >= need and (best < 0 or idle[gpu] < idle[best]):
            best = gpu
    return best


@njit
def any_gpu(spot: ScoredNode, need: int, draw: float) -> int:
    """Return any GPU that has so much free, each equally likely; -1: none has."""
    best, least = -1, 2.0
    for gpu in range(len(spot.idle)):
        thrown = pseudo_random(draw, spot.node, gpu + 1)
        if spot.idle[gpu] >= need and thrown < least:
            best, least = gpu, thrown
    return best


@njit
def pseudo_random(draw: float, node: int, gpu: int) -> float:
    """Return a number of 0..1 that looks random in each of these but is the same every time."""
    mixed = int(draw * 4294967296.0) ^ (node * 2654435761 + gpu * 40503)
    for _ in range(3):
        mixed = ((mixed ^ (mixed >> 16)) * 73244475) & 0xFFFFFFFF
    return mixed / 4294967296.0


@njit
def _by_fragments(spot: ScoredNode, want: Demand, guide: Guide) -> tuple[float, int]:
    """FGD: how much less would be lost on this node after the job than before it."""
    idle, cpus = spot.idle, spot.cpus_free - want.cpus
    before = fragment(spot, spot.cpus_free, guide.typical)
    if want.gpus > 0 or want.milli == 0:
        missing = want.gpus
        for gpu in range(len(idle)):
            if missing > 0 and idle[gpu] == WHOLE:
                idle[gpu] = 0
                missing -= 1
        return _gained(before - fragment(spot, cpus, guide.typical), guide.unit), 0
    need = sliced(want.milli, spot.slices)
    best, best_gpu = -1.0, -1
    for gpu in range(len(idle)):
        if idle[gpu] < need:
            continue
        idle[gpu] -= need
        score = _gained(before - fragment(spot, cpus, guide.typical), guide.unit)
        idle[gpu] += need
        if score > best:
            best, best_gpu = score, gpu
    return best, best_gpu


@njit
def _gained(milli: float, unit: float) -> float:
    """Squeeze any number of thousandths into 0..100."""
    return _rounded(100.0 / (1.0 + np.exp(-milli / 1000.0)), unit)


@njit
def _by_room_left(spot: ScoredNode, want: Demand) -> float:
    """Best fit: the less CPU and GPU together is left, the better."""
    asked = want.gpus * WHOLE + want.milli
    left = 0.5 * (_total(spot.idle) - asked) / _MOST_MILLI
    if spot.cpus_free < np.inf:
        left += 0.5 * (spot.cpus_free - want.cpus) / _MOST_CPUS
    return 100.0 * (1.0 - left)


@njit
def _by_product(spot: ScoredNode, want: Demand) -> float:
    """Tetris' alignment turned round: the smaller what is free times what is asked, the better."""
    asked = want.gpus * WHOLE + want.milli
    product = _total(spot.idle) / _MOST_MILLI * asked / _MOST_MILLI
    if spot.cpus_free < np.inf:
        product += spot.cpus_free / _MOST_CPUS * want.cpus / _MOST_CPUS
    return 100.0 * (1.0 - product / 2.0)


@njit
def _by_packing(idle: Ints, want: Demand, gpu: int) -> float:
    """GPUs in use first, then free ones of nodes in use, then untouched nodes, small ones first."""
    if want.gpus + want.milli == 0:
        return 0.0
    untouched = 0
    for milli in idle:
        untouched += milli == WHOLE
    if untouched == len(idle):
        return float(max(33 - untouched, untouched))
    if want.gpus > 0 or idle[gpu] == WHOLE:
        return float(max(50 - max(want.gpus, 1), 33))
    return float(max(100 - (idle[gpu] * 100 // WHOLE) // 10, 50))


@njit
def _by_company(spot: ScoredNode, want: Demand) -> float:
    """Nodes that hold only jobs of this size, then also this size, then none, then others."""
    if want.gpus + want.milli == 0:
        return 0.0
    others, same = 0, False
    last = spot.sizes.shape[1] - 1
    for size in range(last + 1):
        if spot.sizes[spot.node, size] > 0:
            others += 1
            same |= size == min(want.gpus, last)
    base = 0
    if same:
        base = 75 if others == 1 else 50
    elif others == 0:
        base = 25
    return float(base + np.int64(25 * (_MOST_MILLI - _total(spot.idle))) // np.int64(_MOST_MILLI))


@njit
def score_on(kind: int, spot: ScoredNode, want: Demand, guide: Guide) -> tuple[float, int]:
    """Return the score of a node that holds the job, and the GPU for a fraction.

    A GPU of -1 says that none holds it. Whether the whole GPUs, CPUs and memory are there is for
    `holders` to say. Changes the spot.
    """
    if kind == Placement.FGD:
        return _by_fragments(spot, want, guide)
    gpu, score = 0, 0.0
    if want.gpus == 0 and want.milli > 0:
        gpu = _tightest_gpu(spot.idle, sliced(want.milli, spot.slices))
        if gpu < 0:
            return -1.0, -1
    if kind == Placement.BEST_FIT:
        score = _by_room_left(spot, want)
    elif kind == Placement.DOT_PRODUCT:
        score = _by_product(spot, want)
    elif kind == Placement.GPU_PACKING:
        score = _by_packing(spot.idle, want, gpu)
    elif kind == Placement.GPU_CLUSTERING:
        score = _by_company(spot, want)
    return _rounded(score, guide.unit), gpu


@njit
def second_key(spot: ScoredNode, want: Demand, ties: int) -> float:
    """Return what decides between equal scores, but for names and dice; lower is better."""
    if ties == TieBreak.LEAST_FREE_GPUS:
        return float(_total(spot.idle))
    if ties == TieBreak.BEST_FIT:
        return -_by_room_left(spot, want)
    return float(spot.cpus_free) if ties == TieBreak.LEAST_FREE_CPUS else 0.0
