"""Which links a flow crosses: equal-cost shortest paths, chosen by a hash as switches do.

Endpoints forward nothing. Two members of an NVLink domain use NVLink. A flow with a rail leaves its
node by the NIC of that rail, where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steward.compiled import njit
from steward.model.fabric.topology import NVLINK, FabricTopology, grouped

__all__ = ["FAR", "LONGEST", "Leaving", "Paths", "Routes", "Ways", "exits", "leaving", "mixed"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FAR = np.iinfo(np.int16).max  # hops to what cannot be reached
LONGEST = 32  # links of a path; more than any fabric has


class Ways(NamedTuple):
    """What compiled code needs of a topology to go from link to link."""

    hops: NDArray[np.int16]
    column: Ints
    begin: Ints  # of `rows`, by vertex
    rows: Ints  # links that are up, by where they begin
    target: Ints
    kind: Ints
    rail: Ints
    domain: Ints


class Flows(NamedTuple):
    """Where flows begin and end, by which rail they leave, and what their headers hash to."""

    source: Ints
    target: Ints
    hash: Ints
    rail: Ints


class Leaving(NamedTuple):
    """How a flow leaves its endpoint, and where it goes."""

    column: int  # of its end
    inside: bool  # by NVLink
    rail: int  # -1: by any NIC


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paths:
    """Links of several flows, in order: those of flow i are `links[begin[i]:begin[i + 1]]`."""

    begin: Ints
    links: Ints
    known: NDArray[np.bool_]  # False where there is no path; a flow to itself has one of no links

    def of(self, flow: int) -> Ints:
        """Return the links of one flow, in order."""
        return self.links[self.begin[flow] : self.begin[flow + 1]]

    def __len__(self) -> int:
        return len(self.known)


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Distances to every endpoint, from which each path follows. Costs vertices x endpoints."""

    topology: FabricTopology
    hops: NDArray[np.int16]  # [position among the endpoints, vertex]
    column: Ints  # position among the endpoints, by vertex; -1 for others

    @classmethod
    def of(cls, topology: FabricTopology) -> Routes:
        """Work out the routes of a topology, over the links that are up."""
        endpoints = topology.endpoints
        column = np.full(len(topology.vertices), -1, np.int64)
        column[endpoints] = np.arange(len(endpoints))
        begin, rows = topology.in_links
        hops = np.full((len(endpoints), len(topology.vertices)), FAR, np.int16)
        _fill_hops(
            hops,
            endpoints,
            begin,
            rows,
            topology.links.source,
            topology.links.up,
            topology.forwards,
        )
        return cls(topology, hops, column)

    @property
    def ways(self) -> Ways:
        """Return the columns that compiled code goes by."""
        topology = self.topology
        links = topology.links
        begin, rows = grouped(links.source, len(topology.vertices), links.up)
        return Ways(
            self.hops,
            self.column,
            begin,
            rows,
            links.target,
            links.kind,
            links.rail,
            topology.vertices.domain,
        )

    def paths(
        self, sources: ArrayLike, targets: ArrayLike, *, hashes: ArrayLike, rails: ArrayLike = -1
    ) -> Paths:
        """Return one path per flow; the same hash takes the same way wherever ways are equal."""
        source, target, hash_, rail = _columns(sources, targets, hashes, rails)
        links = np.empty(len(source) * LONGEST, np.int64)
        ends = np.zeros(len(source) + 1, np.int64)
        known = np.zeros(len(source), np.bool_)
        flows = Flows(source, target, hash_, rail)
        used = _walk(self.ways, flows, links, ends, known)
        return Paths(begin=ends, links=links[:used].copy(), known=known)

    def expected_use(
        self,
        sources: ArrayLike,
        targets: ArrayLike,
        *,
        weights: ArrayLike = 1.0,
        rails: ArrayLike = -1,
    ) -> Floats:
        """Return how much of all flows crosses each link if every equal way is as likely."""
        source, target, _, rail = _columns(sources, targets, 0, rails)
        weight = np.ascontiguousarray(
            np.broadcast_to(np.asarray(weights, np.float64), source.shape)
        )
        use = np.zeros(len(self.topology.links))
        mass = np.zeros(len(self.topology.vertices))
        _spread(self.ways, Flows(source, target, source, rail), weight, mass, use)
        return use


def _columns(
    sources: ArrayLike, targets: ArrayLike, hashes: ArrayLike, rails: ArrayLike
) -> tuple[Ints, Ints, Ints, Ints]:
    source, target, hash_, rail = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(each, np.int64)) for each in (sources, targets, hashes, rails))
    )
    a, b, c, d = (np.ascontiguousarray(each) for each in (source, target, hash_, rail))
    return a, b, c, d


