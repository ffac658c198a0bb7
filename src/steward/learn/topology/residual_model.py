"""Slowdowns by the mean field with the learned residual on top, where it was shown to pay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.learn.topology.graph_inputs import GraphInputs, inputs_of, joined
from steward.learn.topology.graph_network import GraphNetwork
from steward.model.fabric.contention import Contention
from steward.model.fabric.link_signs import LinkSigns, no_signs

__all__ = ["SWITCHED_ON", "ResidualModel", "world_of"]

Floats = NDArray[np.float64]

# Worlds in which `benchmarks/topology.py` showed better decisions with the network than without,
# the paired interval excluding 0. Elsewhere the mean field decides alone.
SWITCHED_ON: tuple[str, ...] = ()
_LOST = 0.03  # of a link's capacity, below which nothing is said to be lost


def world_of(signs: LinkSigns) -> str:
    """Return which kind of network counters show: plain, with losses, or with gray links."""
    counted = signs.counted_share[~np.isnan(signs.counted_share)]
    if len(counted) and float(np.min(counted)) < 1.0 - 10.0 * _LOST:
        return "gray"
    return "losses" if max(signs.incast_share, signs.pause_share) > _LOST else "plain"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResidualModel:
    """Predicts slowdowns of several scenes at once. Where it abstains, the mean field stands."""

    network: GraphNetwork
    signs: Callable[[Contention], LinkSigns] = lambda scene: no_signs(len(scene.capacity))

    def __call__(self, scenes: Sequence[Contention]) -> list[Floats]:
        """Return the slowdown of each job of each scene."""
        graphs = [inputs_of(scene, self.signs(scene)) for scene in scenes]
        return [middle for _, middle, _ in self.quantiles(graphs)]

    def quantiles(self, graphs: Sequence[GraphInputs]) -> list[tuple[Floats, Floats, Floats]]:
        """Return low, middle and high slowdown of each job of each graph."""
        if not graphs:
            return []
        rows = self.network.slowdowns(joined(graphs))
        ends = np.cumsum([len(each.job) for each in graphs])[:-1]
        out = []
        for each, found in zip(graphs, np.split(rows, ends), strict=True):
            low, middle, high = (
                np.where(np.isnan(column), each.mean_field, column) for column in found.T
            )
            out.append((low, middle, high))
        return out
