"""Where the parts of a gang go: counted only, packed, spread, or close together in the network.

Every kernel writes nodes and GPUs per node and returns how many nodes it used; 0 means that the
gang does not fit. A gang never spans two clusters.
"""

from __future__ import annotations

import numpy as np

from steward.compiled import njit
from steward.decide.placement.state import Demand, Ints, NodeOccupancy

__all__ = [
    "count_only",
    "in_smallest_domain",
    "most_free_first",
    "packed",
    "rooms_of",
    "widest_node",
]

_NONE = -1


@njit
def rooms_of(nodes: NodeOccupancy, want: Demand) -> Ints:
    """How many GPUs of the gang each node could give, each with its part of CPU and memory.

    All nodes at once: handing the state on for every node costs more than the work.
    """
    rooms = np.zeros(len(nodes.gpus), np.int64)
    for node in range(len(rooms)):
        gpus = nodes.free[node]
        if gpus > 0 and nodes.up[node] and (want.type_mask >> nodes.type[node]) & 1:
            if want.cpus > nodes.cpus_free[node]:
                gpus = min(gpus, _part(want.gpus, nodes.cpus_free[node], want.cpus))
            if want.memory > nodes.memory_free[node]:
                gpus = min(gpus, _part(want.gpus, nodes.memory_free[node], want.memory))
            rooms[node] = gpus
    return rooms


@njit
def _part(gpus: int, free: float, wanted: float) -> int:
    """How many of the GPUs what is free serves; the slack is for what adding thirds leaves over."""
    return max(0, int(free * gpus / wanted * (1.0 + 1e-9)))


@njit
def widest_node(nodes: NodeOccupancy, want: Demand) -> int:
    """GPUs of the largest node that would do: a wider gang must be split."""
    widest = 0
    for node in range(len(nodes.gpus)):
        will_do = nodes.up[node] and (want.type_mask >> nodes.type[node]) & 1
        if nodes.gpus[node] > widest and will_do:
            widest = nodes.gpus[node]
    return widest


@njit
def count_only(nodes: NodeOccupancy, want: Demand, out_node: Ints, out_gpus: Ints) -> int:
    """Take free GPUs wherever they are, lowest node first."""
    rooms = rooms_of(nodes, want)
    for cluster in range(_clusters(nodes)):
        used, missing = 0, want.gpus
        for node in range(len(rooms)):
            if rooms[node] == 0 or nodes.cluster[node] != cluster:
                continue
            part = min(rooms[node], missing)
            out_node[used], out_gpus[used] = node, part
            used += 1
            missing -= part
            if missing == 0:
                return used
    return 0


@njit
def _clusters(nodes: NodeOccupancy) -> int:
    return _codes(nodes.cluster)


@njit
def _codes(of: Ints) -> int:
    """How many codes there are. Loops in this file stand where numpy would take long to compile."""
    most = -1
    for code in of:
        most = max(most, code)
    return most + 1


@njit
def packed(nodes: NodeOccupancy, want: Demand, out_node: Ints, out_gpus: Ints) -> int:
    """Use as few nodes as a gang needs, and of those the ones that it fills best.

    A gang that one node could hold goes to one node; a wider one to wholly free nodes, largest
    first, and what is left of it to the node with the fewest free GPUs that holds it.
    """
    rooms = rooms_of(nodes, want)
    if want.gpus <= widest_node(nodes, want):
        node = _tightest(nodes.free, rooms, want.gpus)
        if node == _NONE:
            return 0
        out_node[0], out_gpus[0] = node, want.gpus
        return 1
    for cluster in range(_clusters(nodes)):
        here = _only(rooms, nodes.cluster, cluster)
        used = _packed_in(nodes.free, nodes.gpus, here, want.gpus, out_node, out_gpus)
        if used > 0:
            return used
    return 0


@njit
def _packed_in(
    free: Ints, sizes: Ints, rooms: Ints, gpus: int, out_node: Ints, out_gpus: Ints
) -> int:
    """Split a gang over wholly free nodes and one more node for what is left."""
    used, missing = 0, gpus
    while missing > 0:
        node, part = _tightest(free, rooms, missing), missing
        if node == _NONE:
            node = _largest_empty(sizes, rooms, missing)
            if node == _NONE:
                return 0
            part = sizes[node]
        out_node[used], out_gpus[used] = node, part
        used += 1
        missing -= part
        rooms[node] = 0
    return used


