"""What was free between two times of a replay, and who held the rest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.model.replay import Replay

__all__ = ["FreeCapacity", "capacity_between"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class FreeCapacity(NamedTuple):
    """Spans in which nothing changed, and what every job held in all of them together."""

    length_s: Floats
    free_gpus: Floats
    free_together: Floats  # on the emptiest node, at most; all of them where GPUs were counted
    tenant_gpus: Floats  # of one tenant
    job: Ints  # per segment: who held
    gpu_s: Floats  # per segment: how much


def capacity_between(replay: Replay, from_s: float, to_s: float, *, tenant: int) -> FreeCapacity:
    """Return what was free, and what `tenant` and every job held.

    A segment that spans several nodes is counted on its first one only: where `free_together`
    says that nothing fitted on one node, that is certain.
    """
    segments, machines = replay.segments, replay.machines
    start_s = np.maximum(segments.start_s, from_s)
    stop_s = np.minimum(segments.stop_s, to_s)
    inside = np.flatnonzero(stop_s > start_s)
    start_s, stop_s = start_s[inside], stop_s[inside]
    gpus, job, node = segments.gpus[inside], segments.job[inside], segments.node[inside]
    mine = np.where(replay.trace.tenant[job] == tenant, gpus, 0.0)
    here = gpus / np.maximum(segments.nodes[inside], 1)
    nodes, when, change = _machines(replay, from_s, to_s)
    none = np.zeros(len(when))
    order = np.argsort(t_s := np.concatenate([stop_s, when, start_s]), kind="stable")
    free, together, held = _walk(
        np.concatenate([gpus, change, -gpus])[order],
        np.concatenate([here, change, -here])[order],
        np.concatenate([node, nodes, node])[order],
        np.concatenate([-mine, none, mine])[order],
        len(machines),
    )
    length_s = np.diff(np.append(t_s[order], to_s))
    real = length_s > 0
    counted = bool((node < 0).all())
    return FreeCapacity(
        length_s=length_s[real],
        free_gpus=np.maximum(0.0, free[real]),
        free_together=(free if counted else together)[real],
        tenant_gpus=held[real],
        job=job,
        gpu_s=(stop_s - start_s) * gpus,
    )


def _machines(replay: Replay, from_s: float, to_s: float) -> tuple[Ints, Floats, Floats]:
    """Return which nodes come and go, when, and how many GPUs that changes."""
    machines = replay.machines
    up = machines.up.copy()
    later = []
    for change in sorted(machines.changes, key=lambda each: each.t_s):
        if change.t_s <= from_s:
            up[change.node] = change.up
        elif change.t_s < to_s:
            later.append(change)
    nodes, when = [*np.flatnonzero(up).tolist()], [from_s] * int(up.sum())
    change_gpus = machines.gpus[up].astype(np.float64).tolist()
    for change in later:
        if bool(up[change.node]) is not change.up:
            up[change.node] = change.up
            nodes.append(change.node)
            when.append(change.t_s)
            change_gpus.append(float(machines.gpus[change.node]) * (1 if change.up else -1))
    return np.array(nodes, np.int64), np.array(when, np.float64), np.array(change_gpus)


@njit
def _walk(
    freed: Floats, here: Floats, node: Ints, mine: Floats, nodes: int
) -> tuple[Floats, Floats, Floats]:
    """Return the free GPUs, those of the emptiest node, and the tenant's own, after each event."""
    free, together, held = np.zeros(len(freed)), np.zeros(len(freed)), np.zeros(len(freed))
    by_node = np.zeros(nodes)
    total = tenant = 0.0
    for i in range(len(freed)):
        total += freed[i]
        tenant += mine[i]
        if node[i] >= 0:
            by_node[node[i]] += here[i]
        free[i], held[i], together[i] = total, tenant, by_node.max()
    return free, together, held
