"""The machines of a replay as columns: what is where, what it costs, and how that changes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["MachineChange", "Machines", "machines_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineChange:
    """A node goes away or comes: failure and repair, reclaimed spot capacity, growth, shrinkage."""

    t_s: float
    node: int
    up: bool
    why: str = ""
    warning_s: float = 0.0  # time to save before it goes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Machines:
    """One row per node. Codes point into the tuples beside them."""

    gpus: Ints  # GPUs of each node
    type: Ints
    types: tuple[str, ...]
    cpus: Floats  # NaN: not limited
    memory_bytes: Floats  # NaN: not limited
    rack: Ints
    switch: Ints
    cluster: Ints
    clusters: tuple[str, ...]
    price_per_gpu_h: Floats
    spot: NDArray[np.bool_]
    idle_watts: Floats  # per GPU
    busy_watts: Floats  # per GPU
    gram_co2_per_kwh: Floats
    mig_slices: Ints  # 0: GPUs are not cut; 7: each GPU is cut into up to 7 slices
    up: NDArray[np.bool_]  # at time 0
    on_demand: NDArray[np.bool_]  # rented: costs and draws power only while a job holds it
    boot_s: Floats  # from renting to running
    changes: tuple[MachineChange, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.gpus)

    @property
    def total_gpus(self) -> int:
        """GPUs of all nodes that are there at time 0."""
        return int(self.gpus[self.up].sum())

    def by_pool(self) -> Machines:
        """Return the same nodes with a type for each pool, of the type's own name.

        A pool is the GPUs of one type in one cluster that come on the same terms: own, spot, or
        rented at one price and boot time. A gang stays in one pool.
        """
        rent = np.where(self.on_demand, self.price_per_gpu_h, -1.0)
        boot = np.where(self.on_demand, self.boot_s, 0.0)
        terms = np.column_stack((self.type, self.cluster, self.spot, rent, boot))
        _, first, pool = np.unique(terms, axis=0, return_index=True, return_inverse=True)
        names = tuple(self.types[self.type[node]] for node in first)
        return replace(self, type=pool.reshape(-1).astype(np.int64), types=names)


def machines_of(
    gpus: int,
    *,
    gpus_per_node: int = 8,
    gpu_type: str = "gpu",
    nodes_per_rack: int = 4,
    racks_per_switch: int = 8,
) -> Machines:
    """Build a plain cluster of equal nodes; the last node has what is left over.

    >>> len(machines_of(20, gpus_per_node=8)), machines_of(20, gpus_per_node=8).gpus.tolist()
    (3, [8, 8, 4])
    """
    full, rest = divmod(gpus, gpus_per_node)
    sizes = np.array([gpus_per_node] * full + [rest] * (rest > 0), np.int64)
    n = len(sizes)
    nodes = np.arange(n)
    return Machines(
        gpus=sizes,
        type=np.zeros(n, np.int64),
        types=(gpu_type,),
        cpus=np.full(n, np.nan),
        memory_bytes=np.full(n, np.nan),
        rack=nodes // nodes_per_rack,
        switch=nodes // (nodes_per_rack * racks_per_switch),
        cluster=np.zeros(n, np.int64),
        clusters=("main",),
        price_per_gpu_h=np.full(n, 2.0),
        spot=np.zeros(n, np.bool_),
        idle_watts=np.full(n, 60.0),
        busy_watts=np.full(n, 300.0),
        gram_co2_per_kwh=np.full(n, 400.0),
        mig_slices=np.zeros(n, np.int64),
        up=np.ones(n, np.bool_),
        on_demand=np.zeros(n, np.bool_),
        boot_s=np.zeros(n),
    )
