"""From a trace and its machines to the arrays that placement works on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from steward.decide.placement.scores import Guide, TieBreak, Typical
from steward.decide.placement.state import WHOLE, Floats, Ints, NodeOccupancy
from steward.model.machines import Machines
from steward.model.trace import Trace

__all__ = ["SIZES", "Demands", "demands_of", "free_nodes", "guide_of", "shapes_of", "typical_of"]

_ANY_TYPE = -1
SIZES = 18  # fractions, 1..16 GPUs, more


class Demands(NamedTuple):
    """What every job of a trace asks for: the columns of `Demand`."""

    gpus: Ints
    milli: Ints
    cpus: Floats
    memory: Floats
    type_mask: Ints


def free_nodes(machines: Machines, *, fractions: bool = True, sizes: bool = False) -> NodeOccupancy:
    """Return the state in which nothing runs; `sizes` also counts jobs by size, for clustering."""
    n = len(machines)
    columns = int(machines.gpus.max(initial=0)) if fractions else 0
    there = np.arange(columns)[None, :] < machines.gpus[:, None]
    return NodeOccupancy(
        free=machines.gpus.copy(),
        gpus=machines.gpus.copy(),
        milli=np.where(there, WHOLE, 0).astype(np.int64),
        cpus_free=np.where(np.isnan(machines.cpus), np.inf, machines.cpus),
        memory_free=np.where(np.isnan(machines.memory_bytes), np.inf, machines.memory_bytes),
        type=machines.type.copy(),
        rack=machines.rack.copy(),
        switch=machines.switch.copy(),
        cluster=machines.cluster.copy(),
        up=machines.up.copy(),
        mig=machines.mig_slices.copy(),
        sizes=np.zeros((n, SIZES if sizes else 0), np.int64),
    )


def demands_of(trace: Trace, machines: Machines) -> Demands:
    """Return what each job asks for; a type that no machine has leaves its mask without a bit.

    A fraction above one GPU is rounded up to whole ones. Unknown CPUs and memory count as none.
    """
    gpus = np.ceil(trace.gpus - 1e-9).astype(np.int64)
    milli = np.rint(trace.gpus * WHOLE).astype(np.int64)
    fraction = (milli > 0) & (milli < WHOLE)
    masks = [_mask(spec, machines.types) for spec in trace.gpu_types]
    return Demands(
        gpus=np.where(fraction, 0, gpus),
        milli=np.where(fraction, milli, 0),
        cpus=np.nan_to_num(trace.cpus),
        memory=np.nan_to_num(trace.memory_bytes),
        type_mask=np.array([*masks, _ANY_TYPE], np.int64)[trace.gpu_type],  # -1 is the last
    )


def _mask(spec: str, types: tuple[str, ...]) -> int:
    allowed = {word for word in spec.split("|") if word}
    return sum(1 << i for i, name in enumerate(types) if name in allowed) if allowed else _ANY_TYPE


def shapes_of(wants: Demands) -> tuple[Ints, Ints]:
    """Return the shape of each job and one job of each shape. ScoreCache is not part of a shape."""
    columns = np.column_stack([wants.cpus, wants.gpus, wants.milli, wants.type_mask])
    _, first, shape = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return shape.reshape(-1).astype(np.int64), first.astype(np.int64)


def typical_of(wants: Demands, *, covered_share: float = 0.95) -> Typical:
    """Return the most frequent shapes that together make up that share of the jobs."""
    shape, first = shapes_of(wants)
    counts = np.bincount(shape, minlength=len(first))
    order = np.argsort(-counts, kind="stable")
    kept = order[: 1 + int(np.searchsorted(np.cumsum(counts[order]), covered_share * len(shape)))]
    rows = first[kept]
    fraction = wants.milli[rows] > 0
    whole = np.where(wants.gpus[rows] > 0, WHOLE, 0)
    return Typical(
        cpus=wants.cpus[rows],
        gpus=np.where(fraction, 1, wants.gpus[rows]),
        milli=np.where(fraction, wants.milli[rows], whole).astype(np.int64),
        type_mask=wants.type_mask[rows],
        share=counts[kept] / max(1, counts[kept].sum()),
    )


def guide_of(demands: Demands, *, seed: int = 0) -> Guide:
    """Return what scored placements look at: the shapes of jobs that are to be expected."""
    draw = np.random.default_rng(seed).random(1)
    return Guide(typical_of(demands), int(TieBreak.LEAST_FREE_GPUS), 1.0, draw)
