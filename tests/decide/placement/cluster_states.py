"""Small clusters as placement sees them, and one way to ask all kinds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from steward.decide.placement import (
    Demand,
    Guide,
    NodeOccupancy,
    Placement,
    TieBreak,
    Typical,
    place_guided,
)

Ints = NDArray[np.int64]


def state(
    gpus: Sequence[int],
    *,
    used: Sequence[int] | None = None,
    milli: Sequence[Sequence[int]] | None = None,
    cpus: float = np.inf,
    memory: float = np.inf,
    types: Sequence[int] | None = None,
    racks: Sequence[int] | None = None,
    switches: Sequence[int] | None = None,
    clusters: Sequence[int] | None = None,
    up: Sequence[bool] | None = None,
    mig: int = 0,
    sizes: int = 0,
) -> NodeOccupancy:
    """Return nodes of these sizes with so many GPUs held whole, and fractions only if `milli`."""
    n = len(gpus)
    size = np.array(gpus, np.int64)
    free = size - np.array(used if used is not None else [0] * n, np.int64)
    if milli is not None:
        columns = np.array(milli, np.int64).reshape(n, -1)
        free = (columns == 1000).sum(axis=1)
    else:
        columns = np.zeros((n, 0), np.int64)
    zeros = [0] * n
    return NodeOccupancy(
        free=free.astype(np.int64),
        gpus=size,
        milli=columns,
        cpus_free=np.full(n, cpus),
        memory_free=np.full(n, memory),
        type=np.array(types or zeros, np.int64),
        rack=np.array(racks or zeros, np.int64),
        switch=np.array(switches or zeros, np.int64),
        cluster=np.array(clusters or zeros, np.int64),
        up=np.array(up or [True] * n, np.bool_),
        mig=np.full(n, mig, np.int64),
        sizes=np.zeros((n, sizes), np.int64),
    )


def want(
    gpus: int = 0, milli: int = 0, *, cpus: float = 0.0, memory: float = 0.0, type_mask: int = -1
) -> Demand:
    """Return what a job asks for."""
    return Demand(gpus, milli, cpus, memory, type_mask)


def typical(*shapes: tuple[float, int, int, float]) -> Typical:
    """Return typical jobs from (CPUs, GPUs, thousandths of each, share)."""
    rows = np.array(shapes, np.float64).reshape(-1, 4)
    return Typical(
        cpus=rows[:, 0].copy(),
        gpus=rows[:, 1].astype(np.int64),
        milli=rows[:, 2].astype(np.int64),
        type_mask=np.full(len(rows), -1, np.int64),
        share=rows[:, 3].copy(),
    )


def guide(
    expected: Typical | None = None,
    *,
    ties: TieBreak = TieBreak.NAME,
    unit: float = 1.0,
    draw: float = 0.0,
) -> Guide:
    """Return what scored placements look at."""
    return Guide(expected or typical(), int(ties), unit, np.array([draw]))


def chosen(
    kind: Placement, nodes: NodeOccupancy, job: Demand, look: Guide | None = None
) -> list[tuple[int, int]]:
    """Return nodes and GPUs on each; empty if it does not fit."""
    node, gpus = np.zeros(len(nodes.gpus), np.int64), np.zeros(len(nodes.gpus), np.int64)
    n = place_guided(int(kind), nodes, job, look or guide(), node, gpus)
    return list(zip(node[:n].tolist(), gpus[:n].tolist(), strict=True))


def arrays(choice: list[tuple[int, int]]) -> tuple[Ints, Ints, int]:
    """Return a choice as `take` and `give` want it."""
    node, gpus = (np.array([each[i] for each in choice], np.int64) for i in (0, 1))
    return node, gpus, len(choice)