@njit
def _tightest(free: Ints, rooms: Ints, gpus: int) -> int:
    """Return the node with the fewest free GPUs that holds so many; ties to the lowest."""
    best = _NONE
    for node in range(len(rooms)):
        if rooms[node] >= gpus and (best == _NONE or free[node] < free[best]):
            best = node
    return best


@njit
def _largest_empty(sizes: Ints, rooms: Ints, gpus: int) -> int:
    """Return the largest wholly free node that the gang fills; ties to the lowest."""
    best = _NONE
    for node in range(len(rooms)):
        if 0 < rooms[node] == sizes[node] <= gpus and (best == _NONE or sizes[node] > sizes[best]):
            best = node
    return best


@njit
def most_free_first(nodes: NodeOccupancy, want: Demand, out_node: Ints, out_gpus: Ints) -> int:
    """Fill the emptiest node first, then the next: load is even, large holes become few."""
    rooms = rooms_of(nodes, want)
    for cluster in range(_clusters(nodes)):
        here = _only(rooms, nodes.cluster, cluster)
        total = 0
        for gpus in here:
            total += gpus
        if total >= want.gpus:
            return _drain_largest(here, want.gpus, out_node, out_gpus)
    return 0


@njit
def _only(rooms: Ints, of: Ints, domain: int) -> Ints:
    """Return the rooms with those outside the domain at 0."""
    here = np.zeros(len(rooms), np.int64)
    for node in range(len(rooms)):
        if of[node] == domain:
            here[node] = rooms[node]
    return here


@njit
def _roomiest(rooms: Ints) -> int:
    best = 0
    for node in range(len(rooms)):
        if rooms[node] > rooms[best]:
            best = node
    return best


@njit
def _drain_largest(rooms: Ints, gpus: int, out_node: Ints, out_gpus: Ints) -> int:
    used, missing = 0, gpus
    while missing > 0:
        node = _roomiest(rooms)
        part = min(rooms[node], missing)
        out_node[used], out_gpus[used] = node, part
        used += 1
        missing -= part
        rooms[node] = 0
    return used


@njit
def in_smallest_domain(nodes: NodeOccupancy, want: Demand, out_node: Ints, out_gpus: Ints) -> int:
    """Stay inside one node, else one rack, else one switch, else one cluster.

    Among the domains of the smallest kind that hold the gang, the one with the least room wins, so
    that roomy ones are kept for wide gangs. Inside it as few nodes as possible are used.
    """
    rooms = rooms_of(nodes, want)
    node = _tightest(rooms, rooms, want.gpus)
    if node != _NONE:
        out_node[0], out_gpus[0] = node, want.gpus
        return 1
    for of in (nodes.rack, nodes.switch, nodes.cluster):
        domain = _tightest_domain(rooms, of, want.gpus)
        if domain != _NONE:
            return _fill_domain(_only(rooms, of, domain), want.gpus, out_node, out_gpus)
    return 0


@njit
def _tightest_domain(rooms: Ints, of: Ints, gpus: int) -> int:
    """Return the domain with the least room that holds so many; ties to the lowest."""
    held = np.zeros(_codes(of), np.int64)
    for node in range(len(of)):
        held[of[node]] += rooms[node]
    best = _NONE
    for domain in range(len(held)):
        if held[domain] >= gpus and (best == _NONE or held[domain] < held[best]):
            best = domain
    return best


@njit
def _fill_domain(rooms: Ints, gpus: int, out_node: Ints, out_gpus: Ints) -> int:
    """Use the roomiest nodes, and for the last part the least roomy one that holds it."""
    used, missing = 0, gpus
    while missing > 0:
        node = _roomiest(rooms)
        if rooms[node] >= missing:
            for other in range(len(rooms)):
                if missing <= rooms[other] < rooms[node]:
                    node = other
        part = min(rooms[node], missing)
        out_node[used], out_gpus[used] = node, part
        used += 1
        missing -= part
        rooms[node] = 0
    return used
