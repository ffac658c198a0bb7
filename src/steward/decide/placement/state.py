"""Which GPUs of which nodes are free, as arrays, and the two ways in which that changes.

Nodes are rows in the order of their names, so that the lowest row is the first name.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit

__all__ = [
    "HELD_WHOLE",
    "WHOLE",
    "Demand",
    "NodeOccupancy",
    "fraction_on",
    "give",
    "holders",
    "locality",
    "sliced",
    "take",
]

WHOLE = 1000  # thousandths of a GPU that nobody uses
HELD_WHOLE = -1  # a GPU that one job holds alone: unlike 0, no fraction will be given back to it

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


NOT_COUNTED = np.zeros((0, 0), np.int64)


class NodeOccupancy(NamedTuple):
    """What is free on each node. `take` and `give` change it; everything else only reads it."""

    free: Ints  # wholly free GPUs
    gpus: Ints  # the node's size
    milli: Ints  # (node, GPU): free thousandths, HELD_WHOLE, 0 beyond the size; may have no columns
    cpus_free: Floats  # inf: not limited
    memory_free: Floats  # inf: not limited
    type: Ints
    rack: Ints
    switch: Ints
    cluster: Ints
    up: NDArray[np.bool_]
    mig: Ints  # slices per GPU; 0: not cut
    sizes: Ints = (
        NOT_COUNTED  # (node, size): jobs there, by GPUs; 0 are fractions; may have no columns
    )


class Demand(NamedTuple):
    """What one job asks for, all nodes together: whole GPUs, or a fraction of one, or neither."""

    gpus: int
    milli: int  # of one GPU, when gpus is 0
    cpus: float
    memory: float
    type_mask: int  # bit i: node type i will do; -1: any


@njit
def holders(nodes: NodeOccupancy, want: Demand) -> NDArray[np.bool_]:
    """Which nodes have the whole GPUs, CPUs and memory for the job on their own.

    All nodes at once: handing the state on for every node costs more than the work. Whether one of
    its GPUs holds a fraction is not looked at.
    """
    held = np.zeros(len(nodes.gpus), np.bool_)
    # The slack is for what adding and taking thirds of CPUs a million times leaves over.
    cpus, memory = want.cpus * (1.0 - 1e-9), want.memory * (1.0 - 1e-9)
    for node in range(len(held)):
        held[node] = (
            nodes.up[node]
            and (want.type_mask >> nodes.type[node]) & 1
            and nodes.free[node] >= want.gpus
            and nodes.cpus_free[node] >= cpus
            and nodes.memory_free[node] >= memory
        )
    return held


@njit
def fraction_on(nodes: NodeOccupancy, want: Demand, node: int) -> int:
    """Thousandths that the wanted fraction takes here: a GPU cut by MIG gives whole slices only.

    Profiles have 1, 2, 3, 4 or all of 7 slices (1, 2 or all of 4).
    """
    return sliced(want.milli, nodes.mig[node])


@njit
def sliced(milli: int, slices: int) -> int:
    """Round a fraction up to the next profile of a GPU cut into so many slices (0: not cut)."""
    if slices == 0 or milli == 0:
        return milli
    count = 1
    # A seventh is 142.86 thousandths: who asks for 143 gets one slice.
    while (count * WHOLE + slices - 1) // slices < milli:
        count += 1
    if count > slices // 2 + 1 or (count == slices // 2 + 1 and slices != 7):
        return WHOLE
    return count * WHOLE // slices


@njit
def take(nodes: NodeOccupancy, want: Demand, out_node: Ints, out_gpus: Ints, n: int) -> None:
    """Hold what `place` chose. Whole GPUs are the wholly free ones of lowest index."""
    for i in range(n):
        node, gpus = out_node[i], out_gpus[i]
        part = 1.0
        if gpus < 0:
            gpu = -gpus - 1
            if nodes.milli[node, gpu] == WHOLE:
                nodes.free[node] -= 1
            nodes.milli[node, gpu] -= fraction_on(nodes, want, node)
        elif gpus > 0:
            part = gpus / want.gpus
            nodes.free[node] -= gpus
            _mark(nodes.milli, node, WHOLE, HELD_WHOLE, gpus)
        nodes.cpus_free[node] -= want.cpus * part
        nodes.memory_free[node] -= want.memory * part
        _count(nodes.sizes, want, node, 1)


@njit
def give(nodes: NodeOccupancy, want: Demand, out_node: Ints, out_gpus: Ints, n: int) -> None:
    """Give back what `take` held. Which of a node's GPUs held whole are freed is all the same."""
    for i in range(n):
        node, gpus = out_node[i], out_gpus[i]
        part = 1.0
        if gpus < 0:
            gpu = -gpus - 1
            nodes.milli[node, gpu] += fraction_on(nodes, want, node)
            if nodes.milli[node, gpu] == WHOLE:
                nodes.free[node] += 1
        elif gpus > 0:
            part = gpus / want.gpus
            nodes.free[node] += gpus
            _mark(nodes.milli, node, HELD_WHOLE, WHOLE, gpus)
        nodes.cpus_free[node] += want.cpus * part
        nodes.memory_free[node] += want.memory * part
        _count(nodes.sizes, want, node, -1)


@njit
def _mark(milli: Ints, node: int, old: int, new: int, count: int) -> None:
    """Turn the first `count` GPUs of a node from one state into another."""
    for gpu in range(milli.shape[1]):
        if count == 0:
            return
        if milli[node, gpu] == old:
            milli[node, gpu] = new
            count -= 1


@njit
def _count(sizes: Ints, want: Demand, node: int, change: int) -> None:
    """Keep the number of jobs of each size on the node; the last column has all larger ones."""
    if sizes.shape[1] > 0 and want.gpus + want.milli > 0:
        sizes[node, min(want.gpus, sizes.shape[1] - 1)] += change


@njit
def locality(nodes: NodeOccupancy, out_node: Ints, n: int) -> int:
    """How far apart the first `n` nodes are: 0 one node, 1 one rack, 2 one switch, 3 beyond."""
    widest = 0
    for i in range(1, n):
        first, other = out_node[0], out_node[i]
        if first == other:
            continue
        if nodes.cluster[first] != nodes.cluster[other] or (
            nodes.switch[first] != nodes.switch[other]
        ):
            return 3
        widest = max(widest, 1 if nodes.rack[first] == nodes.rack[other] else 2)
    return widest
