"""Collectives as phases of bundles: ring, tree, all to all, hierarchical, and plain pairs.

Volumes are those of an all-reduce of so many bytes on every node, but for all-to-all, where each
node has so many bytes for all others together. One bundle per rail: the flows of a ring wait for
one another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.fabric.routes import Routes
from steward.sim.fabric.traffic import LATENCY, Bundle, Phase

__all__ = ["COLLECTIVES", "Wiring", "messages_between", "phases_of"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wiring:
    """How flows find their way: hashes drawn once, and ways to choose from where adaptive."""

    routes: Routes
    rng: np.random.Generator
    rails: int = 1  # NICs that a collective uses side by side
    choices: int = 1  # 1: the hash decides; more: the least loaded of so many ways
    detours: bool = False  # whether ways over a third node's switch count, as in a dragonfly

    def bundle(self, sources: Ints, targets: Ints, volume: float, rail: int) -> Bundle:
        """Return the flows between these nodes as one bundle."""
        one_rail = rail if self.rails > 1 else -1
        variants = tuple(self._way(sources, targets, one_rail, way) for way in range(self.choices))
        busiest = int(np.bincount(sources).max(initial=1))
        return Bundle(volume=volume, variants=variants, flows=len(sources), per_node=busiest)

    def _way(self, sources: Ints, targets: Ints, rail: int, way: int) -> Ints:
        hashes = self.rng.integers(0, 2**40, len(sources))
        if way and self.detours and way % 2:
            return self._detour(sources, targets, hashes)
        paths = self.routes.paths(sources, targets, hashes=hashes, rails=rail)
        if not paths.known.all():
            at = int(np.flatnonzero(~paths.known)[0])
            names = self.routes.topology.vertices.names
            raise StewardError(
                f"there is no path from {names[sources[at]]} to {names[targets[at]]}"
            )
        return paths.links

    def _detour(self, sources: Ints, targets: Ints, hashes: Ints) -> Ints:
        """Return ways over the switch of a third node each; that node's own links are left out."""
        third = self.rng.choice(self.routes.topology.endpoints, len(sources))
        there = self.routes.paths(sources, third, hashes=hashes)
        back = self.routes.paths(third, targets, hashes=hashes)
        straight = self.routes.paths(sources, targets, hashes=hashes)
        parts = []
        for flow in range(len(sources)):
            out, home = there.of(flow), back.of(flow)
            usable = third[flow] not in (sources[flow], targets[flow])
            parts += [out[:-1], home[1:]] if usable else [straight.of(flow)]
        return np.concatenate(parts)


def phases_of(
    kind: str, wiring: Wiring, nodes: Ints, volume: float, *, groups: Sequence[Ints] = ()
) -> tuple[Phase, ...]:
    """Return the phases of a collective over nodes; `groups` are those that sit together."""
    make = COLLECTIVES.get(kind)
    if make is None:
        known = ", ".join(COLLECTIVES)
        raise StewardError(f"there is no collective '{kind}'; known: {known}")
    if len(nodes) < 2:
        return ()  # one node alone sends nothing over the fabric
    return make(wiring, nodes, volume / wiring.rails, groups)


def messages_between(
    wiring: Wiring, nodes: Ints, messages: float, *, most_paths: int = 16
) -> tuple[Phase, ...]:
    """Return small messages around the ring of nodes, each as slow as the slowest of its paths."""
    if len(nodes) < 2 or messages <= 0:
        return ()
    targets = np.roll(nodes, -1)
    every = max(1, len(nodes) // most_paths)
    paths = wiring.routes.paths(
        nodes[::every], targets[::every], hashes=wiring.rng.integers(0, 2**40, len(nodes[::every]))
    )
    ways = tuple(paths.of(at) for at in range(len(paths)))
    return (Phase(kind=LATENCY, messages=messages, paths=ways),)


def _ring(wiring: Wiring, nodes: Ints, volume: float, _: Sequence[Ints]) -> tuple[Phase, ...]:
    each = 2 * (len(nodes) - 1) / len(nodes) * volume
    after = np.roll(nodes, -1)
    return (
        Phase(bundles=tuple(wiring.bundle(nodes, after, each, r) for r in range(wiring.rails))),
    )


def _tree(wiring: Wiring, nodes: Ints, volume: float, _: Sequence[Ints]) -> tuple[Phase, ...]:
    """Return a binary tree: sums go up, the result goes down."""
    child = np.arange(1, len(nodes))
    low, high = nodes[child], nodes[(child - 1) // 2]
    rails = range(wiring.rails)
    return (
        Phase(bundles=tuple(wiring.bundle(low, high, volume, rail) for rail in rails)),
        Phase(bundles=tuple(wiring.bundle(high, low, volume, rail) for rail in rails)),
    )


def _all_to_all(wiring: Wiring, nodes: Ints, volume: float, _: Sequence[Ints]) -> tuple[Phase, ...]:
    """Send from every node to every other: one bundle per distance around the ring."""
    each = volume / len(nodes)
    return (
        Phase(
            bundles=tuple(
                wiring.bundle(nodes, np.roll(nodes, -shift), each, rail)
                for shift in range(1, len(nodes))
                for rail in range(wiring.rails)
            )
        ),
    )


def _hierarchical(
    wiring: Wiring, nodes: Ints, volume: float, groups: Sequence[Ints]
) -> tuple[Phase, ...]:
    """Return rings inside groups, one of each place over all groups, and inside again."""
    parts = [each for each in groups if len(each)]
    size = min((len(each) for each in parts), default=0)
    if len(parts) < 2 or size < 2:
        return _ring(wiring, nodes, volume, ())
    inside = tuple(
        bundle
        for part in parts
        for phase in _ring(wiring, part, volume / 2, ())
        for bundle in phase.bundles
    )
    across = tuple(
        bundle
        for place in range(size)
        for phase in _ring(wiring, np.array([part[place] for part in parts]), volume / size, ())
        for bundle in phase.bundles
    )
    return Phase(bundles=inside), Phase(bundles=across), Phase(bundles=inside)


def _pairs(wiring: Wiring, nodes: Ints, volume: float, _: Sequence[Ints]) -> tuple[Phase, ...]:
    """Return a pipeline: each node sends to the next one, the last to nobody."""
    rails = range(wiring.rails)
    return (
        Phase(bundles=tuple(wiring.bundle(nodes[:-1], nodes[1:], volume, rail) for rail in rails)),
    )


COLLECTIVES: Mapping[str, Callable[[Wiring, Ints, float, Sequence[Ints]], tuple[Phase, ...]]] = (
    MappingProxyType(
        {
            "ring": _ring,
            "tree": _tree,
            "all-to-all": _all_to_all,
            "hierarchical": _hierarchical,
            "pipeline": _pairs,
        }
    )
)
