"""GPUs on nodes: chosen by a placement, with CPUs, memory and how far apart they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.decide.placement import (
    Demand,
    NodeOccupancy,
    Placement,
    give,
    locality,
    place,
    place_unscored,
    take,
)
from steward.model.machines import Machines
from steward.sim.lab.colocation.gpu_pools import MILLI, HeldGpus, NodeRoom, PairDemands

__all__ = ["PlacedPools"]

Ints = NDArray[np.int64]


class PlacedPools:
    """Every node is a row; what is set apart for profiling is a row of its own, of its own type."""

    def __init__(
        self,
        machines: Machines,
        wants: PairDemands,
        parts: Ints,
        *,
        placement: Placement,
        slowdown: tuple[float, ...],
        keeps_sizes_together: bool,
    ) -> None:
        self._machines, self._wants = machines, wants
        self._placement, self._slowdown = int(placement), slowdown
        self._apart = np.flatnonzero(parts)
        self._types = len(machines.types)
        self._node: list[int] = [*range(len(machines)), *self._apart.tolist()]
        self._together = keeps_sizes_together
        sizes = keeps_sizes_together or placement >= Placement.FGD
        self._nodes = _rows(machines, parts, sizes=sizes)
        self._out = (np.zeros(len(self._node), np.int64), np.zeros(len(self._node), np.int64))
        self._full: tuple[set[int], set[int]] = (set(), set())  # wants, in the cluster and apart
        self._found: tuple[int, bool, int] | None = None
        self._fractions = any(want.milli for want in wants.want)
        self._movable = bool(
            np.isnan(machines.cpus).all() and np.isnan(machines.memory_bytes).all()
        )
        self.free_gpus = 0
        self._recount()

    def _recount(self) -> None:
        here = slice(0, len(self._machines))
        self.free_gpus = int(self._nodes.free[here][self._nodes.up[here]].sum())

    def could_ever(self, want: int) -> bool:
        empty = _rows(self._machines, np.zeros(len(self._machines), np.int64), sizes=False)
        size = self._nodes.gpus[: len(self._machines)].copy()
        empty = empty._replace(free=size, gpus=size, up=np.ones(len(size), np.bool_))
        kind = min(self._placement, int(Placement.TOPOLOGY))
        return place_unscored(kind, empty, self._wants.want[want], *self._out) > 0

    def _want(self, want: int, *, profiling: bool) -> Demand:
        asked = self._wants.want[want]
        return asked._replace(type_mask=asked.type_mask << self._types) if profiling else asked

    def fits(self, want: int, *, profiling: bool = False) -> bool:
        if want in self._full[profiling]:
            return False
        if self._found is not None and self._found[:2] == (want, profiling):
            return True
        asked = self._want(want, profiling=profiling)
        if asked.gpus > self.free_gpus and not profiling:
            return False
        self._found = None  # a search that fails leaves traces too
        n = self._place_beside_equals(asked) if self._together and asked.gpus > 0 else 0
        if n == 0:
            by = place_unscored if self._placement < Placement.FGD else place
            n = by(self._placement, self._nodes, asked, *self._out)
        if n == 0:
            self._full[profiling].add(want)
            return False
        self._found = (want, profiling, n)
        return True

    def _place_beside_equals(self, asked: Demand) -> int:
        """Put a gang on the fullest node that holds it and another one of its size, if any does."""
        nodes = self._nodes
        size = min(asked.gpus, nodes.sizes.shape[1] - 1)
        able = nodes.up & ((asked.type_mask >> nodes.type) & 1 == 1) & (nodes.free >= asked.gpus)
        able &= (nodes.cpus_free >= asked.cpus) & (nodes.memory_free >= asked.memory)
        able &= nodes.sizes[:, size] > 0
        found = np.flatnonzero(able)
        if len(found) == 0:
            return 0
        self._out[0][0] = found[np.argmin(nodes.free[found])]
        self._out[1][0] = asked.gpus
        return 1

    def hold(self, want: int, *, profiling: bool = False) -> HeldGpus:
        found = self.fits(want, profiling=profiling)
        assert found and self._found is not None  # noqa: S101, PT018 - asked for what does not fit
        n = self._found[2]
        return self._take(want, self._out[0][:n].copy(), self._out[1][:n].copy(), profiling)

    def hold_on(self, want: int, node: int) -> HeldGpus:
        gpus = self._wants.want[want].gpus
        return self._take(want, np.array([node]), np.array([gpus]), profiling=False)

    def _take(self, want: int, rows: Ints, gpus: Ints, profiling: bool) -> HeldGpus:  # noqa: FBT001
        n = len(rows)
        take(self._nodes, self._want(want, profiling=profiling), rows, gpus, n)
        self._found = None
        self._count(want, -1, profiling=profiling)
        far = 0 if n == 1 else locality(self._nodes, rows, n)
        first = int(rows[0])
        kind = int(self._nodes.type[first]) % self._types
        return HeldGpus(
            want, kind, rows, gpus, self._slowdown[far], self._node[first], n, profiling
        )

    def _count(self, want: int, sign: int, *, profiling: bool) -> None:
        if self._fractions:
            self._recount()
        elif not profiling:
            self.free_gpus += sign * self._wants.want[want].gpus

    def give(self, held: HeldGpus) -> None:
        asked = self._want(held.want, profiling=held.profiling)
        give(self._nodes, asked, held.rows, held.gpus, len(held.rows))
        self._found = None
        self._full[held.profiling].clear()
        self._count(held.want, 1, profiling=held.profiling)

    def may_join(self, want: int, held: HeldGpus) -> bool:
        asked = self._wants.want[want]
        if not (asked.type_mask >> held.kind) & 1:
            return False
        if asked.cpus == 0.0 and asked.memory == 0.0:
            return True
        share = held.gpus / max(asked.gpus, 1)
        slack = 1.0 - 1e-9
        return bool(
            (self._nodes.cpus_free[held.rows] >= asked.cpus * share * slack).all()
            and (self._nodes.memory_free[held.rows] >= asked.memory * share * slack).all()
        )

    def join(self, want: int, held: HeldGpus, sign: int) -> None:
        asked = self._wants.want[want]
        if asked.cpus == 0.0 and asked.memory == 0.0:
            return
        share = held.gpus / max(asked.gpus, 1)
        self._nodes.cpus_free[held.rows] -= sign * asked.cpus * share
        self._nodes.memory_free[held.rows] -= sign * asked.memory * share
        self._full[0].clear()
        self._found = None

    def rooms(self, want: int) -> NodeRoom:
        if not self._movable:
            return NodeRoom((), ())
        kind = self._machines.type
        here = slice(0, len(kind))
        able = self._nodes.up[here] & (((self._wants.want[want].type_mask >> kind) & 1) == 1)
        return NodeRoom(np.where(able, self._nodes.free[here], 0).tolist(), kind.tolist())

    def touches(self, held: HeldGpus, node: int) -> bool:
        return any(self._node[int(row)] == node for row in held.rows)

    def change(self, node: int, *, up: bool) -> None:
        for row, real in enumerate(self._node):
            if real == node:
                self._nodes.up[row] = up
        for full in self._full:
            full.clear()
        self._found = None
        self._recount()


def _rows(machines: Machines, parts: Ints, *, sizes: bool) -> NodeOccupancy:
    """Return all nodes without what is set apart, and then that."""
    apart = np.flatnonzero(parts)
    gpus = np.concatenate([machines.gpus - parts, parts[apart]])
    node = np.concatenate([np.arange(len(machines)), apart])
    share = np.where(gpus > 0, gpus, 1) / np.maximum(machines.gpus[node], 1)
    kind = machines.type[node]
    kind[len(machines) :] += len(machines.types)
    widest = int(gpus.max(initial=0))
    inside = np.arange(widest)[None, :] < gpus[:, None]
    return NodeOccupancy(
        free=gpus.copy(),
        gpus=gpus,
        milli=np.where(inside, MILLI, 0).astype(np.int64),
        cpus_free=np.where(np.isnan(machines.cpus), np.inf, machines.cpus)[node] * share,
        memory_free=np.where(np.isnan(machines.memory_bytes), np.inf, machines.memory_bytes)[node]
        * share,
        type=kind,
        rack=machines.rack[node],
        switch=machines.switch[node],
        cluster=machines.cluster[node],
        up=machines.up[node],
        mig=machines.mig_slices[node],
        sizes=np.zeros((len(node), widest + 1 if sizes else 0), np.int64),
    )
