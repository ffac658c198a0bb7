"""Topologies as they are built: fat tree, leaf-spine, rail-optimised, dragonfly, NVLink islands.

Names say where a vertex is: `n12` is a node, `leaf3`, `spine0`, `core1` are switches.
"""

from __future__ import annotations

import itertools

from steward.errors import StewardError
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.topology import ETHERNET, INFINIBAND, NODE, SWITCH, FabricTopology

__all__ = [
    "GBIT",
    "SHAPES",
    "dragonfly",
    "fat_tree",
    "leaf_spine",
    "nvlink_islands",
    "rail_optimised",
]

GBIT = 1e9 / 8  # bytes a second
HOP_S = 5e-7  # of a switch and its cable
NVLINK_BYTES_PER_S = 450e9  # of one GPU of the Hopper generation, in one direction
SHAPES = ("fat-tree", "leaf-spine", "rail-optimised", "dragonfly", "nvlink-islands")


def fat_tree(k: int = 4, *, bytes_per_s: float = 100 * GBIT) -> FabricTopology:
    """Return the three-tier fat tree of switches with k ports: k^3/4 nodes."""
    _require(k >= 2 and k % 2 == 0, f"a fat tree has an even number of ports, not {k}")
    half = k // 2
    wire = _Wire("fat-tree", bytes_per_s)
    for pod, edge in itertools.product(range(k), range(half)):
        leaf = wire.switch(f"leaf{pod * half + edge}", 1)
        for port in range(half):
            wire.node(f"n{(pod * half + edge) * half + port}", leaf)
        for upper in range(half):
            wire.up(leaf, wire.switch(f"spine{pod * half + upper}", 2))
    for pod, upper, core in itertools.product(range(k), range(half), range(half)):
        spine = f"spine{pod * half + upper}"
        wire.up(spine, wire.switch(f"core{upper * half + core}", 3))
    return wire.builder.build()


def leaf_spine(  # noqa: PLR0913 - the measures of a fabric
    *,
    leaves: int = 8,
    nodes_per_leaf: int = 8,
    spines: int = 4,
    nics: int = 1,
    oversubscription: float = 1.0,
    bytes_per_s: float = 100 * GBIT,
    domain_nodes: int = 0,
) -> FabricTopology:
    """Return leaves under spines; a leaf's uplinks carry `1/oversubscription` of its downlinks.

    All NICs of a node are at one leaf. With `domain_nodes`, so many neighbours share NVLink.
    """
    _require(min(leaves, nodes_per_leaf, spines, nics) >= 1, "a fabric has at least one of each")
    _require(oversubscription > 0, f"oversubscription is above 0, not {oversubscription}")
    wire = _Wire("leaf-spine", bytes_per_s)
    uplink = bytes_per_s * nics * nodes_per_leaf / (spines * oversubscription)
    for at in range(leaves):
        leaf = wire.switch(f"leaf{at}", 1)
        for port in range(nodes_per_leaf):
            wire.node(f"n{at * nodes_per_leaf + port}", leaf, nics=nics, domain_nodes=domain_nodes)
        for spine in range(spines):
            wire.up(leaf, wire.switch(f"spine{spine}", 2), uplink)
    return wire.finished()


def rail_optimised(  # noqa: PLR0913 - the measures of a fabric
    *,
    pods: int = 2,
    nodes_per_pod: int = 16,
    rails: int = 8,
    spines: int = 4,
    oversubscription: float = 1.0,
    bytes_per_s: float = 400 * GBIT,
    domain_nodes: int = 0,
) -> FabricTopology:
    """Return pods in which NIC r of every node is wired to rail switch r, under common spines."""
    _require(min(pods, nodes_per_pod, rails, spines) >= 1, "a fabric has at least one of each")
    _require(oversubscription > 0, f"oversubscription is above 0, not {oversubscription}")
    wire = _Wire("rail-optimised", bytes_per_s, kind=INFINIBAND)
    uplink = bytes_per_s * nodes_per_pod / (spines * oversubscription)
    for pod, rail in itertools.product(range(pods), range(rails)):
        leaf = wire.switch(f"pod{pod}-rail{rail}", 1)
        for port in range(nodes_per_pod):
            number = pod * nodes_per_pod + port
            wire.node(f"n{number}", leaf, rail=rail, domain_nodes=domain_nodes)
        for spine in range(spines):
            wire.up(leaf, wire.switch(f"spine{spine}", 2), uplink, rail=rail)
    return wire.finished()


