"""Where a fraction of one GPU goes, and where a job without any GPU goes."""

from __future__ import annotations

from steward.compiled import njit
from steward.decide.placement.scores import Placement
from steward.decide.placement.state import Demand, Ints, NodeOccupancy, fraction_on, holders

__all__ = ["place_fraction", "place_without_gpu"]

_COUNT, _SPREAD = int(Placement.COUNT), int(Placement.SPREAD)


@njit
def place_fraction(
    kind: int, nodes: NodeOccupancy, want: Demand, out_node: Ints, out_gpus: Ints
) -> int:
    """Fill the fullest GPU that still holds it (spread: the emptiest; count: the first).

    Equal GPUs: the node with the fewest wholly free ones, then the lowest (spread: the most).
    """
    sign = -1 if kind == _SPREAD else 1
    held = holders(nodes, want)
    best_node, best_gpu, best_left, best_free = -1, -1, 0, 0
    for node in range(len(held)):
        if not held[node] or (kind == _COUNT and best_node >= 0):
            continue
        need, free = fraction_on(nodes, want, node), sign * nodes.free[node]
        for gpu in range(nodes.milli.shape[1]):
            left = nodes.milli[node, gpu] - need
            first = best_node < 0
            if kind != _COUNT and not first:
                equal = sign * left == best_left
                first = sign * left < best_left or (equal and free < best_free)
            if left >= 0 and first:
                best_node, best_gpu, best_left, best_free = node, gpu, sign * left, free
    if best_node < 0:
        return 0
    out_node[0], out_gpus[0] = best_node, -best_gpu - 1
    return 1


@njit
def place_without_gpu(
    kind: int, nodes: NodeOccupancy, want: Demand, out_node: Ints, out_gpus: Ints
) -> int:
    """Use the node with the fewest free GPUs (spread: the most free CPUs; count: the first)."""
    held = holders(nodes, want)
    best, least = -1, 0.0
    for node in range(len(held)):
        if not held[node]:
            continue
        cost = -nodes.cpus_free[node] if kind == _SPREAD else float(nodes.free[node])
        if best < 0 or (cost < least and kind != _COUNT):
            best, least = node, cost
    if best < 0:
        return 0
    out_node[0], out_gpus[0] = best, 0
    return 1
