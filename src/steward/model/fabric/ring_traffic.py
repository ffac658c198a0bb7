"""The links that a ring of nodes crosses, as NCCL builds it: one flow per channel and neighbour."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.model.fabric.routes import Routes
from steward.model.fabric.topology import NVLINK

__all__ = ["ring_links"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def ring_links(routes: Routes, ring: Ints, *, channels: int, salt: int) -> tuple[Ints, Floats]:
    """Return the links that a closed ring over these nodes crosses, and its flows on each.

    Channel `c` uses rail `c` of every node, where there is one. NVLink is left out: it is as fast
    as the hosts, and no other job's. `salt` stands for the ports that hashes of switches depend on.
    """
    if len(ring) < 2:
        return np.zeros(0, np.int64), np.zeros(0)
    rails = np.tile(np.arange(channels, dtype=np.int64), len(ring))
    sources = np.repeat(ring, channels)
    targets = np.repeat(np.roll(ring, -1), channels)
    hashes = (sources * 1_000_003 + targets) * 64 + rails + salt * 7_368_787
    crossed = routes.paths(sources, targets, hashes=hashes, rails=rails).links
    crossed = crossed[routes.topology.links.kind[crossed] != NVLINK]
    links, counts = np.unique(crossed, return_counts=True)
    return links, counts.astype(np.float64)
