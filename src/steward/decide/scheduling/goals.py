"""Which machines are filled first: where work costs, draws or emits least."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from steward.model.machines import Machines

__all__ = ["Goal", "preference"]

Floats = NDArray[np.float64]


class Goal(StrEnum):
    """What to save, where machines differ. With none, the pool with the most room goes first."""

    NONE = ""
    COST = "cost"
    ENERGY = "energy"
    CARBON = "carbon"


def preference(goal: str, machines: Machines, nodes: NDArray[np.int64], speed: Floats) -> Floats:
    """Return what an hour of work adds to the bill in each pool: the least is filled first.

    `nodes` has one node of each pool and `speed` the pools' speeds. What is paid for anyway adds
    nothing: a machine of one's own costs no more when it is used, and draws its idle power.
    """
    rented = machines.on_demand[nodes]
    idle = np.where(rented, 0.0, machines.idle_watts[nodes])
    watts = machines.busy_watts[nodes] - idle
    if goal == Goal.COST:
        added = np.where(rented, machines.price_per_gpu_h[nodes], 0.0)
    elif goal == Goal.ENERGY:
        added = watts
    elif goal == Goal.CARBON:
        added = watts * machines.gram_co2_per_kwh[nodes]
    else:
        added = np.zeros(len(nodes))
    found: Floats = added / speed
    return found
