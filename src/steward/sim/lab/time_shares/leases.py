"""Record of leases: every span in which a job held the same GPUs, and where."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.model.machines import Machines
from steward.model.replay import Segments

__all__ = ["Leases"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Leases:
    """A lease is extended while its job stays on the same type with the same partner.

    Jobs of a pair hold half of their GPUs each. Nodes are chosen when a lease begins: the fullest
    node that has room, else the emptiest nodes, so that wide jobs stay on few.
    """

    def __init__(self, machines: Machines, gpus: Floats) -> None:
        jobs = len(gpus)
        self.machines = machines
        self.gpus = gpus
        self.up = machines.up.copy()
        self.free = np.where(self.up, machines.gpus, 0).astype(np.float64)
        self.capacity = self._capacity()  # of each type
        self.type = np.full(jobs, -1, np.int64)  # of the running lease; -1: none
        self.partner = np.full(jobs, -1, np.int64)
        self.start_s = np.zeros(jobs)
        self.stop_s = np.zeros(jobs)
        self.work_s = np.zeros(jobs)
        self.where: dict[int, list[tuple[int, float]]] = {}
        self.rows: list[tuple[int, float, float, float, int, int, float]] = []
        self.preemptions = np.zeros(jobs, np.int64)

    def _capacity(self) -> Floats:
        """Return the GPUs of each type on the nodes that are up."""
        there = np.where(self.up, self.machines.gpus, 0)
        sums = np.bincount(self.machines.type, weights=there, minlength=len(self.machines.types))
        return sums.astype(np.float64)

    def change(self, node: int, *, up: bool) -> None:
        """Remove or add a node. Leases end: the next round places all jobs anew."""
        for job in np.flatnonzero(self.type >= 0):
            self.end(int(job))
        self.up[node] = up
        self.free = np.where(self.up, self.machines.gpus, 0).astype(np.float64)
        self.capacity = self._capacity()

    def without_gpus(self, job: int, start_s: float, stop_s: float) -> None:
        """Note a job that runs on no GPU."""
        if stop_s > start_s:
            self.rows.append((job, start_s, stop_s, 0.0, -1, 0, 1.0))

    def begin_round(self, t_s: float, jobs: Ints, types: Ints, partners: Ints) -> Ints:
        """End the leases that are not extended, begin new ones; return those that begin."""
        goes_on = np.zeros(len(self.type), np.bool_)
        same = (self.type[jobs] == types) & (self.partner[jobs] == partners)
        goes_on[jobs[same]] = True
        for job in np.flatnonzero((self.type >= 0) & ~goes_on):
            self.preemptions[job] += 1
            self.end(int(job))
        new = np.flatnonzero(~same)
        widest_first = new[np.argsort(-self.gpus[jobs[new]], kind="stable")]
        for i in widest_first:
            self._begin(t_s, int(jobs[i]), int(types[i]), int(partners[i]))
        return np.asarray(jobs[new])

    def _begin(self, t_s: float, job: int, kind: int, partner: int) -> None:
        self.type[job], self.partner[job] = kind, partner
        self.start_s[job] = self.stop_s[job] = t_s
        self.work_s[job] = 0.0
        held = self.gpus[job] if partner < 0 else self.gpus[job] / 2.0
        beside = self.where.get(partner)
        nodes = [n for n, _ in beside] if beside and self.partner[partner] == job else []
        self.where[job] = self._place(float(held), kind, nodes)

    def _place(self, gpus: float, kind: int, prefer: list[int]) -> list[tuple[int, float]]:
        mine = np.flatnonzero(self.machines.type == kind)
        room = self.free[mine]
        fitting = mine[room >= gpus - 1e-9]
        if prefer:
            order = np.array([*prefer, *mine[np.argsort(-room, kind="stable")]])
        elif len(fitting):
            order = fitting[[int(np.argmin(self.free[fitting]))]]
        else:
            order = mine[np.argsort(-room, kind="stable")]
        taken: list[tuple[int, float]] = []
        for node in order:
            part = min(gpus, float(self.free[node]))
            if part > 1e-9:
                self.free[node] -= part
                gpus -= part
                taken.append((int(node), part))
        return taken

    def work(self, jobs: Ints, stop_s: Floats, work_s: Floats) -> None:
        """Note how far the leases went and what was done in them."""
        self.stop_s[jobs] = stop_s
        self.work_s[jobs] += work_s

    def end(self, job: int) -> None:
        """Close a lease and give its GPUs back."""
        where = self.where.pop(job)
        for node, part in where:
            self.free[node] += part
        partner = int(self.partner[job])
        held = self.gpus[job] if partner < 0 else self.gpus[job] / 2.0
        span_s = float(self.stop_s[job] - self.start_s[job])
        if span_s > 0.0:
            speed = float(self.work_s[job]) / span_s
            place = (where[0][0], len({n for n, _ in where})) if where else (-1, 0)
            self.rows.append(
                (job, float(self.start_s[job]), float(self.stop_s[job]), held, *place, speed)
            )
        self.type[job] = self.partner[job] = -1

    def segments(self) -> Segments:
        """End what still runs, and return all spans in the order in which they began."""
        for job in np.flatnonzero(self.type >= 0):
            self.end(int(job))
        self.rows.sort(key=lambda row: (row[1], row[0]))
        table = np.array(self.rows, np.float64).reshape(len(self.rows), 7)
        return Segments(
            job=table[:, 0].astype(np.int64),
            start_s=table[:, 1],
            stop_s=table[:, 2],
            gpus=table[:, 3],
            node=table[:, 4].astype(np.int64),
            nodes=table[:, 5].astype(np.int64),
            speed=table[:, 6],
        )
