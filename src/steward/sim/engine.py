"""The clockwork of a simulated cluster: what happens when, to whom, and what follows from it.

The engine is what a site already runs: it starts jobs, ends them at their limit, requeues them
when a GPU breaks. It knows nothing of steward but its requests: `lend`, `call_back`, `start`,
`preempt`, `drain` and `undrain`. Where `starts_jobs` is off, jobs start by request alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.errors import PermanentError
from steward.model.cluster import Health
from steward.model.event import Event
from steward.model.identity import DecisionId, GpuId, JobId, NodeId
from steward.model.job import Job, JobState
from steward.sim.cluster import BORROWER, NOBODY, OWNER, ClusterState, WaitingLine, build_cluster
from steward.sim.events import EventQueue, Rank
from steward.sim.loans import Ledger, SimulatedLoan, agreed_loan
from steward.sim.meter import WorkMeter
from steward.sim.program import Order, Phase, SimulatedJob, Use, restoring, saving
from steward.sim.scenario import Scenario
from steward.sim.shapes import measured_shapes
from steward.sim.workload import Script

__all__ = ["Engine", "EngineUpdates"]

Ints = NDArray[np.int64]
HOUR_S = 3600.0
SOURCE = "simulated"
_CERTAIN = 1  # the version of a fault that is planned for certain, and not by chance
_WHY_ENDED = {
    JobState.COMPLETED: "done",
    JobState.FAILED: "exit code 1",
    JobState.CANCELLED: "cancelled by its user",
}


class _Do(Enum):
    """What an event asks the engine to do."""

    PHASE = "phase"  # a job's phase is over
    LIMIT = "limit"  # a job has run as long as it may
    FAULT = "fault"
    REPAIR = "repair"
    ARRIVAL = "arrival"
    PASS = "pass"  # noqa: S105 - a scheduling pass


class _Event(NamedTuple):
    """`number` is a job or a GPU; a `version` that is no longer the job's makes the event void."""

    do: _Do
    number: int = 0
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineUpdates:
    """What changed since somebody last asked."""

    jobs: tuple[Job, ...]
    events: tuple[Event, ...]
    health: Mapping[GpuId, Health]
    draining: Mapping[NodeId, bool]


