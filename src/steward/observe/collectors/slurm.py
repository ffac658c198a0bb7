"""Reads Slurm: jobs and their accounts, nodes and why they are drained, GPUs of each job."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steward.clients.slurm import (
    Gres,
    SlurmCommands,
    SlurmError,
    SlurmJob,
    SlurmMissingError,
    SlurmNode,
)
from steward.clients.slurm.jobs import WAITING
from steward.model.cluster import Cluster, Gpu, GpuModel, Health, Node
from steward.model.event import Availability, Event, Observation
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.job import Job, JobShape, JobState, Tenant
from steward.observe.job_book import JobBook, JobSighting, JobUpdates

__all__ = ["Slurm"]

_SHARES_EVERY_S = 3600.0
_ACCOUNTING_LAG_S = 60.0  # slurmdbd is updated in batches; ten seconds were seen on a quiet cluster
_SLICE = re.compile(r"\dg\.\d+gb$")  # a MIG profile: a slice, whose GPU is unknown to Slurm
_STATES = {
    "CANCELLED": JobState.CANCELLED,
    "COMPLETED": JobState.COMPLETED,
    "PREEMPTED": JobState.CANCELLED,
    "REVOKED": JobState.CANCELLED,
    **dict.fromkeys(
        ("BOOT_FAIL", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"),
        JobState.FAILED,
    ),
}
# NOT_RESPONDING alone is no end: a node that was resumed has it for a moment, and goes DOWN later.
_GONE = frozenset({"DOWN", "ERROR", "FAIL"})
_LEAVING = frozenset({"DRAIN", "DRAINED", "DRAINING", "FAILING", "MAINT"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    jobs: Sequence[SlurmJob]
    nodes: Sequence[SlurmNode]


class Slurm:
    """Jobs, nodes, GPUs and accounts of a Slurm cluster, read through its own commands.

    Slurm is polled every `every_s` seconds, and less often where that would take more than a tenth
    of the time. `lookback_s`: how far back accounting is queried for jobs that ended before steward
    came. After `stale_after_s` without an answer everything from Slurm is unknown.
    `gpu_models`: what the driver calls a GPU type, e.g. `{a100 = "NVIDIA A100-SXM4-80GB"}`.
    `folder` and `conf`: where Slurm's commands and its slurm.conf are, if not in the usual places.
    """

    name = "slurm"
    vocabulary = "slurm"

    def __init__(  # noqa: PLR0913 - what a site can set
        self,
        *,
        every_s: float = 10.0,
        lookback_s: float = 86400.0,
        stale_after_s: float = 300.0,
        timeout_s: float = 20.0,
        gpu_models: dict[str, str] | None = None,
        folder: str = "",
        conf: str = "",
    ) -> None:
        self.every_s = every_s
        self.lookback_s = lookback_s
        self.stale_after_s = stale_after_s
        self._models = gpu_models or {}
        self._slurm = SlurmCommands(folder=folder, conf=conf, timeout_s=timeout_s)
        self._quick = SlurmCommands(folder=folder, conf=conf, timeout_s=2.0)
        self._book = JobBook(self.name)
        self._jobs: dict[str, SlurmJob] = {}
        self._nodes: dict[str, SlurmNode] = {}
        self._cluster: Cluster | None = None
        self._shares: dict[str, int] = {}
        self._accounts: frozenset[str] = frozenset()
        self._missed_s: dict[JobId, float] = {}  # since when neither queue nor accounting has them
        self._polled_s = float("-inf")
        self._shares_s = float("-inf")
        self._due_s = float("-inf")
        self._answered_s: float | None = None
        self._stale = False

    def available(self) -> Availability:
        if not self._quick.found():
            return Availability(
                status="missing",
                reason="there is no squeue on this machine",
                hint="run steward where Slurm's commands are, or set plugs.slurm.folder",
            )
        try:
            version = self._quick.version()
        except SlurmError as fault:
            return Availability(status="missing", reason=str(fault), hint=fault.hint)
        if not self._quick.answers():
            hint = "look at `scontrol ping`; is SLURM_CONF right?"
            reason = f"{version}, but its controller does not answer"
            return Availability(status="missing", reason=reason, hint=hint)
        return Availability(status="ok", reason=version)

    def collect(self, t_s: float) -> Observation:
        if t_s < self._due_s and t_s >= self._polled_s:
            return Observation()
        self._polled_s = t_s
        began_s = time.monotonic()
        try:
            answer = _Answer(jobs=self._slurm.jobs(), nodes=self._slurm.nodes())
        except SlurmError as fault:
            self._due_s = t_s + self.every_s
            return self._unheard(fault, t_s)
        seen = self._fold(answer, t_s)
        self._due_s = t_s + max(self.every_s, 10 * (time.monotonic() - began_s))
        return seen

    def close(self) -> None:
        """Do nothing: each command has ended when its answer is read."""

    # -- an answer -----------------------------------------------------------------------------

    def _fold(self, answer: _Answer, t_s: float) -> Observation:
        first = self._answered_s is None
        events = [*self._back(t_s), *self._node_events(answer.nodes, t_s)]
        health = self._health(answer.nodes)
        cluster = self._changed_cluster(answer)
        self._nodes = {node.name: node for node in answer.nodes}
        news = [
            *self._job_news(answer.jobs, t_s, first=first),
            *self._unseen_ends(answer.jobs, t_s),
        ]
        self._jobs = {job.id: job for job in answer.jobs}
        self._book.forget({JobId(id_) for id_ in self._jobs})
        self._answered_s, self._stale = t_s, False
        return Observation(
            events=(*events, *(event for each in news for event in each.events)),
            jobs=tuple(job for each in news for job in each.jobs),
            spans=tuple(span for each in news for span in each.spans),
            cluster=cluster,
            tenants=self._tenants(answer.jobs, t_s),
            health=health,
            draining={NodeId(each.name): _condition(each) != "up" for each in answer.nodes},
        )

    def _job_news(self, jobs: Sequence[SlurmJob], t_s: float, *, first: bool) -> list[JobUpdates]:
        if first:
            past = self._accounted(self.lookback_s)
            listed = {job.id for job in jobs}
            jobs = [*(job for job in past if job.end_s and job.id not in listed), *jobs]
        fresh = [job for job in jobs if self._jobs.get(job.id) != job]
        sightings = [self._sighting(job, t_s) for job in fresh]
        return [self._book.fold(t_s, sightings, silent=first)]

    def _unseen_ends(self, jobs: Sequence[SlurmJob], t_s: float) -> list[JobUpdates]:
        """Return from accounting how jobs ended that have left the queue between two polls."""
        listed = {job.id for job in jobs}
        gone = {id_ for id_ in self._book.going_on() if id_ not in listed}
        if not gone or self._answered_s is None:
            return []
        past = self._accounted(t_s - self._answered_s + 600.0)
        ends = [job for job in past if job.id in gone and job.end_s]
        news = self._book.fold(t_s, [self._sighting(job, t_s) for job in ends])
        missing = gone - {JobId(job.id) for job in ends}
        self._missed_s = {id_: self._missed_s.get(id_, t_s) for id_ in missing}
        lost = [id_ for id_ in missing if t_s - self._missed_s[id_] >= _ACCOUNTING_LAG_S]
        return [news, self._book.lose(t_s, sorted(lost))]

    def _accounted(self, past_s: float) -> list[SlurmJob]:
        if past_s <= 0:
            return []
        try:
            return self._slurm.ended(past_s=past_s)
        except SlurmError:
            return []  # many sites have no accounting; squeue is all there is

    def _sighting(self, job: SlurmJob, t_s: float) -> JobSighting:
        state = _state(job)
        before = self._jobs.get(job.id)
        restarts = before.restarts if before and job.restarts is None else job.restarts
        return JobSighting(
            job=Job(
                id=JobId(job.id),
                tenant=TenantId(job.account or job.user),
                shape=self._shape(job),
                submit_s=job.submit_s,
                user=job.user,
                name=job.name,
                priority=job.priority,
                time_limit_s=job.limit_s,
                state=state,
                gpus=_gpus(job) if state is JobState.RUNNING else (),
                nodes=tuple(map(NodeId, job.nodes)) if state is JobState.RUNNING else (),
                start_s=job.start_s,
                end_s=(job.end_s or t_s) if state.ended else None,
            ),
            places=self._places(job),
            run=str(restarts or 0),
            why=_why(job),
            about=_about(job),
        )

    def _shape(self, job: SlurmJob) -> JobShape:
        return JobShape(
            gpus=job.gpus,
            cpus=job.cpus,
            memory_bytes=job.memory_bytes,
            gpu_models=tuple(self._models.get(each, each) for each in job.gpu_types),
        )

    def _places(self, job: SlurmJob) -> tuple[str, ...]:
        """Return the entities that the job has to itself, as far as Slurm knows."""
        if job.start_s is None:
            return ()
        hosts = [f"{node}@{job.id}" for node in job.nodes]
        if job.exclusive or (job.gpus and job.gpus == self._gpus_on(job.nodes)):
            return (*hosts, *(f"{node}/*" for node in job.nodes))
        return (*hosts, *_gpus(job))

    def _gpus_on(self, nodes: Iterable[str]) -> int:
        known = [self._nodes[node] for node in nodes if node in self._nodes]
        return sum(each.count for node in known for each in _whole_gpus(node.gres))

    # -- no answer -----------------------------------------------------------------------------

    def _unheard(self, fault: SlurmError, t_s: float) -> Observation:
        """Keep the last state for a while; then report once that it is stale."""
        if isinstance(fault, SlurmMissingError) and self._answered_s is None:
            reported, self._stale = self._stale, True
            text = f"{fault.problem}; {fault.hint}"
            event = self._event(t_s, "collector.missing", self.name, text)
            return Observation() if reported else Observation(events=(event,))
        silent_s = 0.0 if self._answered_s is None else t_s - self._answered_s
        if self._stale or silent_s <= self.stale_after_s:
            raise fault
        self._stale = True
        jobs = len(self._book.going_on())
        text = (
            f"parts nothing for {silent_s:.0f} s: {jobs} jobs and their nodes are unknown ({fault})"
        )
        gpus = self._cluster.gpus if self._cluster else ()
        return Observation(
            events=(self._event(t_s, "jobs.unknown", self.name, text),),
            health={gpu.id: Health.UNKNOWN for gpu in gpus},
        )

    def _back(self, t_s: float) -> list[Event]:
        if not self._stale or self._answered_s is None:
            return []
        text = f"parts nothing for {t_s - self._answered_s:.0f} s"
        return [self._event(t_s, "telemetry.gap", self.name, text)]

    # -- nodes ---------------------------------------------------------------------------------

    def _node_events(self, nodes: Sequence[SlurmNode], t_s: float) -> list[Event]:
        found = []
        for node in nodes:
            before = self._nodes.get(node.name)
            was, now = _condition(before), _condition(node)
            same_reason = before is not None and before.reason == node.reason
            if was == now and (same_reason or now == "up"):
                continue
            kind = {"up": "node.resumed", "down": "node.down", "leaving": "node.drained"}[now]
            when_s = t_s if now == "up" or node.reason_s is None else node.reason_s
            text = node.reason or " ".join(node.states).lower()
            found.append(self._event(when_s, kind, node.name, text))
        return found

    def _health(self, nodes: Sequence[SlurmNode]) -> dict[GpuId, Health]:
        """Return what is new: a node that came back is unknown until its next sample."""
        states = {"up": Health.UNKNOWN, "down": Health.BAD, "leaving": Health.WORN}
        return {
            GpuId(f"{node.name}/gpu{index}"): states[_condition(node)]
            for node in nodes
            if self._stale or _condition(self._nodes.get(node.name)) != _condition(node)
            for index in range(sum(each.count for each in _whole_gpus(node.gres)))
        }

    def _changed_cluster(self, answer: _Answer) -> Cluster | None:
        clusters = {job.cluster for job in answer.jobs} - {""}
        known = self._cluster.id if self._cluster else "slurm"
        cluster = Cluster(
            id=min(clusters, default=known),
            nodes=tuple(self._node(node) for node in sorted(answer.nodes, key=_name)),
        )
        if cluster == self._cluster:
            return None
        self._cluster = cluster
        return cluster

    def _node(self, node: SlurmNode) -> Node:
        types = [each.type for each in _whole_gpus(node.gres) for _ in range(each.count)]
        name = NodeId(node.name)
        gpus = tuple(
            Gpu(id=GpuId(f"{name}/gpu{index}"), node=name, index=index, model=self._model(type_))
            for index, type_ in enumerate(types)
        )
        return Node(id=name, gpus=gpus, cpus=node.cpus, memory_bytes=node.memory_bytes)

    def _model(self, type_: str) -> GpuModel:
        """Return a model of that name; memory and watts come from the driver."""
        name = self._models.get(type_, type_ or "gpu")
        return GpuModel(
            name=name, generation="unknown", memory_bytes=0, idle_watts=0.0, max_watts=0.0
        )

    # -- tenants -------------------------------------------------------------------------------

    def _tenants(self, jobs: Sequence[SlurmJob], t_s: float) -> tuple[Tenant, ...] | None:
        """Return the accounts when they changed, with their shares where there is accounting."""
        before = (self._accounts, self._shares)
        if t_s - self._shares_s >= _SHARES_EVERY_S:
            self._shares_s = t_s
            try:
                self._shares = self._slurm.shares()
            except SlurmError:
                self._shares = {}
        self._accounts |= {job.account or job.user for job in jobs} | set(self._shares)
        if before == (self._accounts, self._shares):
            return None
        return tuple(
            Tenant(id=TenantId(name), weight=float(max(1, self._shares.get(name, 1))))
            for name in sorted(self._accounts)
        )

    def _event(self, t_s: float, kind: str, subject: str, text: str) -> Event:
        return Event(t_s=t_s, kind=kind, subject=subject, text=text, source=self.name)


def _state(job: SlurmJob) -> JobState:
    """Return the phase of a job. While it completes it still holds what it held."""
    if not WAITING.isdisjoint(job.states):
        return JobState.QUEUED
    if "COMPLETING" in job.states:
        return JobState.RUNNING
    return next((_STATES[each] for each in job.states if each in _STATES), JobState.RUNNING)


def _why(job: SlurmJob) -> str:
    parts = [job.states[0].lower().replace("_", " ")]
    parts += [f"exit code {job.exit_code}"] if job.exit_code else []
    parts += [f"signal {job.signal}"] if job.signal else []
    parts += [job.reason] if job.reason else []
    on = f" on {', '.join(job.nodes[:4])}" if job.nodes else ""
    return f"{', '.join(parts)}{on}"


def _about(job: SlurmJob) -> dict[str, str]:
    parts = {
        "name": job.name,
        "user": job.user,
        "account": job.account,
        "partition": job.partition,
        "state": job.states[0].lower(),
        "array": job.array,
        "exit_code": str(job.exit_code) if job.exit_code else "",
        "signal": str(job.signal) if job.signal else "",
        "limit_s": f"{job.limit_s:g}" if job.limit_s else "",
    }
    return {name: value for name, value in parts.items() if value}


def _gpus(job: SlurmJob) -> tuple[GpuId, ...]:
    """Return the devices that a running job holds, in the order of its nodes."""
    if len(job.gres) != len(job.nodes):
        return ()
    return tuple(
        GpuId(f"{node}/gpu{index}")
        for node, held in zip(job.nodes, job.gres, strict=True)
        for each in _whole_gpus(held)
        for index in each.indices
    )


def _whole_gpus(held: Iterable[Gres]) -> list[Gres]:
    return [each for each in held if each.name == "gpu" and not _SLICE.search(each.type)]


def _condition(node: SlurmNode | None) -> str:
    if node is None:
        return "up"
    if not _GONE.isdisjoint(node.states):
        return "down"
    return "up" if _LEAVING.isdisjoint(node.states) else "leaving"


def _name(node: SlurmNode) -> str:
    return node.name
