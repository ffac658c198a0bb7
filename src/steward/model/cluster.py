"""What a site has: nodes, GPUs, the links between them, and the switches above them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from steward.errors import StewardError
from steward.model.identity import GpuId, NodeId

__all__ = ["GIB", "Cluster", "Gpu", "GpuModel", "Health", "Link", "LinkKind", "Node", "Switch"]

GIB = 2**30


class Health(Enum):
    """Not knowing is a state of its own: a silent sensor is never a healthy one."""

    GOOD = "good"
    WORN = "worn"
    BAD = "bad"
    UNKNOWN = "unknown"


class LinkKind(Enum):
    """How two things are joined, fastest first."""

    NVLINK = "nvlink"
    PCIE = "pcie"
    INFINIBAND = "infiniband"
    ETHERNET = "ethernet"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """A kind of GPU: what all devices of that name have in common."""

    name: str
    generation: str
    memory_bytes: int
    idle_watts: float
    max_watts: float
    least_watts: float = 0.0  # lowest power limit that it accepts; 0 is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device. Its id is `NODE/gpuINDEX`; devices of one NVLink domain reach each other fast."""

    id: GpuId
    node: NodeId
    index: int
    model: GpuModel
    nvlink_domain: str = ""
    uuid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One host with its GPUs, below one switch."""

    id: NodeId
    gpus: tuple[Gpu, ...] = ()
    cpus: int = 0
    memory_bytes: int = 0
    switch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A connection between two GPUs, nodes or switches, named by their ids."""

    a: str
    b: str
    kind: LinkKind
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch; `tier` 0 is nearest to the nodes, `parent` is the switch above, if any."""

    id: str
    tier: int = 0
    parent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A site's hardware at one time."""

    id: str
    nodes: tuple[Node, ...] = ()
    links: tuple[Link, ...] = ()
    switches: tuple[Switch, ...] = ()
    gpus: tuple[Gpu, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gpus", tuple(gpu for node in self.nodes for gpu in node.gpus))
        faults = [*self._repeated(), *self._dangling()]
        if faults:
            raise StewardError(
                "; ".join(faults),
                where=f"cluster {self.id}",
                hint="each id is used once, and links and parents name things that exist",
            )

    def _ids(self) -> list[str]:
        ids: list[str] = [node.id for node in self.nodes]
        ids += [gpu.id for gpu in self.gpus]
        return ids + [switch.id for switch in self.switches]

    def _repeated(self) -> list[str]:
        return [f"'{id_}' is there {n} times" for id_, n in Counter(self._ids()).items() if n > 1]

    def _dangling(self) -> list[str]:
        known = set(self._ids())
        named = [
            (f"link {link.a}-{link.b}", end) for link in self.links for end in (link.a, link.b)
        ]
        named += [(f"node {node.id}", node.switch) for node in self.nodes]
        named += [(f"switch {switch.id}", switch.parent) for switch in self.switches]
        return [
            f"{who} names '{what}', which is not there"
            for who, what in named
            if what and what not in known
        ]
