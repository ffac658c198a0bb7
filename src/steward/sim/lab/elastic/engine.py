"""The rounds of an elastic replay: jobs run on, arrivals are seen, the policy decides, jobs move.

Failures take effect at the next round: a job on a node that went down loses its GPUs there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from steward.decide.scheduling.elastic.interface import (
    ElasticChoice,
    ElasticJob,
    ElasticPolicy,
    ElasticView,
    Placement,
)
from steward.errors import StewardError
from steward.model.application import ApplicationProfile, packed_shape
from steward.model.goodput import alone_s
from steward.model.machines import Machines
from steward.model.replay import Replay
from steward.model.trace import Trace
from steward.sim.lab.elastic.record import ElasticRecord
from steward.sim.lab.elastic.running import RunningJob

__all__ = ["replay_elastic"]

Profiles = Mapping[str, ApplicationProfile]

_PATIENCE_ROUNDS = 30  # nothing runs, nothing comes, nothing is placed: it never will be


def replay_elastic(  # noqa: PLR0913 - the lab's interface for elastic policies
    trace: Trace,
    machines: Machines,
    policy: ElasticPolicy,
    *,
    profiles: Profiles,
    round_s: float = 60.0,
    restart_s: float | None = 30.0,
    seed: int = 0,  # noqa: ARG001 - every engine takes one; no policy here rolls dice
) -> Replay:
    """Replay a trace of applications (`trace.model`) under an elastic policy.

    `restart_s=None` takes each application's own restart time from its profile.
    """
    began = time.process_time()
    world = _World(
        trace=trace,
        machines=machines,
        policy=policy,
        profiles=profiles,
        round_s=round_s,
        restart_s=restart_s,
    )
    world.run()
    made = world.record.replay(trace, machines, policy=policy.name, jobs=world.jobs)
    cpu_s = time.process_time() - began
    return replace(made, cpu_s=cpu_s, decisions=world.decisions, notes=world.notes())


@dataclass(slots=True, kw_only=True)
class _World:
    trace: Trace
    machines: Machines
    policy: ElasticPolicy
    profiles: Profiles
    round_s: float
    restart_s: float | None
    jobs: dict[int, RunningJob] = field(default_factory=dict)
    active: dict[int, RunningJob] = field(default_factory=dict)
    strange: list[int] = field(default_factory=list)
    record: ElasticRecord = field(default_factory=lambda: ElasticRecord(work_s={}))
    memory: object = None
    decisions: int = 0
    tables: dict[tuple[str, float], tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in range(len(self.trace)):
            self._admit(row)
        if self.strange and not self.jobs:
            known = ", ".join(sorted(self.profiles))
            problem = "no job of this trace has a profile, so no size can be chosen for it"
            raise StewardError(problem, where=self.trace.name, hint=f"profiles of: {known}")

    def run(self) -> None:
        """Go from round to round until all jobs are done or none can ever run."""
        pending = sorted(self.jobs, key=lambda row: (self.trace.submit_s[row], row))
        up = self.machines.up.copy()
        changes = sorted(self.machines.changes, key=lambda change: change.t_s)
        now, came, quiet = 0.0, 0, 0
        while (came < len(pending) or self.active) and quiet < _PATIENCE_ROUNDS:
            now = self._next_round(now, [self.trace.submit_s[row] for row in pending[came:][:1]])
            self._run_jobs(now)
            while came < len(pending) and self.trace.submit_s[pending[came]] <= now:
                self.active[pending[came]] = self.jobs[pending[came]]
                came += 1
            while changes and changes[0].t_s <= now:
                up[changes[0].node] = changes[0].up
                changes.pop(0)
            self._decide(now, up)
            stuck = self.active and not any(job.placement for job in self.active.values())
            quiet = quiet + 1 if stuck and came == len(pending) and not changes else 0

    def notes(self) -> tuple[str, ...]:
        """Return what did not run, and why."""
        found = []
        if self.strange:
            found.append(f"{len(self.strange)} jobs have no profile and did not run")
        if self.active:
            found.append(f"{len(self.active)} jobs never finished: they fit on no machine")
        return tuple(found)

    def _admit(self, row: int) -> None:
        code = int(self.trace.model[row])
        profile = self.profiles.get(self.trace.models[code]) if code >= 0 else None
        if profile is None:
            self.strange.append(row)
            return
        batch = float(self.trace.batch[row])
        replicas = max(1, math.ceil(self.trace.gpus[row]))
        job = RunningJob(
            row=row,
            profile=profile,
            submit_s=float(self.trace.submit_s[row]),
            replicas=replicas,
            batch=batch if batch > 0 else float(profile.max_batch),
            fixed_batch=self.policy.fixed_batch or profile.most_replicas == 1,
            restart_s=profile.restart_s if self.restart_s is None else self.restart_s,
        )
        self.jobs[row] = job
        work_s = float(self.trace.duration_s[row])
        if not work_s > 0:
            kind = self._type_name(profile, 0)
            work_s = alone_s(profile, replicas=replicas, batch=job.batch, gpu_type=kind)
        self.record.work_s[row] = work_s

    def _type_name(self, profile: ApplicationProfile, code: int) -> str:
        """Return the profile's name for a machine type; one type alone stands for any."""
        name = self.machines.types[code]
        if name not in profile.step_times and len(profile.step_times) == 1:
            return next(iter(profile.step_times))
        return name

    def _next_round(self, now: float, coming: list[float]) -> float:
        """Return the next round; skip those in which nothing is there."""
        rounds = round(now / self.round_s) + 1
        if not self.active and coming:
            rounds = max(rounds, math.ceil(coming[0] / self.round_s))
        return rounds * self.round_s

    def _run_jobs(self, now: float) -> None:
        for job in list(self.active.values()):
            if not job.placement:
                continue
            after_s = job.advance(self.round_s)
            if after_s is not None:
                self.record.stop(job, now - self.round_s + after_s, finished=True)
                job.placement = ()
                del self.active[job.row]

    def _decide(self, now: float, up: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        """Call the policy and move the jobs that change."""
        gpus = tuple(np.where(up, self.machines.gpus, 0).tolist())
        for job in self.active.values():
            if any(not gpus[node] for node in job.placement):
                self._move(job, (), now)
        if not self.active:
            return
        moment = ElasticView(
            jobs=tuple(self._seen(job, now) for job in self.active.values()),
            node_gpus=gpus,
            node_type=tuple(self.machines.type.tolist()),
            types=len(self.machines.types),
            memory=self.memory,
        )
        choice = self.policy.decide(moment)
        self.decisions += 1
        self.memory = choice.memory
        self._carry_out(choice, now)

    def _carry_out(self, choice: ElasticChoice, now: float) -> None:
        for row, job in self.active.items():
            placement = choice.placements.get(row, ())
            if placement != job.placement:
                self._move(job, placement, now)

    def _move(self, job: RunningJob, placement: Placement, now: float) -> None:
        if job.placement:
            self.record.stop(job, now)
        codes = {int(self.machines.type[node]) for node in placement}
        names = [self._type_name(job.profile, code) for code in codes]
        # A job over several GPU types goes at the pace of the slowest.
        slowest = min(names, key=lambda name: job.profile.on(name).samples_per_s, default="")
        job.place(placement, slowest)
        if placement:
            self.record.begin(job, now)

    def _seen(self, job: RunningJob, now: float) -> ElasticJob:
        """Show one job to the policy: what this policy needs, and no more."""
        needs = self.policy.needs
        names: list[str] = []
        if needs == "goodput":
            names = [self._type_name(job.profile, code) for code in range(len(self.machines.types))]
        return ElasticJob(
            row=job.row,
            age_s=now - job.submit_s,
            attained_gpu_s=job.attained_gpu_s,
            restarts=max(job.restarts, 0),
            restarting=job.restart_left_s > 0 and bool(job.placement),
            placement=job.placement,
            replicas=job.replicas,
            batch=job.batch,
            restart_s=job.restart_s,
            steps_left=self._steps_left(job) if needs == "step times" else 0.0,
            step_s=self._step_table(job) if needs == "step times" else (),
            models=tuple(job.model(name) for name in names),
            samples_per_s=tuple(job.profile.on(name).samples_per_s for name in names),
            max_replicas=max((self._most(job, name) for name in names), default=1),
        )

    @staticmethod
    def _most(job: RunningJob, name: str) -> int:
        """Jobs may double at most: nothing is known about much larger sizes."""
        times = job.profile.on(name)
        known = min(job.profile.most_replicas, times.most_replicas)
        return min(
            max(2 * job.tried.get(name, 0), 1), known, job.profile.max_batch // times.min_local
        )

    @staticmethod
    def _steps_left(job: RunningJob) -> float:
        learning = job.profile.learning
        last = learning.epochs - 1
        if last <= job.epoch:
            return 1.0
        return learning.steps_after(job.batch, last) - learning.steps_after(job.batch, job.epoch)

    def _step_table(self, job: RunningJob) -> tuple[float, ...]:
        """Return the true seconds per step for each number of replicas, packed on nodes."""
        key = (job.profile.name, job.batch)
        if key not in self.tables:
            name = self._type_name(job.profile, int(self.machines.type[0]))
            times = job.profile.on(name)
            most = min(int(job.batch) // times.min_local, job.profile.most_replicas)
            most = min(most, times.most_replicas, int(self.machines.gpus.sum()))
            seconds = [0.0]
            for replicas in range(1, most + 1):
                shape = packed_shape(replicas, int(self.machines.gpus[0]))
                split = job.profile.split(job.batch, shape, name)
                seconds.append(job.profile.step_s(split, shape, name))
            self.tables[key] = tuple(seconds)
        return self.tables[key]
