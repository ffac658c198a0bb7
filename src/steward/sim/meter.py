"""What every running job does at every time, integrated exactly.

Between two events a job runs through one shape at one speed, so all that it does is an integral of
that shape over the time it has spent in its phase. Work is conserved: a job that is slowed down
does the same work later. Nothing here is sampled; the samples are taken from the same integrals,
so that adding up telemetry gives the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.sim.cluster import BORROWER, NOBODY, OWNER, ClusterState
from steward.sim.program import SimulatedJob, Use
from steward.sim.shapes import GPU_USE, HOST_USE, Shapes

__all__ = ["Sums", "Truth", "WorkMeter"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SALT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The world's own exact account of itself.

    Times and work are summed since anybody looks (`start_s`), in GPU-seconds. Jobs are counted
    since the world began, so that submitted = queued + running + ended.
    """

    t_s: float
    loans: int
    gained_gpu_s: float  # gross less loss, redo and restore
    gross_gpu_s: float  # work of borrowers, while they could not have run elsewhere
    owner_loss_gpu_s: float  # work that owners would have done, had they been alone
    redo_gpu_s: float  # work of borrowers that has to be done again
    restore_gpu_s: float  # time in which called-back borrowers will have to restore
    busy_gpu_s: float
    held_gpu_s: float
    held_idle_gpu_s: float  # held, in no legitimate phase, and not lent
    capacity_gpu_s: float  # of healthy GPUs
    submitted: int
    queued: int
    running: int
    ended: int
    completed: int
    turned_away: int  # people who saw the queue and stayed away


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """Integrals up to one time; `work` and `loss` have one entry per slot."""

    work: Floats
    loss: Floats
    busy: float
    held: float
    idle: float
    capacity: float


