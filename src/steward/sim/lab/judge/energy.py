"""What the machines cost and drew while a replay lasted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.model.machines import Machines
from steward.model.replay import Replay

__all__ = ["Bill", "bill_of", "up_s"]

HOUR_S = 3600.0
JOULES_PER_KWH = 3.6e6


class Bill(NamedTuple):
    """Money for machines that were there, and the energy that they took."""

    cost: float
    energy_kwh: float
    co2_kg: float


def bill_of(replay: Replay, *, from_s: float, to_s: float, shared: float) -> Bill:
    """Add up what the machines took; `shared` is GPUs in use for each GPU held (1: none shared).

    A GPU draws its idle power as long as its node is up, and the rest while a job holds it; one
    that is rented on demand is there only while held. Where GPUs were only counted, a held GPU
    draws what the mean GPU of the cluster draws.
    """
    machines, segments = replay.machines, replay.segments
    rise = machines.busy_watts - machines.idle_watts
    share = machines.gpus / max(1.0, float(machines.gpus.sum()))
    held_gpu_s = (segments.stop_s - segments.start_s) * segments.gpus * shared
    known = segments.node >= 0
    by_node = np.bincount(segments.node[known], held_gpu_s[known], minlength=len(machines))
    held_by_node = by_node + share * float(held_gpu_s[~known].sum())
    up_gpu_s = up_s(machines, from_s, to_s) * machines.gpus
    up_gpu_s = np.where(machines.on_demand, held_by_node, up_gpu_s)
    joules = up_gpu_s * machines.idle_watts + held_by_node * rise
    return Bill(
        cost=float((up_gpu_s * machines.price_per_gpu_h).sum()) / HOUR_S,
        energy_kwh=float(joules.sum()) / JOULES_PER_KWH,
        co2_kg=float((joules * machines.gram_co2_per_kwh).sum()) / JOULES_PER_KWH / 1000.0,
    )


def up_s(machines: Machines, from_s: float, to_s: float) -> NDArray[np.float64]:
    """Return how long each node was there."""
    up, since = machines.up.copy(), np.full(len(machines), from_s)
    total = np.zeros(len(machines))
    for change in sorted(machines.changes, key=lambda each: each.t_s):
        if bool(up[change.node]) is change.up:
            continue
        t_s = min(max(change.t_s, from_s), to_s)
        if not change.up:
            total[change.node] += t_s - since[change.node]
        up[change.node], since[change.node] = change.up, t_s
    return total + np.where(up, to_s - since, 0.0)
