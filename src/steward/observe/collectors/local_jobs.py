"""Reads the jobs that steward runs on this machine, and what they can have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from steward.clients.local_jobs.devices import ForeignProcess, JobDevices
from steward.clients.local_jobs.engine import LocalEngine
from steward.clients.local_jobs.progress import JobProgress, read_progress
from steward.clients.local_jobs.suspension import Suspension
from steward.clients.local_jobs.usage import AttemptUsage
from steward.model.cluster import Cluster, Health
from steward.model.event import Availability, Event, Observation
from steward.model.frame import ENTITY, T_S, Frame, empty_frame, job_entity
from steward.model.identity import DecisionId, JobId, TenantId
from steward.model.job import Job, JobShape, JobState, Tenant
from steward.model.job_loan import JobLoan, yielding_of
from steward.model.managed_job import ManagedJob, job_of
from steward.model.view import Loan
from steward.model.yielding import Yielding, suspension_s
from steward.observe.local_usage import LocalUsage
from steward.store.jobs import JobStore

__all__ = ["LocalJobs"]


@dataclass(slots=True, kw_only=True)
class _Told:
    """What was brought so far: looks bring what is new. One that fails brings nothing."""

    mark: int | None = None  # of the store; None before the first look
    running: dict[JobId, JobProgress | None] = field(default_factory=dict)  # reported last
    # Events and notes of each open job that are in the journal.
    counts: dict[JobId, tuple[int, int]] = field(default_factory=dict)
    foreign: dict[JobId, Job] = field(default_factory=dict)
    tenants: set[TenantId] = field(default_factory=set)
    yielding: dict[JobId, Yielding] = field(default_factory=dict)
    loans: dict[DecisionId, Loan] = field(default_factory=dict)
    loan_notes: dict[DecisionId, int] = field(default_factory=dict)

    def copy(self) -> _Told:
        return replace(
            self,
            running=dict(self.running),
            counts=dict(self.counts),
            tenants=set(self.tenants),
            yielding=dict(self.yielding),
        )


class LocalJobs:
    """Jobs by the store, slots of this machine, and foreign processes as jobs nobody may touch."""

    name = "local-jobs"
    vocabulary = "canonical"

    def __init__(
        self,
        *,
        store: JobStore | None = None,
        devices: JobDevices | None = None,
        folder: Path | None = None,
        suspension: Suspension | None = None,
        grace_s: float = 0.0,
        news: Callable[[], Iterable[Event]] = tuple,
    ) -> None:
        self._store = store
        self._devices = devices
        self._folder = folder or Path()
        self._news_of_others = news  # what else happened to jobs and what they hold
        self._told = _Told()
        self._suspension = suspension
        self._engine = LocalEngine(self._folder, grace_s=grace_s)
        self._usage: LocalUsage | None = None
        if devices is not None:
            self._usage = LocalUsage(devices, AttemptUsage(self._engine))

    def available(self) -> Availability:
        if self._store is None:
            hint = "set `jobs.enabled`; `steward up` then runs it by itself"
            return Availability(status="missing", reason="no jobs are run here", hint=hint)
        return Availability(status="ok", reason="reads the jobs of this machine")

    def collect(self, t_s: float) -> Observation:
        if self._store is None or self._devices is None:
            return Observation()
        before, self._told = self._told, self._told.copy()
        try:
            return self._news_since(before, self._store, self._devices, t_s)
        except BaseException:
            self._told = before
            raise

    def has_listed(self) -> bool:
        return self._told.mark is not None

    def _news_since(
        self, before: _Told, store: JobStore, devices: JobDevices, t_s: float
    ) -> Observation:
        told, first = self._told, before.mark is None
        changed, told.mark = self._changed(store)
        node = devices.node
        loans = store.loans.open()
        jobs = [
            replace(job_of(each, node), yielding=found)
            for each, found in self._with_yielding(changed)
        ]
        events = [event for each in changed for event in self._news(each)]
        told.tenants |= {job.tenant for job in jobs}
        grown = len(told.tenants) > len(before.tenants)
        self._follow(changed)
        slots = devices.slot_node()
        return Observation(
            frame=self._steps(t_s),
            jobs=(*jobs, *self._foreign_jobs(t_s)),
            loans=self._changed_loans(loans),
            frames=(self._used(loans, t_s),),
            cluster=Cluster(id=node, nodes=(slots,)) if first and devices.slots else None,
            tenants=tuple(Tenant(id=each) for each in sorted(told.tenants)) if grown else None,
            health=dict.fromkeys((gpu.id for gpu in devices.slots), Health.GOOD),
            # Last: what others have to tell, they tell once.
            events=(*events, *self._loan_news(loans), *self._news_of_others()),
        )

    def _changed(self, store: JobStore) -> tuple[tuple[ManagedJob, ...], int]:
        told = self._told
        if told.mark is not None:
            return store.changed_since(told.mark)
        mark = store.mark  # first: what changes meanwhile is seen twice, not missed
        changed = store.open()
        told.counts = {job.id: _counts(job) for job in changed}  # an earlier run told them
        told.loan_notes = {each.id: len(each.notes) for each in store.loans.open()}
        return changed, mark

    def _news(self, job: ManagedJob) -> list[Event]:
        counts = self._told.counts
        events, notes = counts.get(job.id, (0, 0))
        counts[job.id] = _counts(job)
        if job.state.ended:
            del counts[job.id]
        lines = [
            *((each.t_s, each.state.value, each.why) for each in job.events[events:]),
            *((each.t_s, "noted", each.why) for each in job.notes[notes:]),
        ]
        return [
            Event(t_s=t_s, kind=f"job.{kind}", subject=f"job:{job.id}", text=why, source=self.name)
            for t_s, kind, why in lines
        ]

    # -- loans -----------------------------------------------------------------------------------

    def _used(self, loans: tuple[JobLoan, ...], t_s: float) -> Frame:
        assert self._store is not None and self._usage is not None  # noqa: S101, PT018
        return self._usage.sample(self._store.open(), loans, t_s)

    def _with_yielding(
        self, changed: tuple[ManagedJob, ...]
    ) -> Iterator[tuple[ManagedJob, Yielding]]:
        """Yield jobs that changed, and those about which something else can be promised now."""
        assert self._store is not None  # noqa: S101
        new = {job.id for job in changed}
        running = [each for each in self._store.open() if each.state.runs and each.id not in new]
        for job in (*changed, *running):
            found = self._yielding_of(job)
            if job.id in new or found != self._told.yielding.get(job.id):
                self._told.yielding[job.id] = found
                yield job, found
            if job.state.ended:
                self._told.yielding.pop(job.id, None)

    def _yielding_of(self, job: ManagedJob) -> Yielding:
        assert self._store is not None  # noqa: S101
        loans = self._store.loans
        known, engine = loans.measured(job.id, "call-back"), self._engine
        found = yielding_of(job, known, step_s=engine.step_s(job.id), grace_s=engine.grace_s)
        attempt = job.attempt
        if self._suspension is None or attempt is None or not job.state.runs:
            return found
        refused = self._suspension.refusal(job) or self._refused_before(job, attempt.began_s)
        if refused:
            return replace(found, refused=refused)
        size = sum(self._suspension.processes(job.id, attempt).values())
        seconds = {
            kind: suspension_s(
                loans.measured(job.id, kind) or loans.measured(None, kind), kind, size
            )
            for kind in ("suspend", "resume")
        }
        return replace(
            found,
            suspendable=True,
            suspend_s=round(seconds["suspend"], 1),
            resume_s=round(seconds["resume"], 1),
        )

    def _refused_before(self, job: ManagedJob, since_s: float) -> str:
        """Return why the driver refused to suspend this attempt, if it did."""
        assert self._store is not None  # noqa: S101
        for loan in self._store.loans.of(job.id):
            tried = loan.owner == job.id and loan.way == "suspended" and loan.asked_s >= since_s
            if tried and loan.failed.startswith("the driver"):
                return loan.failed
        return ""

    def _changed_loans(self, loans: tuple[JobLoan, ...]) -> tuple[Loan, ...]:
        now = {each.id: each.seen for each in loans if each.seen is not None}
        new = tuple(each for id_, each in now.items() if self._told.loans.get(id_) != each)
        self._told.loans = now
        return new

    def _loan_news(self, loans: tuple[JobLoan, ...]) -> list[Event]:
        """Return what happened to loans, told of both jobs."""
        assert self._store is not None  # noqa: S101
        ended = (self._store.loans.find(id_) for id_ in self._told.loan_notes)
        known = {each.id: each for each in (*ended, *loans) if each is not None}
        news = [
            Event(
                t_s=note.t_s,
                kind="job.loan",
                subject=f"job:{job}",
                text=note.text,
                source=self.name,
            )
            for loan in known.values()
            for note in loan.notes[self._told.loan_notes.get(loan.id, 0) :]
            for job in (loan.owner, loan.borrower)
        ]
        self._told.loan_notes = {each.id: len(each.notes) for each in loans}
        return news

    def _follow(self, changed: Iterable[ManagedJob]) -> None:
        for each in changed:
            if each.state.runs:
                self._told.running.setdefault(each.id, None)
            else:
                self._told.running.pop(each.id, None)

    def _steps(self, t_s: float) -> Frame:
        """Return how far the trainings are that have reported anything new."""
        engine, rows = LocalEngine(self._folder), []
        for id_, last in self._told.running.items():
            now = read_progress(engine.work_folder(id_), t_s)
            if now is not None and (last is None or (now.step, now.t_s) != (last.step, last.t_s)):
                self._told.running[id_] = now
                rows.append((now.t_s, job_entity(id_), now.step))
        if not rows:
            return empty_frame()
        schema = {T_S: pl.Float64, ENTITY: pl.String, "job.progress.step_count": pl.Float64}
        return pl.DataFrame(rows, schema=schema, orient="row").sort(T_S)

    def _foreign_jobs(self, t_s: float) -> list[Job]:
        """Return foreign processes that are new, and those that are gone as ended."""
        assert self._devices is not None  # noqa: S101
        found = {
            JobId(f"pid-{each.pid}-{each.gpu}"): each
            for each in self._devices.foreign(self._folder)
        }
        new = {
            id_: _foreign_job(id_, each, t_s)
            for id_, each in found.items()
            if id_ not in self._told.foreign
        }
        gone = [job for id_, job in self._told.foreign.items() if id_ not in found]
        self._told.foreign = {
            **{id_: job for id_, job in self._told.foreign.items() if id_ in found},
            **new,
        }
        return [
            *new.values(),
            *(each.changed(t_s, JobState.COMPLETED, "its process is gone") for each in gone),
        ]

    def close(self) -> None:
        """Do nothing: the store belongs to whoever opened it."""


def _counts(job: ManagedJob) -> tuple[int, int]:
    return len(job.events), len(job.notes)


def _foreign_job(id_: JobId, process: ForeignProcess, t_s: float) -> Job:
    return Job(
        id=id_,
        tenant=TenantId(""),
        shape=JobShape(gpus=1),
        submit_s=t_s,
        start_s=t_s,
        user=process.user,
        name=process.name,
        state=JobState.RUNNING,
        gpus=(process.gpu,),
        held=True,
    )
