"""How long does `commons` take to decide, with 2,000 jobs waiting for 1,024 GPUs?

A made-up site is turned by the loop that runs live (`assemble`, with `similar-jobs` and
`tenant-use`): 128 nodes of 8 GPUs, 50 tenants, and as many new jobs each turn as keep 2,000
waiting. Whatever is decided is done, so every view is another. What counts is the time from a view
to decisions: forecasts of `similar-jobs` for all jobs, and `commons` with its reasons in words.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from report import bar, finish, progress, quick
from steward.clock import ManualClock
from steward.config.assemble import assemble
from steward.config.settings import Settings
from steward.model.actions import Action, Preempt, Resume, Start
from steward.model.cluster import GIB, Cluster, Gpu, GpuModel, Health, Node
from steward.model.decision import Decision, Receipt
from steward.model.event import Availability, Observation
from steward.model.forecast import Forecast, ForecastColumn
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.job import Checkpointing, Job, JobRequest, JobShape, JobState, Tenant
from steward.model.metrics import CANONICAL
from steward.model.outcome import Outcome
from steward.model.view import QUEUED, ClusterView
from steward.ports import Estimator, Policy

T = TypeVar("T")
START_S = 1_800_000_000.0
EVERY_S = 30.0
NODES, GPUS_PER_NODE, TENANTS, WAITING = 128, 8, 50, 2000
WARM_TURNS = 20
H100 = GpuModel(
    name="h100", generation="hopper", memory_bytes=80 * GIB, idle_watts=70.0, max_watts=700.0
)


class Site:
    """A cluster that does what it is told: jobs run for as long as they were made to."""

    name = "made-up"
    vocabulary = CANONICAL

    def __init__(self, seed: int) -> None:
        self._dice = np.random.default_rng(seed)
        self._jobs: dict[JobId, Job] = {}
        self._length_s: dict[JobId, float] = {}
        self._made = 0
        self._news: dict[JobId, Job] = {}
        self._introduced = False
        self.done = {"start": 0, "resume": 0, "preempt": 0}

    def available(self) -> Availability:
        """Say that it is there."""
        return Availability(status="ok", reason="it is made up")

    def actions(self) -> tuple[type[Action], ...]:
        """Return what it can do."""
        return (Start, Resume, Preempt)

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        """Do it at once."""
        return self.carry_out(decision, t_s)

    def collect(self, t_s: float) -> Observation:
        """Let jobs end and come until `t_s`, and tell what changed."""
        for job in list(self._jobs.values()):
            ends_s = (job.start_s or t_s) + self._length_s[job.id] - job.past.ran_s
            if job.state is JobState.RUNNING and ends_s <= t_s:
                over = job.changed(ends_s, JobState.COMPLETED, "done")
                self._tell(replace(over, gpus=(), end_s=ends_s))
                del self._jobs[job.id]
        waiting = sum(job.state is JobState.QUEUED for job in self._jobs.values())
        for _ in range(WAITING - waiting):
            self._submit(t_s)
        news, self._news = tuple(self._news.values()), {}
        cluster = _cluster()
        health = {gpu.id: Health.GOOD for gpu in cluster.gpus}  # a silent GPU gets no jobs
        if self._introduced:
            return Observation(jobs=news, health=health)
        self._introduced = True
        return Observation(
            cluster=cluster,
            tenants=_tenants(),
            jobs=news,
            health=health,
        )

    def close(self) -> None:
        """Hold nothing open."""

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        """Start or stop a job at once."""
        match decision.action:
            case Start(job=id_, gpus=gpus) | Resume(job=id_, gpus=gpus):
                job = self._jobs[id_].changed(t_s, JobState.RUNNING, "started")
                self._tell(replace(job, gpus=gpus, start_s=t_s))
            case Preempt(job=id_):
                job = self._jobs[id_].changed(t_s, JobState.QUEUED, "made room")
                self._tell(replace(job, gpus=(), start_s=None))
            case other:
                raise AssertionError(other)
        self.done[decision.action.type] += 1
        gpus = decision.action.gpus
        return Receipt(decision=decision.id, t_s=t_s, result="done", gpus=gpus, text="")

    def _tell(self, job: Job) -> None:
        self._jobs[job.id] = self._news[job.id] = job

    def _submit(self, t_s: float) -> None:
        dice = self._dice
        self._made += 1
        id_, user = JobId(f"j{self._made}"), int(dice.zipf(1.3)) % 200
        kind = f"{user}-{dice.integers(0, 5)}"
        typical_s = 600.0 * (1 + hash_of(kind) % 40)
        self._length_s[id_] = float(dice.lognormal(np.log(typical_s), 0.7))
        self._tell(
            Job(
                id=id_,
                tenant=TenantId(f"t{user % TENANTS:02d}"),
                user=f"user{user}",
                name=f"train-{kind}",
                shape=JobShape(gpus=int(dice.choice([1, 1, 1, 1, 2, 2, 4, 8, 16]))),
                submit_s=t_s,
                checkpointing=Checkpointing(able=True, save_s=20.0, restore_s=40.0),
            )
        )


def hash_of(text: str) -> int:
    """Return a number that is the same in every process."""
    return sum(ord(letter) * 31**i for i, letter in enumerate(text))


def _cluster() -> Cluster:
    nodes = []
    for i in range(NODES):
        id_ = NodeId(f"n{i:03d}")
        gpus = (
            Gpu(id=GpuId(f"{id_}/gpu{k}"), node=id_, index=k, model=H100)
            for k in range(GPUS_PER_NODE)
        )
        nodes.append(Node(id=id_, gpus=tuple(gpus)))
    return Cluster(id="made-up", nodes=tuple(nodes))


def _tenants() -> tuple[Tenant, ...]:
    guaranteed = NODES * GPUS_PER_NODE // TENANTS
    return tuple(
        Tenant(id=TenantId(f"t{i:02d}"), guaranteed_gpus=guaranteed) for i in range(TENANTS)
    )


class Watched:
    """An estimator or policy with a watch on how long it takes."""

    def __init__(self, plug: Any) -> None:  # noqa: ANN401 - either port
        self.plug = plug
        self.name = plug.name
        self.took_s: list[float] = []
        self.cpu_s: list[float] = []
        self.waiting: list[int] = []

    def learn(self, view: ClusterView, outcomes: Sequence[Outcome]) -> None:
        """Learn, unmeasured: it is not on the way from a view to decisions."""
        self.plug.learn(view, outcomes)

    def predict(self, view: ClusterView) -> tuple[ForecastColumn, ...]:
        """Predict, and remember for how long that took."""
        return self._timed(lambda: self.plug.predict(view))

    def estimate(self, request: JobRequest) -> tuple[Forecast, ...]:
        """Estimate, unmeasured."""
        found: tuple[Forecast, ...] = self.plug.estimate(request)
        return found

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Decide, and remember for how long that took."""
        self.waiting.append(int((view.jobs.state == QUEUED).sum()))
        return self._timed(lambda: self.plug.decide(view))

    def _timed(self, call: Callable[[], T]) -> T:
        began_s, began_cpu_s = time.perf_counter(), time.thread_time()
        answer = call()
        self.took_s.append(time.perf_counter() - began_s)
        self.cpu_s.append(time.thread_time() - began_cpu_s)
        return answer


