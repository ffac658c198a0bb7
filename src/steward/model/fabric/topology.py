"""What is wired to what: endpoints, switches, and the links between them, as columns.

Every cable is two links, one for each direction. What is not known is said so: a capacity of NaN, a
far end of kind `UNKNOWN`, `ends_seen` of 1 where only one side has told of a cable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError

__all__ = [
    "ENDPOINTS",
    "ETHERNET",
    "GPU",
    "INFINIBAND",
    "LINK_KINDS",
    "NIC",
    "NODE",
    "NVLINK",
    "NVSWITCH",
    "PCIE",
    "SWITCH",
    "UNKNOWN",
    "UNKNOWN_LINK",
    "VERTEX_KINDS",
    "FabricTopology",
    "LinkTable",
    "VertexTable",
    "grouped",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Codes of VertexTable.kind; nodes and GPUs begin and end flows, and forward none.
NODE, SWITCH, NVSWITCH, GPU, NIC, UNKNOWN = range(6)
VERTEX_KINDS = ("node", "switch", "nvswitch", "gpu", "nic", "unknown")
ENDPOINTS = (NODE, GPU)
# Codes of LinkTable.kind.
ETHERNET, INFINIBAND, NVLINK, PCIE, UNKNOWN_LINK = range(5)
LINK_KINDS = ("ethernet", "infiniband", "nvlink", "pcie", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VertexTable:
    """One row per node, switch, or (inside a node) GPU and NIC."""

    names: tuple[str, ...]
    kind: Ints
    tier: Ints  # 0 for endpoints, 1 for what they are wired to, and so on; -1 is unknown
    domain: Ints  # position in FabricTopology.domains, -1 for none or unknown

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkTable:
    """One row per direction of a cable. Rows 2i and 2i+1 are the two directions of one cable."""

    source: Ints  # rows of the vertex table
    target: Ints
    kind: Ints
    bytes_per_s: Floats  # capacity; NaN is unknown
    delay_s: Floats  # of a hop without a queue; NaN is unknown
    rail: Ints  # which of a node's NICs this belongs to, -1 for none or unknown
    ends_seen: Ints  # how many of its two ends have told of it
    up: Bools

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, kw_only=True, eq=False)
class FabricTopology:
    """A fabric as far as it is known.

    `names_of_links` are by position `SOURCE>TARGET`, with `#2` and so on for parallel cables.
    """

    vertices: VertexTable
    links: LinkTable
    domains: tuple[str, ...] = ()  # NVLink domains: groups of endpoints wired by NVLink
    origin: str = ""  # where it was read, or what made it
    unplaced: tuple[str, ...] = ()  # nodes that no switch names

    @cached_property
    def row(self) -> Mapping[str, int]:
        """Vertices by name."""
        return MappingProxyType({name: at for at, name in enumerate(self.vertices.names)})

    @cached_property
    def endpoints(self) -> Ints:
        """Rows of vertices that begin and end flows."""
        return np.flatnonzero(np.isin(self.vertices.kind, ENDPOINTS))

    @cached_property
    def forwards(self) -> Bools:
        """Whether a vertex passes on what is not for it."""
        return ~np.isin(self.vertices.kind, ENDPOINTS)

    @cached_property
    def out_links(self) -> tuple[Ints, Ints]:
        """Links by where they begin: those of vertex v are `rows[begin[v]:begin[v + 1]]`."""
        return grouped(self.links.source, len(self.vertices))

    @cached_property
    def in_links(self) -> tuple[Ints, Ints]:
        """Links by where they end, in the same form."""
        return grouped(self.links.target, len(self.vertices))

    @cached_property
    def names_of_links(self) -> tuple[str, ...]:
        """A name for each link, unique in this topology."""
        seen: dict[str, int] = {}
        names = []
        for source, target in zip(self.links.source, self.links.target, strict=True):
            name = f"{self.vertices.names[source]}>{self.vertices.names[target]}"
            seen[name] = seen.get(name, 0) + 1
            names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
        return tuple(names)

    @cached_property
    def link_row(self) -> Mapping[str, int]:
        """Links by name."""
        return MappingProxyType({name: at for at, name in enumerate(self.names_of_links)})

    def rows(self, names: Iterable[str]) -> Ints:
        """Return the rows of vertices; raise where there is none of a name."""
        try:
            return np.fromiter((self.row[name] for name in names), np.int64)
        except KeyError as error:
            raise StewardError(
                f"'{error.args[0]}' is not in this topology", where=self.origin
            ) from None

    def members(self, domain: int) -> tuple[str, ...]:
        """Return the endpoints of an NVLink domain."""
        inside = (self.vertices.domain == domain) & ~self.forwards
        return tuple(self.vertices.names[at] for at in np.flatnonzero(inside))

    def with_capacity(self, bytes_per_s: float) -> FabricTopology:
        """Return the same with this capacity for links of which none is known."""
        known = self.links.bytes_per_s
        return self._with_links(bytes_per_s=np.where(np.isnan(known), bytes_per_s, known))

    def with_capacities(self, bytes_per_s: Floats) -> FabricTopology:
        """Return the same with measured capacities; NaN keeps what was there."""
        old = self.links.bytes_per_s
        return self._with_links(bytes_per_s=np.where(np.isnan(bytes_per_s), old, bytes_per_s))

    def without(self, cables: Iterable[int]) -> FabricTopology:
        """Return the same with cables down: both directions of each of these links."""
        up = self.links.up.copy()
        for link in cables:
            up[link] = up[link ^ 1] = False
        return self._with_links(up=up)

    def _with_links(self, **columns: NDArray[np.generic]) -> FabricTopology:
        return replace(self, links=replace(self.links, **columns))  # type: ignore[arg-type]


def grouped(keys: Ints, count: int, keep: Bools | None = None) -> tuple[Ints, Ints]:
    """Return rows by their key: those of key k are `rows[begin[k]:begin[k + 1]]`."""
    rows = np.argsort(keys, kind="stable").astype(np.int64)
    if keep is not None:
        rows = rows[keep[rows]]
    begin = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys[rows], minlength=count), out=begin[1:])
    return begin, rows
