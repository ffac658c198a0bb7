"""A cluster of one node that carries out what a policy decides, event by event, on views."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from factories import node
from steward.model.actions import Preempt, Start
from steward.model.cluster import Cluster, Health
from steward.model.event import Observation
from steward.model.forecast import ForecastColumn
from steward.model.identity import GpuId, JobId, TenantId
from steward.model.job import Checkpointing, Job, JobShape, JobState, Tenant
from steward.model.moment import Moment
from steward.model.trace import Trace
from steward.model.view import ClusterView
from steward.ports import Estimator, Policy

SAVES_FREE = Checkpointing(able=True)
Believe = Callable[["TinyCluster", ClusterView], Iterable[ForecastColumn]]


@dataclass(slots=True, kw_only=True)
class TinyCluster:
    """Runs a trace to its end under a live policy.

    `levels_s` are run times at which the policy should look again; `slack_s` lets it
    look a moment later, where such a time is no round number. Stopping costs nothing.
    """

    trace: Trace
    gpus: int
    policy: Policy
    tenants: tuple[Tenant, ...]
    levels_s: Callable[[int], Iterable[float]] = lambda _gpus: ()
    estimators: tuple[Estimator, ...] = ()
    believe: Believe = lambda _cluster, _view: ()
    slack_s: float = 0.0
    now_s: float = 0.0
    jobs: dict[str, Job] = field(default_factory=dict)
    start_s: dict[str, float] = field(default_factory=dict)
    end_s: dict[str, float] = field(default_factory=dict)
    stops: dict[str, int] = field(default_factory=dict)

    def run(self) -> TinyCluster:
        moment = Moment()
        nodes = node("n1", self.gpus)
        ids = [gpu.id for gpu in nodes.gpus]
        moment.fold(
            Observation(
                cluster=Cluster(id="tiny", nodes=(nodes,)),
                tenants=self.tenants,
                health=dict.fromkeys(ids, Health.GOOD),
            )
        )
        coming = list(range(len(self.trace)))
        while (now_s := self._next_s(coming)) < inf:
            self.now_s = now_s
            news = tuple(self._end())
            while coming and self.trace.submit_s[coming[0]] <= now_s:
                news = (*news, self._arrive(coming.pop(0)))
            moment.fold(Observation(jobs=news))
            view = self._believed(moment.view(now_s))
            waits = any(job.state is JobState.QUEUED for job in self.jobs.values())
            if waits:
                moment.fold(Observation(jobs=tuple(self._look(view))))
        return self

    def ran_s(self, job: Job) -> float:
        """Return how long a job has run by now."""
        return job.past.ran_s + (self.now_s - job.start_s if job.start_s is not None else 0.0)

    def duration_s(self, job: Job) -> float:
        """Return what nobody but the test knows."""
        return float(self.trace.duration_s[int(job.name)])

    def _next_s(self, coming: list[int]) -> float:
        times = [float(self.trace.submit_s[job]) for job in coming[:1]]
        for job in self.jobs.values():
            if job.start_s is not None:
                times.append(job.start_s + self.duration_s(job) - job.past.ran_s)
                levels = [
                    job.start_s + level - job.past.ran_s for level in self.levels_s(job.shape.gpus)
                ]
                times += [t_s + self.slack_s for t_s in levels if t_s + self.slack_s > self.now_s]
        return min(times, default=inf)

    def _end(self) -> Iterable[Job]:
        for job in list(self.jobs.values()):
            left_s = self.duration_s(job) - self.ran_s(job)
            if job.start_s is not None and left_s <= 1e-9:
                del self.jobs[job.id]
                self.end_s[job.id] = self.now_s
                over = job.changed(self.now_s, JobState.COMPLETED, "done")
                yield replace(over, gpus=(), end_s=self.now_s)

    def _arrive(self, row: int) -> Job:
        trace = self.trace
        id_ = JobId(str(trace.job_id[row]))
        tenant = trace.tenants[trace.tenant[row]] if trace.tenant[row] >= 0 else ""
        self.jobs[id_] = job = Job(
            id=id_,
            name=str(row),
            tenant=TenantId(tenant),
            shape=JobShape(gpus=int(trace.gpus[row])),
            submit_s=float(trace.submit_s[row]),
            checkpointing=SAVES_FREE,
        )
        return job

    def _believed(self, view: ClusterView) -> ClusterView:
        for each in self.estimators:
            each.learn(view, ())
            view = view.with_forecasts(each.predict(view))
        return view.with_forecasts(self.believe(self, view))

    def _look(self, view: ClusterView) -> Iterable[Job]:
        for decision in self.policy.decide(view):
            match decision.action:
                case Start(job=id_, gpus=gpus):
                    yield self._start(self.jobs[id_], gpus)
                case Preempt(job=id_):
                    yield self._stop(self.jobs[id_])

    def _start(self, job: Job, gpus: tuple[GpuId, ...]) -> Job:
        held = {gpu for other in self.jobs.values() for gpu in other.gpus}
        assert not held & {*gpus}, "no GPU twice"
        assert len({*gpus}) == job.shape.gpus
        self.start_s.setdefault(job.id, self.now_s)
        job = job.changed(self.now_s, JobState.RUNNING, "started")
        self.jobs[job.id] = job = replace(job, gpus=gpus, start_s=self.now_s)
        return job

    def _stop(self, job: Job) -> Job:
        self.stops[job.id] = self.stops.get(job.id, 0) + 1
        job = job.changed(self.now_s, JobState.QUEUED, "made room")
        self.jobs[job.id] = job = replace(job, gpus=(), start_s=None)
        return job


def column_of(quantity: str, values: Iterable[float]) -> ForecastColumn:
    """Return forecasts for all jobs of a view that are what they are."""
    from steward.model.forecast import About

    row = np.array(list(values), np.float64)
    return ForecastColumn(
        about=About.JOBS, quantity=quantity, low=row, mid=row, high=row, basis="an oracle"
    )