@njit
def mixed(hash_: int, salt: int) -> int:
    """Return 62 well mixed bits of two numbers, as a switch hashes the header of a packet."""
    value = np.uint64(hash_) * np.uint64(0x9E3779B97F4A7C15)
    value += np.uint64(salt + 1) * np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    value ^= value >> np.uint64(31)
    return np.int64(value >> np.uint64(2))  # type: ignore[return-value]  # compiled: an integer


@njit
def _fill_hops(  # noqa: PLR0913, PLR0917 - compiled code has no keyword arguments
    hops: NDArray[np.int16],
    endpoints: Ints,
    begin: Ints,
    rows: Ints,
    source: Ints,
    usable: NDArray[np.bool_],
    forwards: NDArray[np.bool_],
) -> None:
    """Fill `hops` with the links from each vertex to each endpoint, breadth first."""
    queue = np.empty(hops.shape[1], np.int64)
    for column in range(len(endpoints)):
        end = endpoints[column]
        hops[column, end] = 0
        queue[0] = end
        first, last = 0, 1
        while first < last:
            vertex = queue[first]
            first += 1
            if vertex != end and not forwards[vertex]:
                continue
            for at in range(begin[vertex], begin[vertex + 1]):
                link = rows[at]
                near = source[link]
                if usable[link] and hops[column, near] == FAR:
                    hops[column, near] = hops[column, vertex] + 1
                    queue[last] = near
                    last += 1


@njit
def leaving(ways: Ways, vertex: int, end: int, rail: int) -> Leaving:
    """Return how a flow leaves: over NVLink or not, and by which rail, if there is one."""
    column = ways.column[end]
    same = ways.domain[vertex] >= 0 and ways.domain[vertex] == ways.domain[end]
    has_nvlink = has_rail = False
    for at in range(ways.begin[vertex], ways.begin[vertex + 1]):
        link = ways.rows[at]
        if ways.hops[column, ways.target[link]] < FAR:
            has_nvlink = has_nvlink or ways.kind[link] == NVLINK
            has_rail = has_rail or (rail >= 0 and ways.rail[link] == rail)
    inside = same and has_nvlink
    return Leaving(column, inside, rail if has_rail and not inside else -1)


@njit
def exits(ways: Ways, vertex: int, flow: Leaving, first: bool, found: Ints) -> int:  # noqa: FBT001
    """Write the links to `found` that a flow may take at a vertex; return how many.

    They are those with the fewest hops left; at its first vertex a flow is bound to its NICs.
    """
    hops, target, rows = ways.hops, ways.target, ways.rows
    kind, rail_of = ways.kind, ways.rail
    column, inside, rail = flow.column, flow.inside, flow.rail
    best, count = FAR, 0
    for at in range(ways.begin[vertex], ways.begin[vertex + 1]):
        link = rows[at]
        left = hops[column, target[link]]
        if left > best or left == FAR:
            continue
        if first:
            if inside != (kind[link] == NVLINK):
                continue
            if rail >= 0 and rail_of[link] != rail:
                continue
        if left < best:
            best, count = left, 0
        found[count] = link
        count += 1
    return count


@njit
def _walk(ways: Ways, flows: Flows, links: Ints, ends: Ints, known: NDArray[np.bool_]) -> int:
    """Write the links of each flow to `links`, where they end to `ends`; return how many."""
    used = 0
    found = np.empty(len(ways.target), np.int64)
    for row in range(len(flows.source)):
        vertex, end = flows.source[row], flows.target[row]
        begun = used
        if vertex != end and ways.column[end] >= 0:
            flow = leaving(ways, vertex, end, flows.rail[row])
            while vertex != end and used - begun < LONGEST:
                count = exits(ways, vertex, flow, used == begun, found)
                if count == 0:
                    break
                links[used] = found[mixed(flows.hash[row], vertex) % count]
                vertex = ways.target[links[used]]
                used += 1
        known[row] = vertex == end
        if vertex != end:
            used = begun
        ends[row + 1] = used
    return used


@njit
def _spread(ways: Ways, flows: Flows, weight: Floats, mass: Floats, use: Floats) -> None:
    """Add to `use` the weight of each flow, split evenly wherever ways are equal.

    Vertices are met in order of their distance, so all that reaches one is there when it is.
    """
    waiting = np.empty(len(mass), np.int64)
    found = np.empty(len(ways.target), np.int64)
    for row in range(len(flows.source)):
        begun, end = flows.source[row], flows.target[row]
        if begun == end or ways.column[end] < 0:
            continue
        flow = leaving(ways, begun, end, flows.rail[row])
        waiting[0] = begun
        mass[begun] = weight[row]
        first, last = 0, 1
        while first < last:
            vertex = waiting[first]
            here = mass[vertex]
            mass[vertex] = 0.0
            first += 1
            if vertex == end:
                continue
            count = exits(ways, vertex, flow, vertex == begun, found)
            for at in range(count):
                link = found[at]
                after = ways.target[link]
                use[link] += here / count
                if mass[after] == 0.0:
                    waiting[last] = after
                    last += 1
                mass[after] += here / count