class Engine:
    """The state of one world and the rules by which it moves."""

    def __init__(self, scenario: Scenario, script: Script, *, seed: int, begin_s: float) -> None:
        self.scenario = scenario
        self.shapes = shapes = measured_shapes()
        self.now_s = begin_s
        self.cluster = ClusterState(build_cluster(scenario))
        self.meter = WorkMeter(shapes, self.cluster, random=np.random.default_rng([seed, 3]))
        self.ledger = Ledger(self.meter)
        self.lives: dict[int, SimulatedJob] = {}
        self.submitted = self.ended = self.completed = self.turned_away = 0
        self._line = WaitingLine()
        self._queue: EventQueue[_Event] = EventQueue()
        self._faults = np.random.default_rng([seed, 4])
        self._certain_faults = np.random.default_rng([seed, 5])
        self._taken = 0
        self._pass_s = -np.inf
        self._changed: dict[int, SimulatedJob] = {}
        self._events: list[Event] = []
        self._health: dict[GpuId, Health] = {}
        self._draining: dict[NodeId, bool] = {}
        self.starts_jobs = True
        self.started = self.preempted = 0  # by request
        self._script = script
        self._next: Order | None = None
        for order in script.initial():
            self._submit(order, begin_s)
        self._plan_arrival()
        self._plan_fault(begin_s)

    # -- time ----------------------------------------------------------------------------------

    def run_until(self, t_s: float) -> None:
        """Let everything happen that happens until `t_s`."""
        while (found := self._queue.pop_until(t_s)) is not None:
            self.now_s, _, event = found
            self._handlers[event.do](self, event, self.now_s)
        self.now_s = t_s

    def look_elsewhere(self, t_s: float) -> None:
        """Note which borrowers could run elsewhere by now."""
        self.cluster.note_free(t_s)
        self.ledger.look_elsewhere(partial(self.cluster.has_room, t_s=t_s), t_s)

    def news(self, *, everybody: bool = False) -> EngineUpdates:
        """Return what changed since the last call, or all jobs there are.

        Those who let go come first, the others by when they took their GPUs: whoever folds this
        in order never takes a borrower for a holder.
        """
        changed = self.lives | self._changed if everybody else self._changed
        lives = sorted(changed.values(), key=_reporting_order)
        news = EngineUpdates(
            jobs=tuple(life.job for life in lives),
            events=tuple(self._events),
            health=dict(self._health),
            draining=dict(self._draining),
        )
        self._changed, self._events, self._health, self._draining = {}, [], {}, {}
        return news

    @property
    def queued(self) -> int:
        """Return how many jobs wait."""
        return len(self._line)

    # -- submission and dispatch ---------------------------------------------------------------

    def _plan_arrival(self) -> None:
        self._next = self._script.following()
        if self._next is not None:
            self._queue.push(self._next.job.submit_s, Rank.ARRIVAL, _Event(_Do.ARRIVAL))

    def _on_arrival(self, _: _Event, t_s: float) -> None:
        order = self._next
        if order is None:
            return
        if self._script.submits(order, waiting=self._line.count(order.job.shape.gpus)):
            self._submit(order, t_s)
        else:
            self.turned_away += 1
        self._plan_arrival()

    def _submit(self, order: Order, t_s: float) -> None:
        life = SimulatedJob(order, self.cluster.mask(order.job.shape.gpu_models))
        self.lives[order.number] = life
        self.submitted += 1
        self._wait(life, order.job.changed(t_s, JobState.QUEUED, "submitted"), t_s)

    def _wait(self, life: SimulatedJob, job: Job, t_s: float) -> None:
        self._report(life, replace(job, gpus=(), start_s=None))
        number, gpus = life.order.number, job.shape.gpus
        self._line.join(number, gpus=gpus, mask=life.mask, priority=job.priority)
        self._want_pass(t_s)

    def _want_pass(self, t_s: float) -> None:
        if self._pass_s != t_s:
            self._pass_s = t_s
            self._queue.push(t_s, Rank.PASS, _Event(_Do.PASS))

    def _on_pass(self, _: _Event, t_s: float) -> None:
        self._pass_s = -np.inf
        while self.starts_jobs and (number := self._line.first(self.cluster.fits)) is not None:
            life = self.lives[number]
            self._start(life, self.cluster.place(life.job.shape.gpus, life.mask), t_s)
        self.cluster.note_free(t_s)

    # -- starting, going on and stopping -------------------------------------------------------

    def _start(
        self, life: SimulatedJob, rows: Ints, t_s: float, *, loan: SimulatedLoan | None = None
    ) -> None:
        number = life.order.number
        self._line.leave(number)
        if not life.program.phases:
            life.program = self._script.program(life.order)
        self._taken += 1
        life.slot, life.gpus, life.loan, life.taken = self.meter.new_slot(), rows, loan, self._taken
        self.cluster.take(rows, life.slot, life.seat)
        life.uncover(t_s)
        if life.saved_s > 0:
            life.cover(restoring(self.shapes, life.job.checkpointing.restore_s), t_s)
        gpus = tuple(self.cluster.ids[row] for row in rows.tolist())
        why = "started" if loan is None else f"borrows from job {loan.owner.id}"
        job = life.job.changed(t_s, JobState.RUNNING, why)
        self._report(life, replace(job, gpus=gpus, start_s=t_s))
        life.until_s = t_s + life.order.limit_s
        self._queue.push(life.until_s, Rank.END, _Event(_Do.LIMIT, number, life.taken))
        self.meter.enter(life, t_s)
        self._turn(life, t_s)

    def _report(self, life: SimulatedJob, job: Job) -> None:
        life.job = job
        self._changed[life.order.number] = life

    def _turn(self, life: SimulatedJob, t_s: float) -> None:
        """Go on in the phase that a settled job is in now, and let its neighbours feel it."""
        self.meter.turn(life)
        self._plan(life)
        self._pace(life if life.loan is None else life.loan.owner, t_s)

    def _plan(self, life: SimulatedJob) -> None:
        life.epoch += 1
        ends_s = life.since_s + (life.phase.seconds - life.tau_s) / life.speed
        if ends_s <= life.until_s:
            event = _Event(_Do.PHASE, life.order.number, life.epoch)
            self._queue.push(max(ends_s, self.now_s), Rank.END, event)

    def _pace(self, owner: SimulatedJob, t_s: float) -> None:
        """Set the speeds of a holder and of all who borrow from it.

        Two who ask for more than a whole GPU together get it in parts of what they ask for. A job
        runs as one on all its GPUs, so the slowest of them sets its speed.
        """
        if not owner.loans and owner.speed == 1.0:
            return
        self.meter.settle(owner, t_s)
        self.ledger.split_loss(owner)
        demand = self.shapes.demand
        asks = float(demand[owner.phase.shape])
        speeds = [
            1.0 / max(1.0, asks + float(demand[loan.borrower.phase.shape])) for loan in owner.loans
        ]
        slowed = sum(1.0 - speed for speed in speeds)
        for loan, speed in zip(owner.loans, speeds, strict=True):
            loan.weight = (1.0 - speed) / slowed if slowed else 0.0
            self._set_speed(loan.borrower, speed, t_s)
        self._set_speed(owner, min(speeds, default=1.0), t_s)

    def _set_speed(self, life: SimulatedJob, speed: float, t_s: float) -> None:
        if life.speed == speed:
            return
        self.meter.settle(life, t_s)
        life.tau_s, life.since_s, life.speed = life.tau_at(t_s), t_s, speed
        self.meter.turn(life)
        self._plan(life)

    def _on_phase(self, event: _Event, t_s: float) -> None:
        life = self.lives.get(event.number)
        if life is None or life.epoch != event.version:
            return
        self.meter.settle(life, t_s)
        life.tau_s, life.since_s = life.phase.seconds, t_s
        if life.overlay is not None:
            self._end_overlay(life, life.overlay, t_s)
            return
        saved = life.phase.use is Use.SAVE
        if not life.following(t_s):
            self._end(life, t_s, life.order.ends, _WHY_ENDED[life.order.ends])
            return
        if saved:
            life.save(self.meter.work(life))
        self._turn(life, t_s)

    def _end_overlay(self, life: SimulatedJob, overlay: Phase, t_s: float) -> None:
        if overlay.use is Use.SAVE and (life.loan is not None or life.stopping):
            why = "preempted" if life.stopping else "called back"
            self._requeue(life, t_s, why, kept=True)
            return
        if overlay.use is Use.SAVE:  # the owner left meanwhile: nobody wants the GPUs back
            life.save(self.meter.work(life))
        life.uncover(t_s)
        self._turn(life, t_s)

    def _on_limit(self, event: _Event, t_s: float) -> None:
        life = self.lives.get(event.number)
        if life is not None and life.running and life.taken == event.version:
            self._end(life, t_s, JobState.FAILED, "time limit reached")

    def _end(self, life: SimulatedJob, t_s: float, state: JobState, why: str) -> None:
        self.meter.settle(life, t_s)
        self._leave(life, t_s)
        self._report(life, replace(life.job.changed(t_s, state, why), gpus=(), end_s=t_s))
        del self.lives[life.order.number]
        self.ended += 1
        self.completed += state is JobState.COMPLETED
        if state is JobState.FAILED:
            self._event(t_s, "job.failed", f"job:{life.id}", f"job {life.id}: {why}")

    def _requeue(self, life: SimulatedJob, t_s: float, why: str, *, kept: bool) -> None:
        """Put a settled job back in line, with what it has done or with what it had saved."""
        redo = restore = lost_s = 0.0
        work = self.meter.work(life)
        if kept:
            life.save(work)
        else:
            lost_s = life.done_s(t_s) - life.saved_s
            redo = work - life.saved_work
        if life.saved_s > 0:
            restore = life.job.checkpointing.restore_s * len(life.gpus)
        self._leave(life, t_s, redo=redo, restore=restore)
        self._wait(life, life.job.changed(t_s, JobState.QUEUED, why, lost_s=lost_s), t_s)

    def _leave(
        self, life: SimulatedJob, t_s: float, *, redo: float = 0.0, restore: float = 0.0
    ) -> None:
        """Take a settled job off its GPUs. Who borrows some of them holds them from now on."""
        self.ledger.split_loss(life)
        given, taken = list(life.loans), life.loan
        for loan in given:
            self.meter.settle(loan.borrower, t_s)
            self.ledger.close(loan)
        if taken is not None:
            self.meter.settle(taken.owner, t_s)
            self.ledger.split_loss(taken.owner)
            self.ledger.close(taken, redo=redo, restore=restore)
        self.ledger.remember(life)
        self.meter.leave(life)
        self.cluster.release(life.gpus, life.seat)
        life.stop()
        for loan in given:
            self._promote(loan, t_s)
        if taken is not None:
            self._pace(taken.owner, t_s)
        self._want_pass(t_s)

    def _promote(self, loan: SimulatedLoan, t_s: float) -> None:
        self.cluster.promote(loan.gpus)
        self.meter.promote(loan.gpus)
        borrower = loan.borrower
        borrower.loan = None
        why = f"holds its GPUs since job {loan.owner.id} left them"
        self._report(borrower, borrower.job.changed(t_s, JobState.RUNNING, why))
        self._pace(borrower, t_s)

    # -- hardware ------------------------------------------------------------------------------

    def _plan_fault(self, t_s: float) -> None:
        per_s = self.scenario.failures_per_gpu_hour * len(self.cluster) / HOUR_S
        if per_s > 0:
            row = int(self._faults.integers(len(self.cluster)))
            at_s = t_s + float(self._faults.exponential(1.0 / per_s))
            self._queue.push(at_s, Rank.FAULT, _Event(_Do.FAULT, row))

    def plan_certain_fault(self, at_s: float) -> None:
        """Let some GPU fail at a time, besides those that fail by chance."""
        row = int(self._certain_faults.integers(len(self.cluster)))
        self._queue.push(at_s, Rank.FAULT, _Event(_Do.FAULT, row, _CERTAIN))

    def _on_fault(self, event: _Event, t_s: float) -> None:
        random = self._faults if event.version != _CERTAIN else self._certain_faults
        repair_s = float(random.exponential(self.scenario.repair_s))
        if event.version != _CERTAIN:
            self._plan_fault(t_s)
        row = event.number
        if not self.cluster.healthy[row]:
            return
        gpu = self.cluster.ids[row]
        for seat in (BORROWER, OWNER):
            slot = int(self.cluster.seats[seat, row])
            life = None if slot == NOBODY else self.meter.lives[slot]
            if life is not None:
                self.meter.settle(life, t_s)
                self._requeue(life, t_s, f"{gpu} failed", kept=False)
        self._set_health(row, t_s, healthy=False)
        self._event(t_s, "gpu.failed", gpu, f"{gpu} fell off the bus")
        self._queue.push(t_s + repair_s, Rank.REPAIR, _Event(_Do.REPAIR, row))

    def _on_repair(self, event: _Event, t_s: float) -> None:
        self._set_health(event.number, t_s, healthy=True)
        gpu = self.cluster.ids[event.number]
        self._event(t_s, "gpu.repaired", gpu, f"{gpu} is back")
        self._want_pass(t_s)

    def _set_health(self, row: int, t_s: float, *, healthy: bool) -> None:
        self.meter.settle_capacity(t_s)
        self._health[self.cluster.ids[row]] = self.cluster.set_health(row, healthy=healthy)

    def _event(self, t_s: float, kind: str, subject: str, text: str) -> None:
        self._events.append(Event(t_s=t_s, kind=kind, subject=subject, text=text, source=SOURCE))

    # -- requests ------------------------------------------------------------------------------

    def find(self, job: JobId) -> SimulatedJob | None:
        """Return a job that waits or runs."""
        return self.lives.get(int(job)) if job.isdecimal() else None

    def lend(self, id_: DecisionId, gpus: Sequence[GpuId], owner: JobId, borrower: JobId) -> None:
        """Start a waiting job beside the one that holds some GPUs, now."""
        sides = (self.find(owner), self.find(borrower))
        loan = agreed_loan(id_, self.cluster, gpus, owner=sides[0], borrower=sides[1])
        self.meter.settle(loan.owner, self.now_s)
        self.ledger.split_loss(loan.owner)
        self.ledger.begin(loan)
        self._start(loan.borrower, loan.gpus, self.now_s, loan=loan)

    def call_back(self, loan: SimulatedLoan) -> None:
        """Have a borrower save itself and leave, or leave at once if it can't save."""
        borrower, t_s = loan.borrower, self.now_s
        how = borrower.job.checkpointing
        if loan.called_back:
            return
        self.meter.settle(borrower, t_s)
        if not how.able or borrower.overlay is not None:  # while restoring, nothing is new
            self._requeue(borrower, t_s, "called back", kept=how.able)
        else:
            borrower.cover(saving(self.shapes, how.save_s), t_s)
            self._turn(borrower, t_s)

    def start(self, id_: DecisionId, job: JobId, gpus: Sequence[GpuId]) -> None:
        """Start a waiting job on free GPUs, now; raise with all that speaks against it."""
        life = self.find(job)
        rows = np.array([self.cluster.row.get(gpu, NOBODY) for gpu in gpus], dtype=np.int64)
        faults = [f"there is no {gpu}" for gpu in gpus if gpu not in self.cluster.row]
        if life is None or life.running:
            faults.append(f"job {job} does not wait")
        elif not faults:
            faults += self._unfit(life, rows)
        if faults or life is None:
            raise PermanentError(
                f"job {job} can't be started: {'; '.join(faults)}",
                where=f"decision {id_}",
                hint="the cluster has changed since this was decided; decide anew",
            )
        self.started += 1
        self._start(life, rows, self.now_s)

    def _unfit(self, life: SimulatedJob, rows: Ints) -> list[str]:
        cluster, faults = self.cluster, []
        if len({*rows.tolist()}) != life.job.shape.gpus or len(rows) != life.job.shape.gpus:
            faults.append(f"it needs {life.job.shape.gpus} GPUs and would get {len(rows)}")
        for row in rows.tolist():
            if bool((cluster.seats[:, row] != NOBODY).any()):
                faults.append(f"{cluster.ids[row]} is in use")
            elif not cluster.healthy[row] or cluster.draining[cluster.node[row]]:
                faults.append(f"{cluster.ids[row]} is broken or draining")
            elif not life.mask >> int(cluster.model[row]) & 1:
                faults.append(f"it can't run on the model of {cluster.ids[row]}")
        return faults

    def preempt(self, id_: DecisionId, job: JobId) -> int:
        """Have a running job save itself and go back into the queue; return which run it was."""
        life = self.find(job)
        able = life is not None and life.job.checkpointing.able
        if life is None or not life.running or life.loan is not None or life.loans or not able:
            raise PermanentError(
                f"job {job} can't be preempted: it does not run, shares GPUs or can't save",
                where=f"decision {id_}",
                hint="the cluster has changed since this was decided; decide anew",
            )
        taken, t_s = life.taken, self.now_s
        if life.stopping:
            return taken
        self.preempted += 1
        self.meter.settle(life, t_s)
        if life.overlay is not None:  # while restoring, nothing is new
            self._requeue(life, t_s, "preempted", kept=True)
        else:
            life.stopping = True
            life.cover(saving(self.shapes, life.job.checkpointing.save_s), t_s)
            self._turn(life, t_s)
        return taken

    def is_over(self, job: JobId, taken: int) -> bool:
        """Return whether a job has left the GPUs that it had in its run number `taken`."""
        life = self.find(job)
        return life is None or not life.running or life.taken != taken

    def drain(self, node: NodeId, *, draining: bool) -> None:
        """Start nothing new on a node, or allow it again."""
        row = self.cluster.node_row.get(node)
        if row is None:
            raise PermanentError(f"there is no node {node}", where="simulated", hint="see `nodes`")
        self.cluster.draining[row] = draining
        self._draining[node] = draining
        self._want_pass(self.now_s)

    _handlers: ClassVar[Mapping[_Do, Callable[[Engine, _Event, float], None]]] = {
        _Do.PHASE: _on_phase,
        _Do.LIMIT: _on_limit,
        _Do.FAULT: _on_fault,
        _Do.REPAIR: _on_repair,
        _Do.ARRIVAL: _on_arrival,
        _Do.PASS: _on_pass,
    }


def _reporting_order(life: SimulatedJob) -> tuple[int, int]:
    if life.job.state.ended:
        return (0, life.order.number)
    return (2, life.taken) if life.running else (1, life.order.number)
