"""A job of Slurm in the words of the model: its state, what it holds, and whether it can save."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from steward.clients.slurm import SlurmJob
from steward.clients.slurm.jobs import WAITING
from steward.clients.slurm.syntax import whole_gpus
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.job import Checkpointing, Job, JobShape, JobState
from steward.model.yielding import Yielding, suspension_s
from steward.observe.job_book import JobSighting

__all__ = ["SlurmSightings"]

ENDS_S = 5.0  # that ending a step takes, and noticing it
SUSPENDED_BYTES = 80 << 30

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


class SlurmSightings:
    """Translates jobs. `gpus_on` counts the GPUs of nodes, `models` has what drivers call them.

    `lends_to` is the account whose jobs may run in one another: Slurm lets nobody else in, not even
    root, and steward runs as that account.
    """

    def __init__(
        self,
        models: Mapping[str, str],
        *,
        gpus_on: Callable[[Iterable[str]], int],
        lends_to: str = "",
    ) -> None:
        self._models = models
        self._gpus_on = gpus_on
        self._lends_to = lends_to

    def of(self, job: SlurmJob, before: SlurmJob | None, t_s: float) -> JobSighting:
        """Return a job as the book keeps it. `before` is the same job at the last look."""
        state, save_s = _state(job), job.mark.save_s
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
                checkpointing=Checkpointing(able=save_s is not None, save_s=save_s or 0.0),
                held=state is JobState.QUEUED and job.is_kept_waiting,
                borrows="own" if self._may_borrow(job) else "no",
                yielding=self._yielding(job),
            ),
            places=self._places(job),
            run=str(restarts or 0),
            why=_why(job),
            about=_about(job),
        )

    def _may_borrow(self, job: SlurmJob) -> bool:
        own = bool(self._lends_to) and job.user == self._lends_to
        return own and job.mark.inside_bytes is not None and not job.array

    def _yielding(self, job: SlurmJob) -> Yielding:
        """Return what is promised: who may run in another job may be ended there, too.

        Nobody here knows how much a job has on its GPU: a large one is taken to be full.
        """
        may_borrow = self._may_borrow(job)
        suspendable = job.mark.suspend and job.gpus == 1 and job.user == self._lends_to != ""
        size = SUSPENDED_BYTES if suspendable else 0
        return Yielding(
            promised_s=(job.mark.save_s or 0.0) + ENDS_S if may_borrow else None,
            endable=may_borrow,
            suspendable=suspendable,
            suspend_s=suspension_s((), "suspend", size) if suspendable else 0.0,
            resume_s=suspension_s((), "resume", size) if suspendable else 0.0,
        )

    def _shape(self, job: SlurmJob) -> JobShape:
        least, most = job.mark.gpu_range or (job.gpus, job.gpus)
        return JobShape(
            gpus=job.gpus,
            gpu_memory_bytes=job.mark.inside_bytes or 0,
            cpus=job.cpus,
            memory_bytes=job.memory_bytes,
            gpu_models=tuple(self._models.get(each, each) for each in job.gpu_types),
            min_gpus=least if least <= job.gpus <= most else 0,
            max_gpus=most if least <= job.gpus <= most else 0,
        )

    def _places(self, job: SlurmJob) -> tuple[str, ...]:
        """Return the entities that the job has to itself, as far as Slurm knows."""
        if job.start_s is None:
            return ()
        hosts = [f"{node}@{job.id}" for node in job.nodes]
        if job.exclusive or (job.gpus and job.gpus == self._gpus_on(job.nodes)):
            return (*hosts, *(f"{node}/*" for node in job.nodes))
        return (*hosts, *_gpus(job))


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
        for each in whole_gpus(held)
        for index in each.indices
    )
