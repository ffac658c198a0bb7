"""The links that a ring of nodes crosses, as NCCL builds it: one flow per channel and neighbour."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from steward.model.fabric.routes import Paths, Routes
from steward.model.fabric.topology import NVLINK, FabricTopology

__all__ = ["ring_links"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def ring_links(routes: Routes, ring: Ints, *, channels: int, salt: int) -> tuple[Ints, Floats]:
    """Return the links that a closed ring over these nodes crosses, and its flows on each.

    Channel `c` uses NIC `c` of both nodes, where there are so many: addresses belong to NICs, so
    the last switch has no choice. NVLink is left out: it is as fast
    as the hosts, and no other job's. `salt` stands for the ports that hashes of switches depend on.
    """
    if len(ring) < 2:
        return np.zeros(0, np.int64), np.zeros(0)
    rails = np.tile(np.arange(channels, dtype=np.int64), len(ring))
    sources = np.repeat(ring, channels)
    targets = np.repeat(np.roll(ring, -1), channels)
    hashes = (sources * 1_000_003 + targets) * 64 + rails + salt * 7_368_787
    paths = routes.paths(sources, targets, hashes=hashes, rails=rails)
    crossed = _by_rail(routes.topology, paths, rails)
    crossed = crossed[routes.topology.links.kind[crossed] != NVLINK]
    links, counts = np.unique(crossed, return_counts=True)
    return links, counts.astype(np.float64)


def _by_rail(topology: FabricTopology, paths: Paths, rails: Ints) -> Ints:
    """Return the links of all paths, the last of each into the NIC of its rail."""
    crossed = paths.links.copy()
    long = np.flatnonzero(np.diff(paths.begin) > 0)
    last = paths.begin[long + 1] - 1
    keys, rows, widest = _parallel(topology)
    links = topology.links
    pair = links.source[crossed[last]] * len(topology.vertices) + links.target[crossed[last]]
    wanted = pair * widest + np.minimum(rails[long], widest - 1)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    there = keys[at] == wanted
    crossed[last[there]] = rows[at[there]]
    return crossed


@lru_cache(maxsize=16)
def _parallel(topology: FabricTopology) -> tuple[Ints, Ints, int]:
    """Return links that have a rail, sorted by their ends and rail."""
    links = topology.links
    rows = np.flatnonzero((links.rail >= 0) & links.up)
    widest = int(links.rail.max(initial=0)) + 2
    keys = (links.source[rows] * len(topology.vertices) + links.target[rows]) * widest
    keys = keys + np.minimum(links.rail[rows], widest - 1)
    order = np.argsort(keys)
    return np.append(keys[order], np.iinfo(np.int64).max), np.append(rows[order], 0), widest