def measure(turns: int) -> dict[str, Any]:
    """Turn the site and return how long its decisions took."""
    site, clock = Site(seed=1), ManualClock(START_S)
    gpus = NODES * GPUS_PER_NODE
    budget = 1_000_000
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        settings = Settings.model_validate(
            {
                "loop": {"autonomy": "auto", "every_s": EVERY_S},
                "observe": {"timeout_s": 60.0},
                "learn": {"miners": [], "estimators": ["similar-jobs", "tenant-use"]},
                "decide": {"detectors": [], "policies": ["commons"]},
                "store": {"folder": folder},
                "guard": {
                    "disturbed_gpus_per_hour": budget,
                    "disturbed_gpus_per_tenant_per_hour": budget,
                },
            }
        )
        loop = assemble(settings, clock=clock, collectors=[site], actuator=site)
        believes = [Watched(each) for each in loop.stages.estimators]
        decides = [Watched(each) for each in loop.stages.policies]
        estimators: list[Estimator[ClusterView]] = [*believes]
        policies: list[Policy[ClusterView]] = [*decides]
        loop.stages = replace(loop.stages, estimators=estimators, policies=policies)
        turn_s = []
        for turn in range(WARM_TURNS + turns):
            loop.turn()
            turn_s.append(loop.status.last_turn_s)
            clock.set(clock.now_s() + EVERY_S)
            if turn % 50 == 0:
                progress(f"turn {turn}: {decides[-1].took_s[-1] * 1000:.1f} ms, {site.done}")
        faults = [str(fault) for fault in loop.status.faults]
        running = len(loop.view.jobs) - decides[-1].waiting[-1]
        loop.close()
    assert not faults, faults
    plugs = [plug for plug in (*believes, *decides) if plug.name != "give-back"]
    took_ms = {plug.name: np.array(plug.took_s[WARM_TURNS:]) * 1000 for plug in plugs}
    cpu_ms = np.sum([plug.cpu_s[WARM_TURNS:] for plug in plugs], axis=0) * 1000
    return {
        "gpus": gpus,
        "waiting_jobs": round(float(np.mean(decides[-1].waiting[WARM_TURNS:]))),
        "running_jobs": running,
        "turns": turns,
        "done": site.done,
        "decision_ms": _percentiles(np.sum([*took_ms.values()], axis=0)),
        "decision_cpu_ms": _percentiles(cpu_ms),
        "commons_ms": _percentiles(took_ms["commons"]),
        "similar_jobs_ms": _percentiles(took_ms["similar-jobs"]),
        "whole_turn_ms": _percentiles(np.array(turn_s[WARM_TURNS:]) * 1000),
    }


def _percentiles(ms: Any) -> dict[str, float]:  # noqa: ANN401 - an array
    p50, p90, p99 = np.percentile(ms, [50, 90, 99])
    values = {"p50": p50, "p90": p90, "p99": p99, "max": ms.max()}
    return {name: round(float(value), 2) for name, value in values.items()}


def main() -> None:
    """Measure, and hold the figures against the bar."""
    results = measure(60 if quick() else 500)
    finish(
        "decision_time",
        results,
        [
            bar("p99 of one decision in ms", results["decision_ms"]["p99"], "<", 100.0),
            bar("mean waiting jobs", results["waiting_jobs"], ">=", WAITING),
            bar("jobs started", results["done"]["start"], ">", 0),
        ],
    )


if __name__ == "__main__":
    main()
