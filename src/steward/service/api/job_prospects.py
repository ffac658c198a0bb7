"""Why a job is not running, what jobs have cost: answers that need more than the job itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from steward.config.local_jobs import LocalJobRunner
from steward.config.plugs import schedulers
from steward.decide.scheduling.prospects import Prospect, prospect_of
from steward.model.decision import Autonomy
from steward.model.identity import JobId
from steward.model.job import JobState
from steward.model.job_cost import JobCost, cost_of, total_cost
from steward.model.managed_job import LifeState, ManagedJob
from steward.model.view import ClusterView
from steward.ports import Policy
from steward.service.api.job_bodies import ID
from steward.service.api.replies import failures
from steward.service.failures import RefusedError
from steward.service.live_state import LiveState

__all__ = ["cost_reply", "prospect_routes", "why_reply"]

Id = Annotated[str, Path(max_length=40, pattern=ID, description="a job's id")]
Found = Callable[[str], tuple[ManagedJob, ...]]


def prospect_routes(
    live_state: LiveState, runner: Callable[[], LocalJobRunner], found: Found
) -> APIRouter:
    """Return the routes that look ahead or add up; `found` returns a job or raises."""
    routes = APIRouter(tags=["jobs"])

    @routes.get("/jobs/cost", responses=failures(409))
    def costs(limit: Annotated[int, Query(ge=1, le=10_000)] = 1000) -> dict[str, Any]:
        """Return what the newest jobs have cost, in GPU-seconds, each and by tenant."""
        return cost_reply(runner(), runner().store.newest(limit))

    @routes.get("/jobs/{job}/cost", responses=failures(404, 409))
    def cost(job: Id) -> dict[str, Any]:
        """Return what a job, or an array, has cost in GPU-seconds."""
        return {"id": job, **cost_reply(runner(), found(job))}

    @routes.get("/jobs/{job}/why", responses=failures(404, 409))
    def why(job: Id) -> dict[str, Any]:
        """Return what keeps a job from running: who, which limit, until when, and what would help.

        Of an array, of its first task that is not over.
        """
        tasks = found(job)
        chosen = next((each for each in tasks if not each.state.ended), tasks[0])
        return why_reply(runner(), live_state, chosen)

    return routes


# -- cost ------------------------------------------------------------------------------------------


def cost_reply(runner: LocalJobRunner, jobs: Iterable[ManagedJob]) -> dict[str, Any]:
    """Return what jobs have cost, each, by tenant and in all."""
    loans, now_s = runner.store.loans, runner.clock.now_s()
    found = [
        (job, cost_of(job, now_s, [x.span for x in loans.of(job.id) if x.span is not None]))
        for job in jobs
    ]
    tenants: dict[str, list[JobCost]] = {}
    for job, cost in found:
        tenants.setdefault(job.spec.tenant, []).append(cost)
    return {
        "total": asdict(total_cost(cost for _, cost in found)),
        "tenants": {name: asdict(total_cost(costs)) for name, costs in sorted(tenants.items())},
        "jobs": [
            {"id": job.id, "name": job.spec.name, "user": job.spec.user, **asdict(cost)}
            for job, cost in found
        ],
    }


# -- why -------------------------------------------------------------------------------------------


def why_reply(runner: LocalJobRunner, live_state: LiveState, job: ManagedJob) -> dict[str, Any]:
    """Return why a job does not run, with what would help."""
    view = live_state.loop.view
    last = job.events[-1]
    reply: dict[str, Any] = {
        "id": job.id,
        "state": job.state.value,
        "since_s": last.t_s,
        "now_s": view.t_s,
        "summary": f"it is {job.state.value}: {last.why}",
        "limits": [],
        "holders": [],
        "ahead": [],
        "room_by": [],
        "eta": None,
        "changes": [],
    }
    if job.state is LifeState.HELD:
        text = f"steward jobs release {job.id}"
        return {**reply, "changes": [{"what": "release", "value": job.id, "text": text}]}
    if job.state is LifeState.SUBMITTED:
        return {**reply, "summary": "it waits for other jobs", "limits": _needs(runner, job)}
    if job.state not in (LifeState.WAITING, LifeState.PREEMPTED):
        return reply
    seen = view.details.get(job.id)
    if seen is None or seen.state is not JobState.QUEUED:
        return {**reply, "summary": "it waits, and steward has not looked at the queue since"}
    policy = _scheduler(live_state)
    stops = live_state.settings.loop.autonomy is Autonomy.AUTO
    return {**reply, **_told(prospect_of(policy, view, job.id, stops=stops), view)}


def _needs(runner: LocalJobRunner, job: ManagedJob) -> list[str]:
    return [
        f"{need.when}:{other.id}, which is {other.state.value}"
        for need in job.spec.dependencies
        for other in runner.store.array(need.job)
    ]


def _scheduler(live_state: LiveState) -> Policy[ClusterView]:
    names = schedulers()
    for policy in live_state.loop.stages.policies:
        if policy.name in names:
            return policy
    raise RefusedError(
        409,
        "no policy starts jobs here",
        where="decide.policies",
        hint=f"add one of {', '.join(names)}",
    )


def _told(found: Prospect, view: ClusterView) -> dict[str, Any]:
    starts = found.starts
    return {
        "summary": _summary(found),
        "limits": [] if found.starts_now else list(found.limits),
        "holders": [_line(view, each) for each in found.holders],
        "ahead": [_line(view, each) for each in found.ahead],
        "room_by": list(found.room_by),
        "eta": {
            "low_s": starts.low_s,
            "mid_s": starts.mid_s,
            "high_s": starts.high_s,
            "unknown": list(starts.unknown),
            "beyond": starts.beyond,
        },
        "changes": [asdict(each) for each in found.changes],
    }


def _summary(found: Prospect) -> str:
    if found.reserved:
        return "a decision about it is under way"
    if found.starts_now:
        return "it starts with the next decision"
    if found.room_by:
        jobs = ", ".join(found.room_by)
        return f"it would start if {jobs} made room, which a person has to approve"
    if found.ahead:
        return f"it waits behind {len(found.ahead)} jobs"
    return "it waits for what others hold"


def _line(view: ClusterView, id_: JobId) -> dict[str, Any]:
    """Return what everybody may know of a job."""
    job = view.details[id_]
    return {
        "id": id_,
        "name": job.name,
        "user": job.user,
        "tenant": job.tenant,
        "gpus": job.shape.gpus,
        "time_limit_s": job.time_limit_s,
    }
