"""Sees jobs on a machine that has no scheduler: processes that hold a GPU or look like training."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import polars as pl

from steward.clients.host import hostname
from steward.clients.nvml import DriverMissingError, GpuRegistry, shared_registry
from steward.clients.processes import Process, ProcessTable, user_name
from steward.model.event import Availability, Observation
from steward.model.frame import ENTITY, T_S, Frame, empty_frame, job_entity, share_entity
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.job import Job, JobShape, JobState, Tenant
from steward.model.span import Span
from steward.observe.job_book import JobBook, JobSighting, JobUpdates
from steward.observe.process_owners import ProcessOwners, local_job, root_of

__all__ = ["GpuHolders", "Processes"]

_METRICS = (
    "job.cpu_seconds",
    "job.memory.used_bytes",
    "job.disk.read_bytes",
    "job.disk.write_bytes",
)
_END = "its processes have ended; their exit codes are unknown"
TRAINING = ("python", "torchrun", "deepspeed", "accelerate", "mpirun", "ray::", "julia", "vllm")


class GpuHolders(Protocol):
    """Returns which processes hold which GPU now, by the GPU's number in `GpuRegistry`."""

    def __call__(self) -> Mapping[int, Iterable[int]]: ...


@dataclass(slots=True)
class _Group:
    """The processes of one job, now."""

    root: Process
    members: list[Process] = field(default_factory=list)
    gpus: set[int] = field(default_factory=set)


