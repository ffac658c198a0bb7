"""`/api/v1/jobs`: submit, list, show, read logs, cancel, hold, release, save, preempt, resume.

`job_rights.py` has who may see and do what, `job_bodies.py` what is submitted, `job_replies.py`
what is shown, `job_moves.py` the route that moves a job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from steward.clients.job_logs import whole_characters
from steward.config.local_jobs import LocalJobRunner
from steward.errors import PermanentError, StewardError
from steward.model.identity import DecisionId, stable_id
from steward.model.managed_job import JobSpec, LifeState, ManagedJob
from steward.service.api.job_bodies import ID, JobBody, spec_of
from steward.service.api.job_drafts import draft_routes
from steward.service.api.job_moves import move_routes
from steward.service.api.job_power import power_reply
from steward.service.api.job_prospects import prospect_routes
from steward.service.api.job_replies import array_reply, long_reply, short_reply
from steward.service.api.job_rights import Asker
from steward.service.api.replies import failures
from steward.service.failures import RefusedError
from steward.service.job_outlook import JobOutlook
from steward.service.live_state import LiveState
from steward.store.job_search import JobQuery

__all__ = ["change_jobs", "find_jobs", "job_routes", "read_tail"]

MOST_LOG_BYTES = 1 << 20
Id = Annotated[str, Path(max_length=40, pattern=ID, description="a job's id")]


class ChangeNote(BaseModel):
    """Optional reason for a change, and whether unsaved work may be lost."""

    model_config = ConfigDict(extra="forbid", strict=True)
    note: str = Field("", max_length=2000)
    force: bool = False


def _query(
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**40, description="how many to leave out")] = 0,
    *,
    ended: Annotated[bool, Query(description="also those that are over")] = False,
    state: Annotated[list[LifeState] | None, Query(description="only in these states")] = None,
    user: Annotated[str, Query(max_length=200, description="only those of one account")] = "",
    text: Annotated[
        str, Query(max_length=200, description="words in id, name, user or tenant")
    ] = "",
) -> JobQuery:
    open_ = tuple(each for each in LifeState if not each.ended)
    states = tuple(state or ()) or (() if ended else open_)
    return JobQuery(states=states, user=user, text=text, offset=offset, limit=limit)


def job_routes(
    live_state: LiveState, outlook: JobOutlook, jobs: LocalJobRunner | None
) -> APIRouter:
    """Return the routes about jobs; where none are run, they say so."""
    routes = APIRouter(tags=["jobs"])

    def runner() -> LocalJobRunner:
        if jobs is None:
            hint = "set `jobs.enabled`; a demo runs no jobs"
            raise RefusedError(409, "this steward runs no jobs", where="jobs", hint=hint)
        return jobs

    @routes.post("/jobs", status_code=201, responses=failures(409))
    def submit(request: Request, body: JobBody) -> dict[str, Any]:
        """Submit a job or an array of them. The same token twice is one submission."""
        made = _submit(runner(), Asker.of(request, runner()), body)
        return {"id": made[0].spec.array or made[0].id, "jobs": [each.id for each in made]}

    @routes.get("/jobs", responses=failures(409))
    def list_jobs(
        request: Request, response: Response, wanted: Annotated[JobQuery, Depends(_query)]
    ) -> list[dict[str, Any]]:
        """List jobs, newest first. `X-Total-Count` has how many match, also beyond the limit."""
        found, total = runner().store.search(wanted)
        response.headers["X-Total-Count"] = str(total)
        asker = Asker.of(request, runner())
        return [short_reply(each, asker) for each in found]

    routes.include_router(draft_routes(runner, outlook))
    # Before what names a job: `cost` is no id.
    routes.include_router(prospect_routes(live_state, runner, lambda id_: find_jobs(runner(), id_)))

    @routes.get("/jobs/{job}", responses=failures(404, 409))
    def show(request: Request, job: Id) -> dict[str, Any]:
        """Return one job with its whole life; of an array all its tasks.

        What it runs, its logs and its checkpoints are for its owner and operators.
        """
        found, asker = find_jobs(runner(), job), Asker.of(request, runner())
        if found[0].id == job:
            power = power_reply(runner(), live_state, found[0])
            mine = asker.sees_all_of(found[0])
            return {**long_reply(runner(), found[0], asker), "power": power if mine else None}
        return array_reply(job, found, asker)

    @routes.get("/jobs/{job}/log", responses=failures(404, 409))
    def log(
        request: Request, job: Id, offset: Annotated[int, Query(ge=0, le=2**60)] = 0
    ) -> dict[str, Any]:
        """Return a part of a job's output, of all its runs, for its owner and operators.

        A log that its owner has emptied is shorter than `offset`, and begins anew.
        """
        found = _own(runner(), Asker.of(request, runner()), job)
        return _log(runner(), _one_task(job, found), offset)

    _add_changes(routes, runner)
    routes.include_router(move_routes(live_state, runner, lambda id_: find_jobs(runner(), id_)))
    return routes


def _add_changes(routes: APIRouter, runner: Any) -> None:  # noqa: ANN401 - a nested function
    def change(request: Request, job: str, what: str, body: ChangeNote | None) -> dict[str, Any]:
        asker = Asker.of(request, runner())
        made = change_jobs(runner(), asker, job, what, body or ChangeNote())
        return {"id": job, "jobs": [short_reply(each, asker) for each in made]}

    for what in ("cancel", "hold", "release", "save", "preempt", "resume"):
        path = f"/jobs/{{job}}/{what}"
        replies = failures(404, 409)
        routes.post(path, status_code=202, responses=replies)(_bound(change, what))


def _bound(change: Any, what: str) -> Any:  # noqa: ANN401 - a route
    def route(request: Request, job: Id, body: ChangeNote | None = None) -> dict[str, Any]:
        try:
            return dict(change(request, job, what, body))
        except RefusedError:
            raise
        except StewardError as fault:
            raise RefusedError(409, fault.problem, where=fault.where, hint=fault.hint) from fault

    route.__name__ = f"{what}_job"
    route.__doc__ = f"{what.capitalize()} a job, or all tasks of an array."
    return route


def change_jobs(
    runner: LocalJobRunner, asker: Asker, job: str, what: str, given: ChangeNote
) -> list[ManagedJob]:
    """Change a job, or all tasks of an array, that are the asker's to change."""
    found = _own(runner, asker, job)
    return _change_all(runner, found, what, asker.user.name, given)