class WorkMeter:
    """Arrays along the slots of running jobs and along seats of GPUs, and their integrals.

    The last slot stands for nobody, so that an empty seat can be looked up like any other.
    """

    def __init__(
        self, shapes: Shapes, cluster: ClusterState, *, random: np.random.Generator
    ) -> None:
        gpus = len(cluster)
        slots = 2 * gpus + 1  # no more jobs can run than there are seats
        self.shapes = shapes
        self.cluster = cluster
        self.salt_s: Floats = random.uniform(0.0, _SALT_S, gpus)  # GPUs of one job differ a little
        self.shape: Ints = np.full(slots, shapes.code("unallocated"), dtype=np.int64)
        self.tau_s: Floats = np.zeros(slots)
        self.since_s: Floats = np.zeros(slots)
        self.speed: Floats = np.ones(slots)
        self.size: Floats = np.zeros(slots)  # GPUs of the job
        self.peak_bytes: Floats = np.zeros(slots)
        self.lives: list[SimulatedJob | None] = [None] * slots
        self.period: Floats = np.zeros(
            (2, gpus, 2)
        )  # busy and active seconds since the last sample
        self.past: Floats = np.zeros((gpus, 2))  # the same, of those who have left since
        self.host_period: Floats = np.zeros((slots, 3))
        self._idle: NDArray[np.bool_] = np.zeros(slots, dtype=bool)
        self._settled_s: Floats = np.zeros(slots)
        self._mark: Floats = np.zeros((2, gpus, 2))
        self._host_mark: Floats = np.zeros((slots, 3))
        self._free_slots = list(range(slots - 2, -1, -1))
        self._work: Floats = np.zeros(slots)
        self._loss: Floats = np.zeros(slots)
        self._busy = self._held = self._idle_s = self._capacity = 0.0
        self._capacity_s = 0.0

    # -- coming, going and turning -------------------------------------------------------------

    def enter(self, life: SimulatedJob, t_s: float) -> None:
        """Give a job that sits on its GPUs a slot's worth of counters."""
        slot = life.slot
        self.lives[slot] = life
        self.size[slot] = len(life.gpus)
        self.peak_bytes[slot] = life.peak_bytes
        self.host_period[slot] = 0.0
        self._work[slot] = self._loss[slot] = 0.0
        self._settled_s[slot] = t_s

    def new_slot(self) -> int:
        """Return a slot that nobody uses."""
        return self._free_slots.pop()

    def turn(self, life: SimulatedJob) -> None:
        """Take over a job's new phase or speed, from `life.since_s` on."""
        slot, phase = life.slot, life.phase
        self.shape[slot] = phase.shape
        self.tau_s[slot], self.since_s[slot] = life.tau_s, life.since_s
        self.speed[slot] = life.speed
        self._idle[slot] = phase.use is Use.IDLE
        self._mark[life.seat, life.gpus] = self._gpu_reading(life.seat, life.gpus, life.since_s)
        self._host_mark[slot] = self._host_reading(np.array([slot]), life.since_s)[0]

    def leave(self, life: SimulatedJob) -> None:
        """Free a settled job's slot. What it did in this period still happened on its GPUs."""
        self.past[life.gpus] += self.period[life.seat, life.gpus]
        self.period[life.seat, life.gpus] = 0.0
        slot = life.slot
        self.lives[slot] = None
        self.size[slot] = 0.0
        self._free_slots.append(slot)

    def promote(self, gpus: Ints) -> None:
        """Move what borrowers did over to the owner's seat, which is theirs now."""
        for counters in (self.period, self._mark):
            counters[OWNER, gpus] = counters[BORROWER, gpus]
            counters[BORROWER, gpus] = 0.0

    # -- integrals -----------------------------------------------------------------------------

    def settle(self, life: SimulatedJob, t_s: float) -> None:
        """Book what one job did since it was last settled."""
        slot, seat, gpus = life.slot, life.seat, life.gpus
        reading = self._gpu_reading(seat, gpus, t_s)
        done = reading - self._mark[seat, gpus]
        self._mark[seat, gpus] = reading
        self.period[seat, gpus] += done
        host = self._host_reading(np.array([slot]), t_s)[0]
        self.host_period[slot] += host - self._host_mark[slot]
        self._host_mark[slot] = host
        work = float(done[:, 0].sum())
        self._work[slot] += work
        self._loss[slot] += work * (1.0 / self.speed[slot] - 1.0)
        self._busy += work
        elapsed_s = t_s - float(self._settled_s[slot])
        self._settled_s[slot] = t_s
        if seat == OWNER:
            lent = int((self.cluster.seats[BORROWER, gpus] != NOBODY).sum())
            self._held += len(gpus) * elapsed_s
            self._idle_s += (len(gpus) - lent) * elapsed_s * bool(self._idle[slot])

    def settle_all(self, t_s: float) -> None:
        """Book what everybody did. Sampling does this, at its own fixed times."""
        pending = self._pending(t_s)
        sums = self._sums(pending, t_s)
        for part in pending:
            self._mark[part.seat, part.gpus] = part.reading
            self.period[part.seat, part.gpus] += part.done
        slots = np.flatnonzero(self.size)
        host = self._host_reading(slots, t_s)
        self.host_period[slots] += host - self._host_mark[slots]
        self._host_mark[slots] = host
        self._settled_s[slots] = self._capacity_s = t_s
        self._work, self._loss = sums.work, sums.loss
        self._busy, self._held, self._idle_s = sums.busy, sums.held, sums.idle
        self._capacity = sums.capacity

    def settle_capacity(self, t_s: float) -> None:
        """Book the GPUs that were healthy until now; called when one breaks or is mended."""
        self._capacity += float(self.cluster.healthy.sum()) * (t_s - self._capacity_s)
        self._capacity_s = t_s

    def sums(self, t_s: float) -> Sums:
        """Return all integrals up to a time, without booking anything."""
        return self._sums(self._pending(t_s), t_s)

    def work(self, life: SimulatedJob) -> float:
        """Return the busy GPU-seconds of a settled job's run."""
        return float(self._work[life.slot])

    def loss(self, life: SimulatedJob) -> float:
        """Return what a settled job would have done more in its run, had it been alone."""
        return float(self._loss[life.slot])

    def begin(self, t_s: float) -> None:
        """Forget all that was before: somebody looks from now on."""
        self.settle_all(t_s)
        self._busy = self._held = self._idle_s = self._capacity = 0.0
        self.clear_period()

    def clear_period(self) -> None:
        """Begin another period of samples."""
        self.period[:] = 0.0
        self.past[:] = 0.0
        self.host_period[:] = 0.0

    def seat_tau_s(self, seat: int, gpus: Ints, t_s: float) -> Floats:
        """Return how far into its shape each GPU's job is, as that GPU shows it."""
        slots = self.cluster.seats[seat, gpus]
        since_s = self.speed[slots] * (t_s - self.since_s[slots])
        return np.asarray(self.tau_s[slots] + since_s + self.salt_s[gpus])

    def _gpu_reading(self, seat: int, gpus: Ints, t_s: float) -> Floats:
        shape = self.shape[self.cluster.seats[seat, gpus]]
        return self.shapes.integral(shape, self.seat_tau_s(seat, gpus, t_s), GPU_USE)

    def _host_reading(self, slots: Ints, t_s: float) -> Floats:
        tau_s = self.tau_s[slots] + self.speed[slots] * (t_s - self.since_s[slots])
        reading = self.shapes.integral(self.shape[slots], tau_s, HOST_USE)
        return np.asarray(reading * self.size[slots, None])  # one process per GPU

    def _pending(self, t_s: float) -> tuple[_Part, _Part]:
        return (self._part(OWNER, t_s), self._part(BORROWER, t_s))

    def _part(self, seat: int, t_s: float) -> _Part:
        gpus = np.flatnonzero(self.cluster.seats[seat] != NOBODY)
        reading = self._gpu_reading(seat, gpus, t_s)
        return _Part(seat, gpus, reading, reading - self._mark[seat, gpus])

    def _sums(self, pending: tuple[_Part, _Part], t_s: float) -> Sums:
        seats, size = self.cluster.seats, len(self._work)
        work = sum(
            np.bincount(seats[part.seat, part.gpus], weights=part.done[:, 0], minlength=size)
            for part in pending
        )
        held = pending[OWNER].gpus
        holder = seats[OWNER, held]
        elapsed_s = t_s - self._settled_s[holder]
        idle = self._idle[holder] & (seats[BORROWER, held] == NOBODY)
        healthy = float(self.cluster.healthy.sum())
        return Sums(
            work=self._work + work,
            loss=self._loss + work * (1.0 / self.speed - 1.0),
            busy=self._busy + float(np.sum(work)),
            held=self._held + float(elapsed_s.sum()),
            idle=self._idle_s + float(elapsed_s[idle].sum()),
            capacity=self._capacity + healthy * (t_s - self._capacity_s),
        )


class _Part(NamedTuple):
    """What the jobs on one kind of seat did since they were last settled."""

    seat: int
    gpus: Ints
    reading: Floats
    done: Floats