class Processes:
    """Jobs of this machine without a scheduler: one tree of processes is one job.

    A tree is a job when it holds a GPU, or when a process in it whose name begins with one of
    `names` keeps `min_cpu_cores` busy. torchrun and its ranks are one; shells, terminals and
    notebook servers are not part of it. What Slurm, Kubernetes or a container engine
    runs is left to them, but GPU processes by pid are reported for those, too.
    """

    name = "processes"
    vocabulary = "canonical"

    def __init__(  # noqa: PLR0913 - a site sets three, tests the rest
        self,
        *,
        node: str = "",
        min_cpu_cores: float = 0.5,
        names: tuple[str, ...] = TRAINING,
        holders: GpuHolders | None = None,
        registry: GpuRegistry | None = None,
        table: ProcessTable | None = None,
        owners: ProcessOwners | None = None,
    ) -> None:
        self.node = NodeId(node or hostname())
        self.min_cpu_cores = min_cpu_cores
        self.names = names
        self._registry = None if holders else (registry or shared_registry()).acquire()
        self._holders: GpuHolders = holders or self._pids
        self._table = table or ProcessTable()
        self._owners = owners or ProcessOwners(table=self._table)
        self._book = JobBook(self.name)
        self._cpu_s: dict[tuple[int, float], float] = {}  # by process, at the last look
        self._looked_s: float | None = None
        self._known: set[JobId] = set()
        self._users: set[str] = set()
        self._held: dict[str, Span] = {}  # processes that hold a GPU, by pid

    def available(self) -> Availability:
        if not self._table.one(os.getpid()):
            hint = "mount the host's /proc into this container"
            return Availability(status="missing", reason="/proc cannot be read", hint=hint)
        if self._registry is not None and not self._pids():
            reason = f"{len(self._table.all())} processes; none is known to hold a GPU"
            hint = "without an NVIDIA driver only busy processes are jobs; see names"
            return Availability(status="limited", reason=reason, hint=hint)
        return Availability(status="ok", reason=f"{len(self._table.all())} processes")

    def collect(self, t_s: float) -> Observation:
        table = self._table.all()
        holders = self._holders()
        groups = self._jobs(table, holders, t_s)
        news = [
            self._book.fold(t_s, [self._sighting(id_, each) for id_, each in groups.items()]),
            self._ended(groups, t_s),
        ]
        self._book.forget(groups.keys())
        return Observation(
            frame=self._frame(groups, t_s),
            jobs=tuple(job for each in news for job in each.jobs),
            spans=(
                *(span for each in news for span in each.spans),
                *self._by_pid(table, holders, t_s),
            ),
            events=tuple(event for each in news for event in each.events),
            tenants=self._tenants(groups),
        )

    def close(self) -> None:
        """Release the NVIDIA driver."""
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.release()

    def _pids(self) -> Mapping[int, Iterable[int]]:
        """Return the processes on each GPU, none where no driver answers."""
        try:
            return self._registry.pids() if self._registry is not None else {}
        except DriverMissingError:
            return {}

    # -- jobs ----------------------------------------------------------------------------------

    def _jobs(
        self, table: Mapping[int, Process], holders: Mapping[int, Iterable[int]], t_s: float
    ) -> dict[JobId, _Group]:
        """Return the trees that are jobs, each with all its processes."""
        gpus: dict[int, set[int]] = {}
        for index, pids in holders.items():
            for pid in pids:
                gpus.setdefault(pid, set()).add(index)
        busy = self._busy(table, t_s)
        groups: dict[JobId, _Group] = {}
        wanted: set[JobId] = set()
        mine = os.getpid()
        for pid, process in table.items():
            root = root_of(_upwards(table, process))
            id_ = local_job(root)
            group = groups.setdefault(id_, _Group(root))
            group.members.append(process)
            group.gpus |= gpus.get(pid, set())
            if (pid in gpus or pid in busy) and not self._owners.scheduled(pid):
                wanted.add(id_)
        wanted |= self._known & groups.keys()
        self._known = {id_ for id_ in wanted if all(p.pid != mine for p in groups[id_].members)}
        return {id_: groups[id_] for id_ in sorted(self._known)}

    def _busy(self, table: Mapping[int, Process], t_s: float) -> set[int]:
        """Return the processes that look like training and have kept cores busy since last time."""
        before, self._cpu_s = self._cpu_s, {(p.pid, p.start_s): p.cpu_s for p in table.values()}
        since_s = None if self._looked_s is None else t_s - self._looked_s
        self._looked_s = t_s
        if not since_s or since_s <= 0:
            return set()
        need_s = self.min_cpu_cores * since_s
        return {
            p.pid
            for p in table.values()
            if p.cpu_s - before.get((p.pid, p.start_s), p.cpu_s) >= need_s
            and p.name.startswith(self.names)
        }

    # -- their samples -------------------------------------------------------------------------

    def _sighting(self, id_: JobId, group: _Group) -> JobSighting:
        root = group.root
        user = self._user(root.pid)
        gpus = tuple(GpuId(f"{self.node}/gpu{index}") for index in sorted(group.gpus))
        command = self._table.command(root.pid)
        return JobSighting(
            job=Job(
                id=id_,
                tenant=TenantId(user),
                shape=JobShape(gpus=len(gpus)),
                submit_s=root.start_s,
                user=user,
                name=_title(command) or root.name,
                state=JobState.RUNNING,
                gpus=gpus,
                nodes=(self.node,),
                start_s=root.start_s,
            ),
            places=(f"{self.node}@{id_}", *gpus),
            why="its processes run",
            about={"user": user, "pid": str(root.pid), "command": " ".join(command)[:200]},
        )

    def _ended(self, groups: Mapping[JobId, _Group], t_s: float) -> JobUpdates:
        gone = [id_ for id_ in self._book.going_on() if id_ not in groups]
        return self._book.end(t_s, gone, why=_END)

    def _user(self, pid: int) -> str:
        number = self._table.user(pid)
        return "unknown" if number is None else user_name(number)

    def _tenants(self, groups: Mapping[JobId, _Group]) -> tuple[Tenant, ...] | None:
        users = self._users | {self._user(group.root.pid) for group in groups.values()}
        if users == self._users:
            return None
        self._users = users
        return tuple(Tenant(id=TenantId(user)) for user in sorted(users))

    def _frame(self, groups: Mapping[JobId, _Group], t_s: float) -> Frame:
        if not groups:
            return empty_frame()
        rows = [
            {T_S: t_s, ENTITY: job_entity(id_), **self._use(group.members)}
            for id_, group in groups.items()
        ]
        schema = {T_S: pl.Float64, ENTITY: pl.String, **dict.fromkeys(_METRICS, pl.Float64)}
        return pl.DataFrame(rows, schema=schema)

    def _use(self, members: Iterable[Process]) -> dict[str, float | None]:
        moved = [self._table.storage_bytes(each.pid) for each in members]
        seen = [each for each in moved if each is not None]
        return {
            "job.cpu_seconds": sum(each.cpu_s for each in members),
            "job.memory.used_bytes": float(sum(each.rss_bytes for each in members)),
            "job.disk.read_bytes": float(sum(read for read, _ in seen)) if seen else None,
            "job.disk.write_bytes": float(sum(wrote for _, wrote in seen)) if seen else None,
        }

    # -- GPU processes ------------------------------------------------------------------------

    def _by_pid(
        self, table: Mapping[int, Process], holders: Mapping[int, Iterable[int]], t_s: float
    ) -> list[Span]:
        """Return a span with the job of a pid on a GPU: the driver's samples have only the pid."""
        now: dict[str, Span] = {}
        for index, pids in holders.items():
            for pid in pids:
                job = self._owners.of(pid)
                if job is not None and pid in table:
                    span = self._holding(GpuId(f"{self.node}/gpu{index}"), table[pid], job, t_s)
                    now[span.id] = self._held.get(span.id, span)
        ended = [
            replace(span, to_s=max(t_s, span.from_s))
            for id_, span in self._held.items()
            if id_ not in now
        ]
        begun = [span for id_, span in now.items() if id_ not in self._held]
        self._held = now
        return [*begun, *ended]

    def _holding(self, gpu: GpuId, process: Process, job: JobId, t_s: float) -> Span:
        entity = share_entity(gpu, JobId(f"pid:{process.pid}"))
        return Span(
            id=f"{self.name}:{entity}:{process.start_s:.2f}",
            entity=entity,
            kind="job",
            name=job,
            from_s=min(process.start_s, t_s),
            source=self.name,
        )


def _upwards(table: Mapping[int, Process], process: Process) -> list[Process]:
    found = [process]
    while found[-1].parent in table and len(found) < 64:
        found.append(table[found[-1].parent])
    return found


def _title(command: tuple[str, ...]) -> str:
    """Return a job's name: the script that it runs, not its interpreter."""
    arguments = [argument for argument in command[1:] if not argument.startswith("-")]
    chosen = next(
        (argument for argument in arguments if argument.endswith((".py", ".sh", ".jl"))), ""
    )
    return (chosen or (command[0] if command else "")).rpartition("/")[2]
