"""Which GPUs are free, which are set apart for profiling, and who may join whom where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from steward.decide.placement import Demand
from steward.model.machines import Machines
from steward.model.trace import Trace
from steward.sim.lab.colocation.interference import Interference

__all__ = [
    "MILLI",
    "CountedPools",
    "GpuPools",
    "HeldGpus",
    "NodeRoom",
    "PairDemands",
    "pair_demands_of",
    "parts_of",
]

MILLI = 1000
Ints = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class HeldGpus:
    """GPUs that one or two jobs hold."""

    want: int
    kind: int  # type of GPU
    rows: Ints
    gpus: Ints
    slowdown: float  # by how far apart they are
    node: int  # the first; -1 where GPUs are only counted
    nodes: int
    profiling: bool


class NodeRoom(NamedTuple):
    """Free GPUs by node, and inside which groups of nodes jobs can be moved."""

    free: Sequence[int]
    group: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairDemands:
    """Distinct demands of jobs."""

    of_job: list[int]
    need: list[int]  # thousandths of a GPU
    want: list[Demand]


class GpuPools(Protocol):
    """Where jobs can be put. `hold` takes what `fits` has found, if nothing came between."""

    free_gpus: int

    def could_ever(self, want: int) -> bool:
        """Return whether all machines, empty and up, could hold it."""

    def fits(self, want: int, *, profiling: bool = False) -> bool:
        """Return whether there are free GPUs for it now."""

    def hold(self, want: int, *, profiling: bool = False) -> HeldGpus:
        """Take GPUs that it fits on."""

    def hold_on(self, want: int, node: int) -> HeldGpus:
        """Take GPUs of one node that has them."""

    def give(self, held: HeldGpus) -> None:
        """Release GPUs."""

    def may_join(self, want: int, held: HeldGpus) -> bool:
        """Return whether a second job of as many GPUs could run there too."""

    def join(self, want: int, held: HeldGpus, sign: int) -> None:
        """Add (1) or remove (-1) what a second job needs beside GPUs."""

    def rooms(self, want: int) -> NodeRoom:
        """Return free GPUs by node as far as it may run there; nothing where GPUs are counted."""

    def touches(self, held: HeldGpus, node: int) -> bool:
        """Return whether whoever holds these has to leave because a node is gone."""

    def change(self, node: int, *, up: bool) -> None:
        """Add or remove a node."""


def pair_demands_of(trace: Trace, speeds: Interference, types: int) -> PairDemands:
    """Sort jobs by what they ask for."""
    able = np.array(speeds.alone, np.float64).reshape(len(trace), types) > 0.0
    mask = (able * (1 << np.arange(types))).sum(axis=1)
    need = np.round(trace.gpus * MILLI).astype(np.int64)
    cpus, memory = np.nan_to_num(trace.cpus), np.nan_to_num(trace.memory_bytes)
    rows = np.stack([need.astype(np.float64), cpus, memory, mask.astype(np.float64)], axis=1)
    unique, inverse = np.unique(rows, axis=0, return_inverse=True)
    return PairDemands(
        of_job=inverse.reshape(-1).tolist(),
        need=[int(row[0]) for row in unique],
        want=[
            Demand(
                int(row[0]) // MILLI if row[0] >= MILLI else 0,
                int(row[0]) if row[0] < MILLI else 0,
                float(row[1]),
                float(row[2]),
                int(row[3]),
            )
            for row in unique
        ],
    )


def parts_of(machines: Machines, gpus: int) -> Ints:
    """Return how many GPUs of each node are set apart: those of the last nodes that are up."""
    parts = np.zeros(len(machines), np.int64)
    for node in np.flatnonzero(machines.up)[::-1]:
        parts[node] = min(gpus, int(machines.gpus[node]))
        gpus -= int(parts[node])
    return parts


class CountedPools:
    """GPUs of a type are all alike; nothing else is looked at."""

    def __init__(self, machines: Machines, wants: PairDemands, parts: Ints) -> None:
        self._wants = wants
        self._type: list[int] = machines.type.tolist()
        self._types = len(machines.types)
        self._milli = np.stack([machines.gpus - parts, parts], axis=1) * MILLI
        self._up = machines.up.copy()
        up = self._milli * self._up[:, None]
        # free thousandths by type: of the cluster, then of what is set apart
        self._free: list[int] = [
            int(up[machines.type == kind, part].sum())
            for part in (0, 1)
            for kind in range(self._types)
        ]
        self._all = [
            int(self._milli[machines.type == kind, 0].sum()) for kind in range(self._types)
        ]
        self.free_gpus = self._free_gpus()

    def _free_gpus(self) -> int:
        return sum(free // MILLI for free in self._free[: self._types] if free > 0)

    def could_ever(self, want: int) -> bool:
        need, mask = self._wants.need[want], self._wants.want[want].type_mask
        return any(need <= there and (mask >> kind) & 1 for kind, there in enumerate(self._all))

    def _roomiest(self, want: int, offset: int) -> int:
        """Return the type with most room for it, or -1."""
        need, mask = self._wants.need[want], self._wants.want[want].type_mask
        best, most = -1, need - 1
        for kind in range(self._types):
            if (mask >> kind) & 1 and self._free[kind + offset] > most:
                best, most = kind, self._free[kind + offset]
        return best

    def fits(self, want: int, *, profiling: bool = False) -> bool:
        return self._roomiest(want, self._types * profiling) >= 0

    def hold(self, want: int, *, profiling: bool = False) -> HeldGpus:
        offset = self._types * profiling
        kind = self._roomiest(want, offset)
        self._free[kind + offset] -= self._wants.need[want]
        self.free_gpus = self._free_gpus()
        return HeldGpus(want, kind, _NOWHERE, _NOWHERE, 1.0, -1, 0, profiling)

    def hold_on(self, want: int, node: int) -> HeldGpus:
        del node
        return self.hold(want)

    def give(self, held: HeldGpus) -> None:
        self._free[held.kind + self._types * held.profiling] += self._wants.need[held.want]
        self.free_gpus = self._free_gpus()

    def may_join(self, want: int, held: HeldGpus) -> bool:
        return bool((self._wants.want[want].type_mask >> held.kind) & 1)

    def join(self, want: int, held: HeldGpus, sign: int) -> None:
        """GPUs are all that is counted."""

    def rooms(self, want: int) -> NodeRoom:
        del want
        return NodeRoom((), ())

    def touches(self, held: HeldGpus, node: int) -> bool:
        short = self._free[held.kind + self._types * held.profiling] < 0
        return short and held.kind == self._type[node] and self._wants.need[held.want] > 0

    def change(self, node: int, *, up: bool) -> None:
        if bool(self._up[node]) is not up:
            self._up[node] = up
            for part in (0, 1):
                amount = int(self._milli[node, part])
                self._free[self._type[node] + self._types * part] += amount if up else -amount
            self.free_gpus = self._free_gpus()


_NOWHERE = np.zeros(0, np.int64)