def _change_all(
    runner: LocalJobRunner, jobs: tuple[ManagedJob, ...], what: str, user: str, given: ChangeNote
) -> list[ManagedJob]:
    """Change each task of an array that can be changed so now; raise if none can."""
    made: list[ManagedJob] = []
    faults: list[StewardError] = []

    def one(job: ManagedJob) -> None:
        try:
            made.append(_change(runner, job, what, user, given))
        except StewardError as fault:  # such as a task that runs, when all are to be held
            faults.append(fault)

    running = []
    with runner.controller.together():  # of those that run, each step is on disk before the next
        for job in jobs:
            if runner.store.job(job.id).state.holds_gpus:
                running.append(job)
            else:
                one(job)
    for job in running:
        one(job)
    if not made:
        raise faults[0]
    return made


def _change(
    runner: LocalJobRunner, job: ManagedJob, what: str, user: str, given: ChangeNote
) -> ManagedJob:
    controller, t_s = runner.controller, runner.clock.now_s()
    why = f"{user}: {given.note}" if given.note else f"{user} asked for it"
    asked = stable_id("r", what, job.id, user, t_s)
    match what:
        case "cancel":
            return controller.cancel(job.id, t_s=t_s, why=why)
        case "hold":
            return controller.hold(job.id, t_s=t_s, why=why)
        case "release" | "resume":
            return _release(runner, job, t_s, why)
        case "save":
            return controller.save(job.id, request=asked, t_s=t_s, why=why)
        case _:
            cause = DecisionId(asked)
            return controller.preempt(job.id, decision=cause, t_s=t_s, why=why, force=given.force)