def dragonfly(
    *,
    groups: int = 5,
    routers: int = 4,
    nodes_per_router: int = 2,
    bytes_per_s: float = 100 * GBIT,
    global_bytes_per_s: float | None = None,
) -> FabricTopology:
    """Return groups of routers wired all to all, and one cable between each two groups.

    The cables between groups are dealt to routers in turn, as their ports come.
    """
    _require(min(groups, routers, nodes_per_router) >= 1, "a fabric has at least one of each")
    wire = _Wire("dragonfly", bytes_per_s)
    for group, router in itertools.product(range(groups), range(routers)):
        name = wire.switch(f"g{group}r{router}", 1)
        for port in range(nodes_per_router):
            wire.node(f"n{(group * routers + router) * nodes_per_router + port}", name)
    for group in range(groups):
        for a, b in itertools.combinations(range(routers), 2):
            wire.up(f"g{group}r{a}", f"g{group}r{b}")
    used = [0] * groups
    for a, b in itertools.combinations(range(groups), 2):
        ends = [f"g{group}r{used[group] % routers}" for group in (a, b)]
        used[a] += 1
        used[b] += 1
        wire.up(ends[0], ends[1], global_bytes_per_s)
    return wire.builder.build()


def nvlink_islands(
    *,
    islands: int = 4,
    nodes_per_island: int = 18,
    spines: int = 4,
    nics: int = 4,
    oversubscription: float = 2.0,
    bytes_per_s: float = 400 * GBIT,
) -> FabricTopology:
    """Return racks that are one NVLink domain each (as NVL72: 18 nodes), under common spines."""
    return leaf_spine(
        leaves=islands,
        nodes_per_leaf=nodes_per_island,
        spines=spines,
        nics=nics,
        oversubscription=oversubscription,
        bytes_per_s=bytes_per_s,
        domain_nodes=nodes_per_island,
    )


class _Wire:
    """A builder that names, kinds and speeds are said to once."""

    def __init__(self, origin: str, bytes_per_s: float, *, kind: int = ETHERNET) -> None:
        self.builder = TopologyBuilder(origin)
        self._bytes_per_s = bytes_per_s
        self._kind = kind

    def switch(self, name: str, tier: int) -> str:
        self.builder.vertex(name, SWITCH, tier=tier)
        return name

    def node(
        self, name: str, leaf: str, *, nics: int = 1, rail: int = -1, domain_nodes: int = 0
    ) -> None:
        island = f"island{int(name[1:]) // domain_nodes}" if domain_nodes else ""
        self.builder.vertex(name, NODE, tier=0, domain=island)
        for nic in range(nics):
            self.builder.cable(
                name,
                leaf,
                kind=self._kind,
                bytes_per_s=self._bytes_per_s,
                delay_s=HOP_S,
                rail=nic if nics > 1 else rail,
            )

    def up(self, a: str, b: str, bytes_per_s: float | None = None, *, rail: int = -1) -> None:
        speed = self._bytes_per_s if bytes_per_s is None else bytes_per_s
        self.builder.cable(a, b, kind=self._kind, bytes_per_s=speed, delay_s=HOP_S, rail=rail)

    def finished(self) -> FabricTopology:
        self.builder.wire_domains(NVLINK_BYTES_PER_S)
        return self.builder.build()


def _require(holds: bool, problem: str) -> None:  # noqa: FBT001 - a condition
    if not holds:
        raise StewardError(problem)
