"""The best node for a job by score, and the best GPU on it for a fraction.

Over a long series what was computed for a node holds until the node changes: one job changes one
node, so of a thousand scores the next job of the same shape needs one new one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from steward.compiled import njit
from steward.decide.placement.gangs import in_smallest_domain, widest_node
from steward.decide.placement.scores import (
    Guide,
    Placement,
    TieBreak,
    any_gpu,
    pseudo_random,
    score_on,
    scored_node,
    second_key,
)
from steward.decide.placement.state import Demand, Floats, Ints, NodeOccupancy, holders, sliced

__all__ = ["ScoreCache", "empty_score_cache", "place_cached", "place_scored"]


class ScoreCache(NamedTuple):
    """Scores by shape of job and node. Whoever changes a node adds 1 to its `version`."""

    score: Floats  # (shape, node)
    second: Floats  # (shape, node)
    gpu: Ints  # (shape, node): for a fraction
    seen: Ints  # (shape, node): 1 + the version of the node that was scored; 0: none was
    version: Ints  # (node)


def empty_score_cache(shapes: int, nodes: int) -> ScoreCache:
    """Start with nothing remembered."""
    table = (shapes, nodes)
    return ScoreCache(
        score=np.zeros(table),
        second=np.zeros(table),
        gpu=np.zeros(table, np.int64),
        seen=np.zeros(table, np.int64),
        version=np.zeros(nodes, np.int64),
    )


@njit
def place_cached(  # noqa: C901 - compiled: one scan, the rule beside it
    kind: int, nodes: NodeOccupancy, want: Demand, guide: Guide, memory: ScoreCache, shape: int
) -> tuple[int, int]:
    """Return the best node by score (-1: none holds the job) and its GPU for a fraction.

    Jobs of one `shape` ask for the same GPUs, CPUs and types; memory may differ. No gang wider
    than a node.
    """
    held = holders(nodes, want)
    best, best_score, best_second = -1, 0.0, 0.0
    for node in range(len(held)):
        if not held[node]:
            continue
        if memory.seen[shape, node] != memory.version[node] + 1:
            spot = scored_node(nodes, node)
            memory.second[shape, node] = second_key(spot, want, guide.ties)
            memory.score[shape, node], memory.gpu[shape, node] = score_on(kind, spot, want, guide)
            memory.seen[shape, node] = memory.version[node] + 1
        score, second = memory.score[shape, node], memory.second[shape, node]
        if memory.gpu[shape, node] < 0 or (best >= 0 and score < best_score):
            continue
        if guide.ties == TieBreak.RANDOM or kind == Placement.RANDOM:
            second = pseudo_random(guide.draw[0], node, 0)
        if best < 0 or score > best_score or second < best_second:
            best, best_score, best_second = node, score, second
    if best < 0:
        return -1, -1
    if kind == Placement.RANDOM and want.milli > 0:
        spot = scored_node(nodes, best)
        return best, any_gpu(spot, sliced(want.milli, spot.slices), guide.draw[0])
    return best, int(memory.gpu[shape, best])


@njit
def place_scored(
    kind: int, nodes: NodeOccupancy, want: Demand, guide: Guide, out_node: Ints, out_gpus: Ints
) -> int:
    """Choose the node with the highest score; ties as the guide says, then the lowest node.

    A gang wider than any node goes where it crosses the fewest switches: no score says how to
    split it.
    """
    if want.gpus > widest_node(nodes, want):
        return in_smallest_domain(nodes, want, out_node, out_gpus)
    n = len(nodes.gpus)
    numbers, counts = np.zeros((2, 1, n)), np.zeros((2, 1, n), np.int64)
    memory = ScoreCache(numbers[0], numbers[1], counts[0], counts[1], np.zeros(n, np.int64))
    node, gpu = place_cached(kind, nodes, want, guide, memory, 0)
    if node < 0:
        return 0
    fraction = want.gpus == 0 and want.milli > 0
    out_node[0], out_gpus[0] = node, -gpu - 1 if fraction else want.gpus
    return 1
