"""Congestion regions: links next to one another that stall alike, followed over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.model.fabric.topology import FabricTopology
from steward.model.fabric.view import CongestionRegion, LinkColumns
from steward.model.identity import stable_id

__all__ = ["LEVELS", "RegionTracker", "level_of", "regions_of"]

# Shares of time stalled from which a link is so congested (percent time stalled: 5, 15, 25).
LEVELS: tuple[tuple[float, str], ...] = ((0.25, "severe"), (0.15, "high"), (0.05, "moderate"))
ALIKE = 0.25  # links of one region differ by no more than this from a neighbour of theirs


def level_of(stalled_share: float) -> str:
    """Return how congested a link with this share of time stalled is.

    >>> level_of(0.3), level_of(0.1), level_of(0.01), level_of(float("nan"))
    ('severe', 'moderate', 'low', 'unknown')
    """
    if np.isnan(stalled_share):
        return "unknown"
    return next((level for from_, level in LEVELS if stalled_share >= from_), "low")


def regions_of(
    topology: FabricTopology, links: LinkColumns, *, least: float = 0.05, alike: float = ALIKE
) -> list[tuple[int, ...]]:
    """Return groups of links that stall at least so much, share a vertex, and stall alike.

    A link that nobody has measured is in no region: it is unknown, not calm.
    """
    stalled = links.stalled_share
    hot = np.flatnonzero(np.nan_to_num(stalled, nan=-1.0) >= least)
    parent = {int(link): int(link) for link in hot}

    def root(link: int) -> int:
        while parent[link] != link:
            parent[link] = parent[parent[link]]
            link = parent[link]
        return link

    at_vertex: dict[int, list[int]] = {}
    for link in parent:
        for vertex in (int(topology.links.source[link]), int(topology.links.target[link])):
            for other in at_vertex.setdefault(vertex, []):
                if abs(stalled[link] - stalled[other]) <= alike:
                    parent[root(link)] = root(other)
            at_vertex[vertex].append(link)
    groups: dict[int, list[int]] = {}
    for link in parent:
        groups.setdefault(root(link), []).append(link)
    return sorted(tuple(sorted(each)) for each in groups.values())


@dataclass(slots=True)
class RegionTracker:
    """Gives regions names that last: it is the one that it shares most links with."""

    _known: Mapping[str, tuple[frozenset[int], float]] = field(default_factory=dict)

    def follow(
        self, topology: FabricTopology, links: LinkColumns, t_s: float
    ) -> tuple[CongestionRegion, ...]:
        """Return the regions of this moment, worst first."""
        found: list[CongestionRegion] = []
        known: dict[str, tuple[frozenset[int], float]] = {}
        for group in regions_of(topology, links):
            name, since_s = self._earlier(frozenset(group), set(known))
            name = name or stable_id("r", group[0], t_s)
            since_s = t_s if since_s is None else since_s
            known[name] = (frozenset(group), since_s)
            mean = float(_mean(links.stalled_share, group))
            found.append(
                CongestionRegion(
                    name=name,
                    links=group,
                    stalled_share=mean,
                    level=level_of(mean),
                    since_s=since_s,
                )
            )
        self._known = known
        return tuple(sorted(found, key=lambda each: -each.stalled_share))

    def _earlier(self, links: frozenset[int], taken: set[str]) -> tuple[str, float | None]:
        for name, (others, since_s) in self._known.items():
            if name not in taken and 2 * len(links & others) >= min(len(links), len(others)):
                return name, since_s
        return "", None


def _mean(values: NDArray[np.float64], rows: tuple[int, ...]) -> float:
    return float(values[list(rows)].mean())
