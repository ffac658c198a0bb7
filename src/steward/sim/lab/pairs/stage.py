"""What a replay is made of before time begins: jobs, their speeds, machines, and a partition."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steward.decide.placement import PLACEMENTS, Placement
from steward.decide.scheduling.sharing.moment import Profiling, SharingPolicy
from steward.model.machines import Machines
from steward.model.throughput import ThroughputTable
from steward.model.trace import Trace
from steward.sim.lab.pairs.interference import Interference, interference_of
from steward.sim.lab.pairs.nodes import Placed
from steward.sim.lab.pairs.places import Counted, Places, Wants, parts_of, wants_of
from steward.sim.lab.settings import LabSettings

__all__ = ["Stage", "stage_of"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """A trace, where it runs, and what both assume. Only `places` changes as time goes on."""

    trace: Trace
    machines: Machines
    policy: SharingPolicy
    settings: LabSettings
    speeds: Interference
    wants: Wants
    profiling: Profiling | None
    parts: Ints  # GPUs of each node that are set apart for profiling
    places: Places
    notes: tuple[str, ...]


def stage_of(
    trace: Trace,
    machines: Machines,
    policy: SharingPolicy,
    settings: LabSettings,
    table: ThroughputTable | None,
) -> Stage:
    """Set everything up. No partition is set apart that would leave too little for some job."""
    speeds = interference_of(trace, machines, settings, table)
    wants = wants_of(trace, speeds, len(machines.types))
    profiling = policy.profiling(machines.total_gpus, int(machines.gpus.max(initial=0)))
    whole = np.zeros(len(machines), np.int64)
    stage = Stage(
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
    machines: Machines, wants: Wants, parts: Ints, policy: SharingPolicy, settings: LabSettings
) -> Places:
    placement = PLACEMENTS[settings.placement]
    if placement == Placement.COUNT:
        return Counted(machines, wants, parts)
    return Placed(
        machines,
        wants,
        parts,
        placement=placement,
        slowdown=settings.locality_slowdown,
        keeps_sizes_together=policy.keeps_sizes_together,
    )
