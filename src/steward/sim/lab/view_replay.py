"""Replays a trace through the live loop's own parts: views, estimators, a policy's decisions.

Slow and general: any policy of the port can be replayed, one from another package too. Decisions
are carried out at once. The rank-based policies have a compiled engine (`rigid`), which does the
same thousands of times faster; `benchmarks/live_agreement.py` compares the two.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from steward.errors import StewardError
from steward.model.actions import Preempt, Resume, Start
from steward.model.cluster import GIB, Cluster, Gpu, GpuModel, Health, Node
from steward.model.event import Observation
from steward.model.forecast import RUN_TYPICAL_S, About, ForecastColumn
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.job import Checkpointing, Job, JobShape, JobState, Tenant
from steward.model.machines import Machines
from steward.model.moment import Moment
from steward.model.replay import Replay, Segments
from steward.model.trace import Trace
from steward.model.view import ClusterView
from steward.ports import Estimator, Policy
from steward.sim.lab.rigid.replay import time_limits
from steward.sim.lab.settings import LabSettings

__all__ = ["ViewReplay", "replay_views"]

TURN_S = 300.0  # a policy that keeps to no levels of run time is asked so often while jobs wait
LOOKS = 4  # at one instant, as in the compiled engine: stopped jobs may find room elsewhere
Believe = Callable[["ViewReplay", ClusterView], Iterable[ForecastColumn]]
_ROUNDING_S = 1e-9


def replay_views(
    trace: Trace,
    machines: Machines,
    policy: Policy[ClusterView],
    settings: LabSettings,
    *,
    estimators: tuple[Estimator[ClusterView], ...] = (),
) -> Replay:
    """Replay a trace under any policy that decides on views of a cluster."""
    return ViewReplay(
        trace=trace,
        machines=machines,
        policy=policy,
        settings=settings,
        estimators=estimators,
        turn_s=TURN_S,
    ).run()


@dataclass(slots=True, kw_only=True, eq=False)
class ViewReplay:
    """One replay. `levels_s` are run times, by GPUs, at which the policy is asked again.

    `gang_wait_s` is the time of waiting after which it is asked again about a job of several GPUs.
    `believe` adds forecasts to every view; `turn_s` 0 asks at events only.
    """

    trace: Trace
    machines: Machines
    policy: Policy[ClusterView]
    settings: LabSettings
    estimators: tuple[Estimator[ClusterView], ...] = ()
    levels_s: Callable[[int], Iterable[float]] = lambda _gpus: ()
    believe: Believe = lambda _replay, _view: ()
    turn_s: float = 0.0
    gang_wait_s: float = inf
    now_s: float = 0.0
    row_of: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    _wakes_s: set[float] = field(default_factory=set)
    _work_s: dict[str, float] = field(default_factory=dict)
    _spans: list[tuple[int, float, float, int, int]] = field(default_factory=list)
    _ignored: Counter[str] = field(default_factory=Counter)
    _asked: int = 0
    _look: int = 0  # at this instant
    _looks_by_stop: dict[tuple[str, float], int] = field(default_factory=dict)
    _looks_by_start: dict[tuple[str, float], int] = field(default_factory=dict)
    _gpus: frozenset[GpuId] = frozenset()

    def run(self) -> Replay:
        """Run all jobs to their end, or until the policy starts none any more."""
        _check(self.trace, self.machines, self.policy.name)
        began = time.process_time()
        found = _Columns(len(self.trace))
        moment = Moment(stale_after_s=inf)  # machines of a replay are never silent
        cluster = self._cluster()
        self._gpus = frozenset(cluster.health)
        moment.fold(cluster)
        coming = list(range(len(self.trace)))[::-1]
        while (now_s := self._next_s(coming)) < inf:
            self.now_s = now_s
            news = list(self._end(found))
            while coming and self.trace.submit_s[coming[-1]] <= now_s:
                news.append(self._arrive(coming.pop()))
            moment.fold(Observation(jobs=tuple(news)))
            for self._look in range(LOOKS):
                view = self._believed(self._in_order_of_looks(moment.view(now_s)))
                stopped = found.stops.sum()
                if any(job.state is JobState.QUEUED for job in self.jobs.values()):
                    moment.fold(Observation(jobs=tuple(self._ask(view, found))))
                if found.stops.sum() == stopped:
                    break
            for each in self.estimators:  # the live loop has its next view seconds later
                each.learn(moment.view(now_s), ())
        return self._record(found, time.process_time() - began)

    def ran_s(self, job: Job) -> float:
        """Return how long a job has run by now."""
        return job.past.ran_s + (self.now_s - job.start_s if job.start_s is not None else 0.0)

    def duration_s(self, job: Job) -> float:
        """Return what no policy knows."""
        return float(self.trace.duration_s[self.row_of[job.id]])

    # -- time ----------------------------------------------------------------------------------

    def _next_s(self, coming: list[int]) -> float:
        times = [float(self.trace.submit_s[row]) for row in coming[-1:]]
        times += self._wakes_s
        waits = False
        for job in self.jobs.values():
            if job.start_s is None:
                waits = True
                overdue_s = job.past.queued_s + self.gang_wait_s
                if job.shape.gpus > 1 and self.now_s < overdue_s < inf:
                    times.append(overdue_s)
            if job.start_s is not None:
                ran_s = job.past.ran_s
                # as the compiled engine counts: jobs that meet at an instant meet there, too
                times.append(job.start_s + (self.duration_s(job) - ran_s))
                levels = (job.start_s + (level - ran_s) for level in self.levels_s(job.shape.gpus))
                times += [t_s for t_s in levels if t_s > self.now_s]
        if waits and self.turn_s and times:
            times.append(self.now_s + self.turn_s)
        return min(times, default=inf)

    def _end(self, found: _Columns) -> Iterator[Job]:
        running = [job for job in self.jobs.values() if job.start_s is not None]
        for job in sorted(running, key=lambda each: (each.start_s, self.row_of[each.id])):
            if self.duration_s(job) - self.ran_s(job) <= _ROUNDING_S * max(self.now_s, 1.0):
                del self.jobs[job.id]
                found.end_s[self.row_of[job.id]] = self.now_s
                self._close_span(job)
                over = job.changed(self.now_s, JobState.COMPLETED, "done")
                yield replace(over, gpus=(), end_s=self.now_s)

    def _arrive(self, row: int) -> Job:
        trace, deadline_s = self.trace, float(self.trace.deadline_s[row])
        tenant = trace.tenants[trace.tenant[row]] if trace.tenant[row] >= 0 else ""
        job = Job(
            id=JobId(str(trace.job_id[row])),
            name=trace.models[trace.model[row]] if trace.model[row] >= 0 else "",
            user=trace.users[trace.user[row]] if trace.user[row] >= 0 else "",
            tenant=TenantId(tenant),
            shape=JobShape(gpus=int(trace.gpus[row])),
            submit_s=float(trace.submit_s[row]),
            priority=int(trace.priority[row]),
            deadline_s=None if np.isnan(deadline_s) else float(trace.submit_s[row]) + deadline_s,
            time_limit_s=float(time_limits(trace)[row]),
            checkpointing=Checkpointing(able=True),
        )
        self.row_of[job.id] = row
        self.jobs[job.id] = job
        return job

    # -- the policy ----------------------------------------------------------------------------

    def _in_order_of_looks(self, view: ClusterView) -> ClusterView:
        """Let jobs that were stopped or started at one instant be in the order of its looks.

        The live loop looks at a time of its own every time; here several looks are at one time.
        """
        queued_s, began_s = view.jobs.queued_s.copy(), view.jobs.began_s.copy()
        for row, id_ in enumerate(view.jobs.ids.tolist()):
            for at_s, looks in (
                (queued_s, self._looks_by_stop),
                (began_s, self._looks_by_start),
            ):
                at_s[row] += looks.get((id_, float(at_s[row])), 0) * np.spacing(at_s[row])
        return replace(view, jobs=replace(view.jobs, queued_s=queued_s, began_s=began_s))

    def _believed(self, view: ClusterView) -> ClusterView:
        for each in self.estimators:
            each.learn(view, ())
            view = view.with_forecasts(each.predict(view))
        view = view.with_forecasts(self.believe(self, view))
        left = view.forecast(About.JOBS, RUN_TYPICAL_S)
        due_s = view.jobs.deadline_s[~np.isnan(view.jobs.deadline_s)]
        self._wakes_s = set()  # by other beliefs, or for jobs that have ended: no longer
        if left is not None and len(due_s):
            urgent_s = view.jobs.deadline_s - left.mid
            times_s = np.concatenate((urgent_s, due_s)).tolist()
            self._wakes_s = {t_s for t_s in times_s if t_s > self.now_s}
        return view

    def _ask(self, view: ClusterView, found: _Columns) -> Iterator[Job]:
        self._asked += 1
        for decision in self.policy.decide(view):
            match decision.action:
                case Start(job=id_, gpus=gpus) | Resume(job=id_, gpus=gpus):
                    yield self._start(id_, gpus, found)
                case Preempt(job=id_):
                    yield self._stop(id_, found)
                case other:
                    self._ignored[other.type] += 1

    def _start(self, id_: JobId, gpus: tuple[GpuId, ...], found: _Columns) -> Job:
        job = self.jobs.get(id_)
        if job is None or job.start_s is not None or not self._are_free(gpus, job.shape.gpus):
            raise StewardError(
                f"{self.policy.name} starts job {id_} on {', '.join(gpus)} at {self.now_s:g} s, "
                "which cannot be done",
                where=self.trace.name,
                hint="a job starts once, on as many free GPUs as it asks for",
            )
        row = self.row_of[id_]
        found.start_s[row] = np.fmin(found.start_s[row], self.now_s)
        job = job.changed(self.now_s, JobState.RUNNING, "started")
        self._looks_by_start[id_, self.now_s] = self._look
        self.jobs[id_] = job = replace(job, gpus=gpus, start_s=self.now_s)
        return job

    def _are_free(self, gpus: tuple[GpuId, ...], count: int) -> bool:
        """Return True if these are `count` different GPUs of the cluster that no job holds."""
        held = {gpu for other in self.jobs.values() for gpu in other.gpus}
        return len(gpus) == len(({*gpus} & self._gpus) - held) == count

    def _stop(self, id_: JobId, found: _Columns) -> Job:
        job = self.jobs.get(id_)
        if job is None or job.start_s is None:
            raise StewardError(
                f"{self.policy.name} stops job {id_} at {self.now_s:g} s, which does not run",
                where=self.trace.name,
                hint="only a job that runs can be stopped",
            )
        self._looks_by_stop[id_, self.now_s] = self._look
        self._close_span(job)
        found.stops[self.row_of[id_]] += 1
        job = job.changed(self.now_s, JobState.QUEUED, "made room")
        self.jobs[id_] = job = replace(job, gpus=(), start_s=None)
        return job

    # -- the record ----------------------------------------------------------------------------

    def _close_span(self, job: Job) -> None:
        nodes = sorted({int(gpu.partition("/")[0][1:]) for gpu in job.gpus})
        began_s = job.start_s if job.start_s is not None else self.now_s
        self._spans.append((self.row_of[job.id], began_s, self.now_s, nodes[0], len(nodes)))

    def _cluster(self) -> Observation:
        machines, digits = self.machines, len(str(len(self.machines)))
        models = [_model(name) for name in machines.types]
        nodes = []
        for row, count in enumerate(machines.gpus.tolist()):
            node = NodeId(f"n{row:0{digits}d}")
            model = models[machines.type[row]]
            gpus = tuple(
                Gpu(id=GpuId(f"{node}/gpu{i}"), node=node, index=i, model=model)
                for i in range(count)
            )
            nodes.append(Node(id=node, gpus=gpus))
        quota = self.settings.quota_of(self.trace, machines)
        weights = self.settings.weights_of(self.trace, machines)
        return Observation(
            cluster=Cluster(id="lab", nodes=tuple(nodes)),
            tenants=tuple(
                Tenant(id=TenantId(name), guaranteed_gpus=int(quota[i]), weight=float(weights[i]))
                for i, name in enumerate(self.trace.tenants)
            ),
            health={gpu.id: Health.GOOD for node in nodes for gpu in node.gpus},
        )

    def _record(self, found: _Columns, cpu_s: float) -> Replay:
        left = int(np.isnan(found.end_s).sum())
        notes = [f"{left} jobs never ran to their end"] if left else []
        notes += [f"{n} decisions to {what} were ignored" for what, n in self._ignored.items()]
        spans = sorted(self._spans, key=lambda each: (each[1], each[0]))
        columns = np.array(spans, np.float64).reshape(-1, 5).T
        job = columns[0].astype(np.int64)
        return Replay(
            policy=self.policy.name,
            trace=self.trace,
            machines=self.machines,
            quota=self.settings.quota_of(self.trace, self.machines),
            start_s=found.start_s,
            end_s=found.end_s,
            preemptions=found.stops,
            lost_s=np.zeros(len(self.trace)),
            segments=Segments(
                job=job,
                start_s=columns[1],
                stop_s=columns[2],
                gpus=self.trace.gpus[job],
                node=columns[3].astype(np.int64),
                nodes=columns[4].astype(np.int64),
                speed=np.ones(len(job)),
            ),
            cpu_s=cpu_s,
            decisions=self._asked,
            notes=tuple(notes),
        )


class _Columns:
    """What is known of each job of the trace so far."""

    def __init__(self, jobs: int) -> None:
        self.start_s = np.full(jobs, np.nan)
        self.end_s = np.full(jobs, np.nan)
        self.stops = np.zeros(jobs, np.int64)


def _model(name: str) -> GpuModel:
    return GpuModel(
        name=name, generation="", memory_bytes=80 * GIB, idle_watts=60.0, max_watts=300.0
    )


def _check(trace: Trace, machines: Machines, name: str) -> None:
    """Refuse what views of a cluster cannot tell yet."""
    wrong = [
        what
        for what, there in (
            ("jobs of a part of a GPU or of none", bool((trace.gpus % 1 != 0).any())),
            ("jobs without a GPU", bool((trace.gpus == 0).any())),
            ("jobs that wait for others", len(trace.after) > 0),
            ("machines that come and go", len(machines.changes) > 0),
        )
        if there
    ]
    if wrong:
        raise StewardError(
            f"{name} decides on views of a cluster, which know no {', no '.join(wrong)}",
            where=trace.name,
            hint="use a trace of whole GPUs on machines that stay",
        )
