"""GPUs that nobody uses, by node, and how a job takes as many of them as it has now."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from steward.model.actions.checks import USABLE
from steward.model.view import ClusterView

__all__ = ["Pools", "free_pools", "take_like"]

Pools = dict[int, list[int]]  # rows of GPUs that can be had, by row of their node


def free_pools(view: ClusterView, *, without: Collection[int] = ()) -> Pools:
    """Return the GPUs that nobody uses, of which nothing is open, and that are well."""
    good = (view.gpus.users == 0) & ~view.gpus.reserved & np.isin(view.gpus.health, USABLE)
    found: Pools = {}
    for gpu in np.flatnonzero(good & ~view.nodes.draining[view.gpus.node]).tolist():
        if gpu not in without:
            found.setdefault(int(view.gpus.node[gpu]), []).append(gpu)
    return found


def take_like(
    view: ClusterView, row: int, rows: list[int], pools: Pools, *, kept: Collection[int]
) -> list[int]:
    """Take as many GPUs on as many nodes as a job has from those that are free; none: no room.

    Those of its own that are `kept` are free when it stops. What is taken leaves the pools.
    """
    models = int(view.jobs.model_mask[row])
    own: Pools = {}
    for gpu in rows:
        own.setdefault(int(view.gpus.node[gpu]), []).append(gpu)
    well = {node: [each for each in gpus if each in kept] for node, gpus in own.items()}
    room = {node: [*well.get(node, ()), *pools.get(node, ())] for node in {*well, *pools}}
    chosen: Pools = {}
    for count in sorted((len(gpus) for gpus in own.values()), reverse=True):
        fits = {
            node: fit
            for node, gpus in room.items()
            if node not in chosen
            and len(fit := [each for each in gpus if models >> int(view.gpus.model[each]) & 1])
            >= count
        }
        if not fits:
            return []
        node = min(fits, key=lambda each: (not well.get(each), len(fits[each]), each))
        chosen[node] = fits[node][:count]
    for node, gpus in chosen.items():
        if node in pools:
            pools[node] = [each for each in pools[node] if each not in gpus]
    return [each for gpus in chosen.values() for each in gpus]
