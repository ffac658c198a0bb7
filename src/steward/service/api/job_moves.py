"""`POST /api/v1/jobs/{job}/move`: a running job goes on on other GPUs, or on more or fewer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from steward.clients.local_jobs.devices import SLOT_MODEL
from steward.config.local_jobs import LocalJobRunner
from steward.errors import StewardError
from steward.model.actions.checks import lends_or_borrows, unhealthy
from steward.model.identity import DecisionId, GpuId, stable_id
from steward.model.job import JobState
from steward.model.managed_job import ManagedJob
from steward.model.view import ClusterView
from steward.service.api.job_bodies import ID
from steward.service.api.job_replies import short_reply
from steward.service.api.job_rights import Asker
from steward.service.api.replies import failures
from steward.service.failures import RefusedError
from steward.service.live_state import LiveState

__all__ = ["move_routes"]

Id = Annotated[str, Path(max_length=40, pattern=ID, description="a job's id")]
Name = Annotated[str, Field(max_length=300)]
Names = Annotated[list[Name], Field(min_length=1, max_length=4096)]
Count = Annotated[int, Field(ge=1, le=4096)]


class MoveBody(BaseModel):
    """Where a job is to go on."""

    model_config = ConfigDict(extra="forbid", strict=True)
    to: Names | Count = Field(
        description="names of GPUs or slots, as `gpu1`; or how many, of which it keeps its own"
    )
    note: str = Field("", max_length=2000)


def move_routes(
    live_state: LiveState,
    runner: Callable[[], LocalJobRunner],
    found: Callable[[str], tuple[ManagedJob, ...]],
) -> APIRouter:
    """Return the route; `found` returns a job or raises."""
    routes = APIRouter(tags=["jobs"])

    @routes.post("/jobs/{job}/move", status_code=202, responses=failures(404, 409))
    def move_job(request: Request, job: Id, body: MoveBody) -> dict[str, Any]:
        """Let a running job save, and go on on other GPUs, or on more or fewer."""
        asker = Asker.of(request, runner())
        tasks = found(job)
        asker.check_own(tasks)
        if tasks[0].id != job:
            hint = f"name a task, as {tasks[0].id}"
            raise RefusedError(409, "it is an array", where=f"job {job}", hint=hint)
        try:
            moved = _move(runner(), live_state.loop.view, tasks[0], asker.user.name, body)
        except StewardError as fault:
            raise RefusedError(409, fault.problem, where=fault.where, hint=fault.hint) from fault
        return {"id": job, "jobs": [short_reply(moved, asker)]}

    return routes


def _move(
    runner: LocalJobRunner, view: ClusterView, job: ManagedJob, user: str, body: MoveBody
) -> ManagedJob:
    known = _devices_for(runner, job)
    if isinstance(body.to, int):
        target = _so_many(runner, view, job, known, body.to)
    else:
        target = tuple(_named(name, known, job) for name in body.to)
    reason = lends_or_borrows(job.id, view) or _unfit(runner, view, job, target)
    if reason:
        raise StewardError(reason, where=f"job {job.id}")
    t_s = runner.clock.now_s()
    why = f"{user}: {body.note}" if body.note else f"{user} asked for it"
    cause = DecisionId(stable_id("r", "move", job.id, user, t_s))
    return runner.controller.move(job.id, target, decision=cause, t_s=t_s, why=why)


def _devices_for(runner: LocalJobRunner, job: ManagedJob) -> tuple[GpuId, ...]:
    """Return what is of the kind that a job runs on."""
    if SLOT_MODEL.name in job.spec.shape.gpu_models:
        return tuple(slot.id for slot in runner.devices.slots)
    return tuple(runner.devices.uuids)


def _named(name: str, known: tuple[GpuId, ...], job: ManagedJob) -> GpuId:
    for each in known:
        if name in (each, each.rpartition("/")[2]):
            return each
    there = ", ".join(each.rpartition("/")[2] for each in known)
    raise StewardError(f"'{name}' is not here", where=f"job {job.id}", hint=f"there are {there}")


def _so_many(
    runner: LocalJobRunner,
    view: ClusterView,
    job: ManagedJob,
    known: tuple[GpuId, ...],
    count: int,
) -> tuple[GpuId, ...]:
    """Return so many GPUs: those that the job has first, then free ones."""
    taken = {gpu for each in runner.store.open() if each.id != job.id for gpu in each.gpus}
    more = [
        gpu
        for gpu in known
        if gpu not in taken and gpu not in job.gpus and not _unfit(runner, view, job, (gpu,))
    ]
    chosen = (*job.gpus, *more)[:count]
    if len(chosen) < count:
        problem = f"only {len(chosen)} of {count} can be had now"
        raise StewardError(problem, where=f"job {job.id}", hint="wait, or ask for fewer")
    return chosen


def _unfit(
    runner: LocalJobRunner, view: ClusterView, job: ManagedJob, gpus: tuple[GpuId, ...]
) -> str:
    """Return why the machine cannot give GPUs to a job, or an empty text."""
    new = [gpu for gpu in gpus if gpu not in job.gpus]
    rows = [view.gpu_row[gpu] for gpu in new if gpu in view.gpu_row]
    if len(rows) != len(new):
        return "steward has not seen one of the GPUs yet"
    foreign = {
        gpu: each.name
        for each in view.details.values()
        if each.state is JobState.RUNNING and runner.store.find(each.id) is None
        for gpu in each.gpus
    }
    busy = [f"{foreign[gpu]} runs on {gpu}" for gpu in new if gpu in foreign]
    return ", ".join(busy) or unhealthy(rows, view)
