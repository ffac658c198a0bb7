"""What `top` shows, whatever it comes from: machines, GPUs and jobs at one moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

__all__ = [
    "IDLE_AFTER_S",
    "QUIET_SHARE",
    "GpuLine",
    "HostLine",
    "JobHistory",
    "JobLine",
    "Scene",
    "Seen",
]

Values = Mapping[str, float]
QUIET_SHARE = 0.05  # below this, a driver's noise is all there is
IDLE_AFTER_S = 60.0
HISTORY = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLine:
    """One machine with its newest values."""

    node: str
    values: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLine:
    """One GPU; `history` is how busy it was, oldest first, None where nobody knows."""

    id: str
    values: Values
    jobs: tuple[str, ...] = ()
    state: str = ""
    history: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """One job. None is not known; `idle_s` counts since none of its GPUs did anything."""

    id: str
    user: str = ""
    gpus: tuple[str, ...] = ()
    busy_share: float | None = None
    gpu_memory_bytes: float | None = None
    cpu_cores: float | None = None
    memory_bytes: float | None = None
    idle_s: float | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it holds GPUs and has let them rest for longer than a hiccup."""
        return bool(self.gpus) and (self.idle_s or 0.0) >= IDLE_AFTER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that is shown. `notes` say what cannot be, and why."""

    t_s: float
    source: str
    hosts: tuple[HostLine, ...] = ()
    gpus: tuple[GpuLine, ...] = ()
    jobs: tuple[JobLine, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Newest values by entity, and who holds which GPU: what a scene is made from."""

    t_s: float
    values: Mapping[str, Values]
    users: Mapping[str, str]
    holders: Mapping[str, tuple[str, ...]]  # GPU: its jobs
    running: tuple[str, ...] = ()  # jobs that run, also without a GPU or a sample of them


class JobHistory:
    """Remembers how busy GPUs were, for curves and for who has been idle how long."""

    def __init__(self) -> None:
        self._busy: dict[str, deque[float | None]] = {}
        self._quiet_s: dict[str, float] = {}  # GPU: since when it does nothing

    def remember(self, t_s: float, gpu: str, busy: float | None) -> None:
        """Take one more point of a GPU's curve, oldest first."""
        self._busy.setdefault(gpu, deque(maxlen=HISTORY)).append(busy)
        if busy is None or busy >= QUIET_SHARE:
            self._quiet_s.pop(gpu, None)
        else:
            self._quiet_s.setdefault(gpu, t_s)

    def scene(self, seen: Seen, *, source: str, notes: Iterable[str] = ()) -> Scene:
        """Put lines together."""
        hosts = [name for name in seen.values if "/" not in name and _is_host(name)]
        gpus = tuple(self._gpu(name, seen) for name in seen.values if is_gpu(name))
        return Scene(
            t_s=seen.t_s,
            source=source,
            hosts=tuple(HostLine(node=name, values=seen.values[name]) for name in sorted(hosts)),
            gpus=tuple(sorted(gpus, key=lambda each: _natural(each.id))),
            jobs=self._jobs(seen, {gpu.id: gpu for gpu in gpus}),
            notes=tuple(notes),
        )

    def _gpu(self, name: str, seen: Seen) -> GpuLine:
        return GpuLine(
            id=name,
            values=seen.values[name],
            jobs=seen.holders.get(name, ()),
            history=tuple(self._busy.get(name, ())),
        )

    def _jobs(self, seen: Seen, gpus: Mapping[str, GpuLine]) -> tuple[JobLine, ...]:
        found = {job: JobLine(id=job) for job in seen.running}
        for gpu, jobs in seen.holders.items():
            for job in jobs:
                line = found.get(job, JobLine(id=job))
                found[job] = replace(line, gpus=(*line.gpus, gpu))
        for entity, values in seen.values.items():
            job = entity[4:] if entity.startswith("job:") else entity.partition("@")[2]
            if job and "/" not in entity:
                found[job] = _with_host(found.get(job, JobLine(id=job)), values)
        return tuple(self._with_gpus(line, seen, gpus) for line in found.values())

    def _with_gpus(self, line: JobLine, seen: Seen, gpus: Mapping[str, GpuLine]) -> JobLine:
        line = replace(line, user=seen.users.get(line.id, line.user))
        held = [gpus[gpu] for gpu in line.gpus if gpu in gpus]
        busy = [each.values[name] for each in held if (name := "gpu.busy_share") in each.values]
        memory = [_memory(each, line.id, seen) for each in held]
        known = [each for each in memory if each is not None]
        quiet = [self._quiet_s.get(gpu.id) for gpu in held]
        since = [each for each in quiet if each is not None]
        idle_s = seen.t_s - max(since) if held and len(since) == len(held) else None
        return replace(
            line,
            busy_share=sum(busy) / len(busy) if busy else None,
            gpu_memory_bytes=sum(known) if known else None,
            idle_s=idle_s,
        )


def is_gpu(entity: str) -> bool:
    """Say whether an entity is a whole GPU.

    >>> is_gpu("n01/gpu3"), is_gpu("n01/gpu3@812"), is_gpu("n01/gpu3/mig0")
    (True, False, False)
    """
    node, _, part = entity.partition("/")
    return bool(node) and part[:3] == "gpu" and part[3:].isdigit()


def _is_host(entity: str) -> bool:
    return ":" not in entity and "@" not in entity


def _natural(gpu: str) -> tuple[str, int]:
    node, _, part = gpu.rpartition("/gpu")
    return node, int(part) if part.isdigit() else 0


def _memory(gpu: GpuLine, job: str, seen: Seen) -> float | None:
    """Return a job's memory on a GPU: its own part where it is known, else all that is used."""
    own = seen.values.get(f"{gpu.id}@{job}", {}).get("share.memory.used_bytes")
    if own is not None:
        return own
    return gpu.values.get("gpu.memory.used_bytes") if len(gpu.jobs) <= 1 else None


def _with_host(line: JobLine, values: Values) -> JobLine:
    """Add one node's part of what a job uses."""
    cores = values.get("job.cpu.busy_cores")
    memory = values.get("job.memory.charged_bytes", values.get("job.memory.used_bytes"))
    return replace(
        line,
        cpu_cores=line.cpu_cores if cores is None else (line.cpu_cores or 0.0) + cores,
        memory_bytes=line.memory_bytes if memory is None else (line.memory_bytes or 0.0) + memory,
    )
