"""The nodes of a topology as placement sees them: which are close to one another."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.fabric.routes import Routes
from steward.model.fabric.topology import NODE, NVLINK, FabricTopology

__all__ = ["NodeMap", "node_map"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeMap:
    """One position per node. Leaves, pods and NVLink domains are numbers from 0; -1 is none.

    `crossings` remembers the links of rings that were asked for, as routes do not change.
    """

    topology: FabricTopology
    routes: Routes
    rows: Ints  # of the nodes in the topology
    gpus: Ints
    leaf: Ints  # nodes wired to the same first switches
    pod: Ints  # nodes under the same second switches
    domain: Ints
    nics: int
    nic_bytes_per_s: float
    capacity: Floats  # of each link of the topology
    crossings: dict[tuple[object, ...], tuple[Ints, Floats]] = field(
        default_factory=dict, repr=False
    )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return tuple(self.topology.vertices.names[row] for row in self.rows)

    def link_name(self, link: int) -> str:
        """Return what people call a link.

        >>> from steward.model.fabric.shapes import leaf_spine
        >>> place = node_map(leaf_spine(leaves=2, nodes_per_leaf=1, spines=1), gpus_per_node=8)
        >>> [place.link_name(link) for link in range(2)]
        ['n0 → leaf0', 'leaf0 → n0']
        """
        links, names = self.topology.links, self.topology.vertices.names
        return f"{names[links.source[link]]} → {names[links.target[link]]}"


def node_map(
    topology: FabricTopology, *, gpus_per_node: int = 8, routes: Routes | None = None
) -> NodeMap:
    """Return the nodes of a topology that some switch names, each with as many GPUs.

    A capacity that nobody knows cannot be shared out: give one (`with_capacity`) before.
    """
    rows = np.flatnonzero(topology.vertices.kind == NODE)
    begin, _ = topology.out_links
    rows = rows[begin[rows + 1] > begin[rows]]
    if not len(rows):
        raise StewardError(
            "no switch names a node", where=topology.origin, hint="give a topology with nodes"
        )
    links = topology.links
    unknown = int((np.isnan(links.bytes_per_s) & (links.kind != NVLINK)).sum())
    if unknown:
        raise StewardError(
            f"the capacity of {unknown} links is unknown",
            where=topology.origin,
            hint="name a capacity for links of which none is known",
        )
    near = [_switches(topology, (int(row),)) for row in rows]
    above = [
        tuple(s for s in _switches(topology, each) if _rises(topology, each, s)) for each in near
    ]
    network = links.kind != NVLINK
    nics = [int((network & (links.source == row)).sum()) for row in rows]
    own = network & np.isin(links.source, rows)
    return NodeMap(
        topology=topology,
        routes=routes or Routes.of(topology),
        rows=rows,
        gpus=np.full(len(rows), gpus_per_node),
        leaf=_numbered(near),
        pod=_numbered(above),
        domain=topology.vertices.domain[rows],
        nics=max(1, min(nics)),
        nic_bytes_per_s=float(np.min(links.bytes_per_s[own])) if own.any() else 1.0,
        capacity=np.where(np.isnan(links.bytes_per_s), np.inf, links.bytes_per_s),
    )


def _switches(topology: FabricTopology, of: tuple[int, ...]) -> tuple[int, ...]:
    """Return the switches, other than NVLink's, that these vertices are wired to."""
    begin, order = topology.out_links
    found: set[int] = set()
    for vertex in of:
        for link in order[begin[vertex] : begin[vertex + 1]]:
            if topology.links.kind[link] != NVLINK:
                found.add(int(topology.links.target[link]))
    return tuple(sorted(each for each in found if topology.forwards[each]))


def _rises(topology: FabricTopology, below: tuple[int, ...], switch: int) -> bool:
    """Return whether a switch is above these."""
    tier = topology.vertices.tier
    return bool(tier[switch] > max(int(tier[each]) for each in below))


def _numbered(keys: list[tuple[int, ...]]) -> Ints:
    """Return numbers by first appearance."""
    numbers: dict[tuple[int, ...], int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