def _release(runner: LocalJobRunner, job: ManagedJob, t_s: float, why: str) -> ManagedJob:
    if job.state in (LifeState.WAITING, LifeState.PREEMPTED):
        return job  # it starts when there is room
    if any(each.owner == job.id for each in runner.store.loans.open()):
        runner.controller.lending.want(job.id, t_s=t_s, why=why)
        return job  # its GPUs are called back
    return runner.controller.release(job.id, t_s=t_s, why=why)


def find_jobs(runner: LocalJobRunner, job: str) -> tuple[ManagedJob, ...]:
    """Return a job, or all tasks of an array; 404 for what is not there."""
    try:
        return runner.store.array(job)
    except StewardError as fault:
        raise RefusedError(404, fault.problem, where=fault.where, hint=fault.hint) from fault


def _own(runner: LocalJobRunner, asker: Asker, job: str) -> tuple[ManagedJob, ...]:
    found = find_jobs(runner, job)
    asker.check_own(found)
    return found


def _submit(runner: LocalJobRunner, asker: Asker, body: JobBody) -> tuple[ManagedJob, ...]:
    account = asker.account_for(runner)
    priority = asker.priority_of(body.priority, body.deadline_s)
    spec = replace(spec_of(runner, account, body), priority=priority)
    _check_dependencies(runner, spec)
    wanted = [replace(spec, index=index) for index in dict.fromkeys(body.indices)] or [spec]
    try:
        most = runner.settings.jobs.max_open_per_account
        return runner.controller.submit(wanted, runner.clock.now_s(), most_open=most)
    except PermanentError as fault:
        raise RefusedError(409, fault.problem, where=fault.where, hint=fault.hint) from fault


def _check_dependencies(runner: LocalJobRunner, spec: JobSpec) -> None:
    """Refuse to wait for a job that never was: a wrong digit would cancel what was submitted."""
    for need in dict.fromkeys(each.job for each in spec.dependencies):
        if not runner.store.stages(need):
            hint = "`steward jobs list --all` has the ids"
            raise RefusedError(422, f"there is no job {need}", where="dependencies", hint=hint)


def _one_task(id_: str, found: tuple[ManagedJob, ...]) -> ManagedJob:
    if found[0].id != id_:
        problem = "it is an array, and each of its tasks has a log"
        hint = f"name one of its {len(found)} tasks, as {found[0].id}"
        raise RefusedError(409, problem, where=f"job {id_}", hint=hint)
    return found[0]


def _log(runner: LocalJobRunner, job: ManagedJob, offset: int) -> dict[str, Any]:
    """Read a log in our own folder. One at a path of the user's choice is theirs to read."""
    path = runner.engine.log_of(job)
    if job.spec.output:
        return {"path": str(path), "text": None, "offset": offset, "over": job.state.ended}
    over = job.state.ended  # before the read: what comes later is not missed
    data = runner.engine.read_log(job.id, offset, MOST_LOG_BYTES)
    if not data and offset and not runner.engine.read_log(job.id, offset - 1, 1):
        offset = 0  # its owner has emptied it
        data = runner.engine.read_log(job.id, offset, MOST_LOG_BYTES)
    if not over or len(data) == MOST_LOG_BYTES:
        data = whole_characters(data)
    text = data.decode("utf-8", "replace")
    return {"path": str(path), "text": text, "offset": offset + len(data), "over": over}


def read_tail(runner: LocalJobRunner, job: ManagedJob, most_bytes: int) -> str | None:
    """Return the end of a job's output; None where it goes to a file of its user's choice.

    Of a longer one, the first line says that there is more before it.
    """
    if job.spec.output:
        return None
    data = runner.engine.read_log(job.id, -most_bytes - 1, most_bytes + 1)
    if len(data) <= most_bytes:
        return data.decode("utf-8", "replace")
    data = data[data.find(b"\n", 0, most_bytes // 2) + 1 :]  # a line may be longer than all this
    above = f"[the end alone: `steward jobs logs {job.id}` prints all of it]\n"
    return above + data.decode("utf-8", "replace")
