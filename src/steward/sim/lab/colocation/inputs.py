"""Inputs of a replay: jobs, their speeds, machines, and a partition."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steward.decide.placement import PLACEMENTS, Placement
from steward.decide.scheduling.colocation.interface import ColocationPolicy, Profiling
from steward.model.machines import Machines
from steward.model.throughput import ThroughputTable
from steward.model.trace import Trace
from steward.sim.lab.colocation.gpu_pools import (
    CountedPools,
    GpuPools,
    PairDemands,
    pair_demands_of,
    parts_of,
)
from steward.sim.lab.colocation.interference import Interference, interference_of
from steward.sim.lab.colocation.nodes import PlacedPools
from steward.sim.lab.settings import LabSettings

__all__ = ["ReplayInputs", "inputs_of"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayInputs:
    """A trace, where it runs, and what both assume. Only `places` changes as time goes on."""

    trace: Trace
    machines: Machines
    policy: ColocationPolicy
    settings: LabSettings
    speeds: Interference
    wants: PairDemands
    profiling: Profiling | None
    parts: Ints  # GPUs of each node that are set apart for profiling
    places: GpuPools
    notes: tuple[str, ...]


def inputs_of(
    trace: Trace,
    machines: Machines,
    policy: ColocationPolicy,
    settings: LabSettings,
    table: ThroughputTable | None,
) -> ReplayInputs:
    """Set everything up. No partition is set apart that would leave too little for some job."""
    speeds = interference_of(trace, machines, settings, table)
    wants = pair_demands_of(trace, speeds, len(machines.types))
    profiling = policy.profiling(machines.total_gpus, int(machines.gpus.max(initial=0)))
    whole = np.zeros(len(machines), np.int64)
    stage = ReplayInputs(
        trace=trace,
        machines=machines,
        policy=policy,
        settings=settings,
        speeds=speeds,
        wants=wants,
        profiling=profiling,
        parts=whole,
        places=_places(machines, wants, whole, policy, settings),
        notes=speeds.notes,
    )
    if profiling is None or profiling.gpus == 0:
        return stage
    parts = parts_of(machines, profiling.gpus)
    places = _places(machines, wants, parts, policy, settings)
    kinds = range(len(wants.want))
    if any(stage.places.could_ever(w) and not places.could_ever(w) for w in kinds):
        note = "no GPUs are set apart for profiling: some job needs all there are"
        return replace(
            stage, profiling=replace(profiling, gpus=0, most_gpus=0.0), notes=(*speeds.notes, note)
        )
    return replace(stage, parts=parts, places=places)


def _places(
    machines: Machines,
    wants: PairDemands,
    parts: Ints,
    policy: ColocationPolicy,
    settings: LabSettings,
) -> GpuPools:
    placement = PLACEMENTS[settings.placement]
    if placement == Placement.COUNT:
        return CountedPools(machines, wants, parts)
    return PlacedPools(
        machines,
        wants,
        parts,
        placement=placement,
        slowdown=settings.locality_slowdown,
        keeps_sizes_together=policy.keeps_sizes_together,
    )
