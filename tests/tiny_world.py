"""One node, two GPUs, one idle holder, one job that waits: the smallest world to go round in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from factories import cluster, gpu_row, host_row, job, node, samples, tenants
from patience import LONG_S
from steward.act.desk import Desk
from steward.act.guard import Guard, Limits
from steward.act.verify import ClusterVerifier
from steward.clock import ManualClock
from steward.decide.rules.gpu_idle_while_allocated import GpuIdleWhileAllocated
from steward.decide.scheduling.give_back import GiveBack
from steward.decide.scheduling.lend_idle import LendIdle
from steward.errors import TemporaryError
from steward.learn.estimators.idle_spells import IdleSpells
from steward.learn.estimators.quiet_phases import QuietPhases
from steward.learn.patterns.idle_habits import IdleHabits
from steward.loop import Loop
from steward.model.actions import Action, Lend
from steward.model.decision import Autonomy, Decision, Receipt
from steward.model.event import Availability, Event, Observation
from steward.model.frame import job_entity, share_entity
from steward.model.identity import GpuId, JobId, TenantId
from steward.model.job import Job, JobState
from steward.model.moment import Moment
from steward.model.site import TenantCeiling
from steward.model.view import ClusterView
from steward.observe.watch import Watch
from steward.stages import Stages
from steward.store.journal import open_journal
from steward.store.learned import LearnedStates
from steward.store.recording import Recording

GPU = GpuId("n1/gpu0")


class TinyWorld:
    """A collector and an actuator. `owner_busy` wakes the holder; faults can be switched on."""

    name = "tiny"
    vocabulary = "canonical"

    def __init__(self) -> None:
        self.owner_busy = 0.0
        self.collect_fault: Exception | None = None
        self.busy_engine = False
        self.second_busy = 0.9  # of the other GPU
        self.works_on: int | None = None  # how many of the GPUs it is asked for, if not all
        self.jobs: dict[str, Job] = {
            "j1": job("j1", on=[GPU]),
            "j2": job("j2", tenant="b", submit_s=10.0),
            "j3": job("j3", on=["n1/gpu1"]),
        }
        self.changed: set[str] = set(self.jobs)
        self.carried_out: list[str] = []
        self.events: tuple[Event, ...] = ()  # for the next look
        self.ceilings: dict[TenantId, TenantCeiling] | None = None  # for the next look
        self._first = True

    def available(self) -> Availability:
        return Availability(status="ok", reason="a test")

    def collect(self, t_s: float) -> Observation:
        if self.collect_fault is not None:
            raise self.collect_fault
        first, self._first = self._first, False
        changed, self.changed = self.changed, set()
        events, self.events = self.events, ()
        ceilings, self.ceilings = self.ceilings, None
        return Observation(
            ceilings=ceilings,
            events=events,
            frame=samples(t_s, self._rows()),
            jobs=tuple(self.jobs[name] for name in sorted(changed)),
            cluster=cluster(node("n1", 2)) if first else None,
            tenants=tenants() if first else None,
        )

    def close(self) -> None: ...

    def _rows(self) -> dict[str, Any]:
        lent = bool(self.jobs["j2"].gpus)
        rows: dict[str, Any] = {
            GPU: gpu_row(0.8 if lent else self.owner_busy),
            "n1/gpu1": gpu_row(self.second_busy),
            job_entity(JobId("j1")): host_row(0.05),
            job_entity(JobId("j3")): host_row(1.2),
        }
        if lent:
            rows[share_entity(GPU, JobId("j1"))] = {"share.busy_share": self.owner_busy}
            rows[share_entity(GPU, JobId("j2"))] = {"share.busy_share": 0.8}
        return rows

    def actions(self) -> tuple[type[Action], ...]:
        return get_args(Action)

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        return self.carry_out(decision, t_s)

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        if self.busy_engine:
            raise TemporaryError("the engine is busy")
        self.carried_out.append(decision.id)
        gpus = decision.action.gpus[: self.works_on]
        borrower = self.jobs["j2"]
        if isinstance(decision.action, Lend):
            moved = replace(borrower, gpus=gpus, start_s=t_s)
            self.jobs["j2"] = moved.changed(t_s, JobState.RUNNING, "lent")
        else:
            moved = replace(borrower, gpus=(), start_s=None)
            self.jobs["j2"] = moved.changed(t_s, JobState.QUEUED, "called back")
        self.changed.add("j2")
        result: Literal["done", "partly"] = "done" if gpus == decision.action.gpus else "partly"
        return Receipt(decision=decision.id, t_s=t_s, result=result, gpus=gpus, text=result)


def tiny_loop(
    folder: Path, world: TinyWorld, clock: ManualClock, *, autonomy: Autonomy = Autonomy.AUTO
) -> Loop[ClusterView]:
    stages = Stages(
        watch=Watch([world], timeout_s=LONG_S),
        moment=Moment(),
        miners=[IdleHabits(fewest=1)],
        estimators=[QuietPhases(), IdleSpells()],
        detectors=[GpuIdleWhileAllocated()],
        policies=[GiveBack(), LendIdle()],
        desk=Desk(Guard(Limits(autonomy=autonomy)), world),
        verifier=ClusterVerifier(),
    )
    return Loop(
        stages,
        journal=open_journal(f"sqlite:///{folder / 'journal.sqlite3'}"),
        recording=Recording(folder, events=False),
        clock=clock,
        learned=LearnedStates(folder / "learned"),
    )


def turn_until(
    loop: Loop[ClusterView], clock: ManualClock, t_s: float, *, every_s: float = 10.0
) -> None:
    while clock.now_s() < t_s:
        loop.turn()
        clock.set(clock.now_s() + every_s)
