"""What a change of a job is in requests to the API server, or why it cannot be."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from steward.clients.kubernetes.annotations import ELASTIC, HELD, HOLD, PREEMPTED, SAVES
from steward.clients.kubernetes.batch_job import BatchJob
from steward.clients.kubernetes.training_job import TrainingJob
from steward.clients.kubernetes_jobs.job_life import life_of
from steward.clients.kubernetes_jobs.job_request import JobRequest
from steward.clients.kubernetes_jobs.listed_job import KubeJob
from steward.clients.kubernetes_jobs.manifest import account
from steward.clients.kubernetes_jobs.request_file import can_be_asked
from steward.clients.kubernetes_jobs.save_requests import save_requests
from steward.errors import StewardError
from steward.model.managed_job import LifeState

__all__ = ["ChangePlan", "plan_change"]

_LONGEST_NOTE = 200
_QUEUED = "Kueue starts and stops it: see `kubectl get workloads`"
Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """The requests of a change, and what the job is then."""

    state: LifeState
    why: str
    requests: tuple[JobRequest, ...] = ()
    save: str = ""  # id of the request to save whose answer is awaited


def plan_change(what: str, job: KubeJob, body: Body, now_s: float) -> ChangePlan:
    """Return how to carry out a change that a person asked for."""
    if job.ended:
        state, why = life_of(job)
        raise _refused(job, f"it is {state.value}: {why}", "submit it again")
    return _PLANS[what](job, body, now_s)


def _cancel(job: KubeJob, _: Body, __: float) -> ChangePlan:
    """Delete it with all that it owns; its pods have their grace period, and then it is gone."""
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": job.submitted.uid},
    }
    typed = f"kubectl -n {job.namespace} delete {_resource(job.submitted)} --cascade=foreground"
    request = JobRequest(verb="delete", path=job.submitted.path, body=options, typed=typed)
    why = "deleted: its pods get TERM, and KILL after their grace period"
    return ChangePlan(state=LifeState.CANCELLED, why=why, requests=(request,))


def _hold(job: KubeJob, body: Body, _: float) -> ChangePlan:
    if job.live:
        hint = f"`steward jobs preempt {job.id}` stops it first"
        raise _refused(job, f"it is {life_of(job)[0].value} and does not wait", hint)
    if job.job is not None and job.job.queue:
        raise _refused(job, f"it waits in queue {job.job.queue}", _QUEUED)
    note = " ".join(str(body.get("note", "")).split())[:_LONGEST_NOTE]
    said = f"by {account() or 'its owner'}" + (f": {note}" if note else "")
    request = _patched(job, {HELD: said}, suspend=True)
    return ChangePlan(state=LifeState.HELD, why="waits for a release", requests=(request,))


def _release(job: KubeJob, _: Body, __: float) -> ChangePlan:
    state = life_of(job)[0]
    if state is not LifeState.HELD:
        raise _refused(job, f"it is {state.value}, not held", "only a held job is released")
    return _let_go(job, "released")


def _resume(job: KubeJob, _: Body, __: float) -> ChangePlan:
    state, why = life_of(job)
    made = job.job
    if made is None or not made.suspended:
        raise _refused(job, f"it is {state.value}, not stopped", "nothing is to be done")
    if made.queue:
        raise _refused(job, f"it waits in queue {made.queue}", _QUEUED)
    if state is LifeState.SAVING:
        raise _refused(job, why, "try again when they are gone")
    if job.held:
        raise _refused(job, why, f"release it: `steward jobs release {job.id}`")
    if made.waits_for_us:
        return ChangePlan(state=state, why=why)
    return _let_go(job, "resumed")


def _let_go(job: KubeJob, word: str) -> ChangePlan:
    """Let steward start what it decides about; Kubernetes starts all else at once."""
    if job.training is not None or (job.job and job.job.annotations.get(HOLD) == "true"):
        request = _patched(job, {HELD: None, HOLD: "true"})
        why = f"{word}: steward starts it when there is room"
    else:
        request = _patched(job, {HELD: None}, suspend=False)
        why = f"{word}: Kubernetes starts it when there is room"
    return ChangePlan(state=LifeState.WAITING, why=why, requests=(request,))


def _save(job: KubeJob, _: Body, __: float) -> ChangePlan:
    state = life_of(job)[0]
    if not can_be_asked(job.template):
        problem = "its pods have no file for requests, and Kubernetes sends no signal but TERM"
        hint = (
            "submit it with --saves, which gives them one; "
            f"`steward jobs preempt {job.id}` and `resume` make it save, stop and go on"
        )
        raise _refused(job, problem, hint)
    id_, requests = save_requests(job)
    if not requests:
        raise _refused(job, f"it is {state.value}, not running", "only a running job saves")
    return ChangePlan(state=state, why="it goes on", requests=requests, save=id_)


def _preempt(job: KubeJob, body: Body, now_s: float) -> ChangePlan:
    made = job.job
    state = life_of(job)[0]
    if made is None or not (state.runs or state is LifeState.STARTING) or made.suspended:
        raise _refused(job, f"it is {state.value}, not running", "nothing is to be done")
    if made.queue:
        raise _refused(job, f"it belongs to queue {made.queue}, which would start it", _QUEUED)
    if not body.get("force"):
        _check_saves(job, made)
    managed = {HOLD: "true"} if job.training is not None else {}
    request = _patched(job, {PREEMPTED: str(int(now_s)), **managed}, suspend=True)
    next_ = (
        "steward starts it again when there is room"
        if managed
        else f"`steward jobs resume {job.id}` lets it go on"
    )
    why = f"its pods have {made.grace_s:.0f} s to save and end; {next_}"
    return ChangePlan(state=LifeState.PREEMPTED, why=why, requests=(request,))


def _check_saves(job: KubeJob, made: BatchJob) -> None:
    if made.save_s is None:
        problem = f"it has not said that it can save (annotation {SAVES})"
        hint = "submit with --saves 60 what saves on TERM; --force loses work"
        raise _refused(job, problem, hint)
    if made.save_s > made.grace_s:
        problem = f"it needs {made.save_s:.0f} s to save, and its pods have {made.grace_s:.0f} s"
        raise _refused(job, problem, "raise terminationGracePeriodSeconds; --force loses work")


def _move(job: KubeJob, body: Body, _: float) -> ChangePlan:
    """Change how many pods an elastic job has: Kubernetes can do no more."""
    to, made = body["to"], job.job
    if not isinstance(to, int):
        hint = "`--to 3` gives a job another number of pods, if it has said that it can"
        raise _refused(job, "Kubernetes chooses nodes and GPUs itself", hint)
    if made is None or not job.live:
        raise _refused(job, f"it is {life_of(job)[0].value}, not running", "only one that runs")
    least, most = made.elastic or (0, 0)
    if not least:
        problem = "it has not said with how many pods it can go on"
        raise _refused(job, problem, f"annotation {ELASTIC}, or `elastic` of a TrainingJob")
    if not least <= to <= most or to == made.parallelism:
        problem = f"it goes on with {least} to {most} pods and has {made.parallelism}"
        raise _refused(job, problem, "--to is the number of pods")
    if made.indexed and made.completions != made.parallelism:
        raise _refused(
            job, "its completions are not its parallelism", "Kubernetes allows no change"
        )
    spec = {"parallelism": to, **({"completions": to} if made.indexed else {})}
    request = _patch(made, {"spec": spec})
    return ChangePlan(state=LifeState.RESIZED, why=f"goes on with {to} pods", requests=(request,))


def _extend(job: KubeJob, _: Body, __: float) -> ChangePlan:
    problem = "Kubernetes lengthens no time limit of a pod"
    raise _refused(job, problem, "submit it with a longer --time; one that saves goes on there")


_PLANS: Mapping[str, Callable[[KubeJob, Body, float], ChangePlan]] = {
    "cancel": _cancel,
    "hold": _hold,
    "release": _release,
    "save": _save,
    "preempt": _preempt,
    "resume": _resume,
    "move": _move,
    "extend": _extend,
}


def _patched(
    job: KubeJob, notes: Mapping[str, str | None], *, suspend: bool | None = None
) -> JobRequest:
    """Return a patch of its Job; of the TrainingJob, while there is no Job."""
    made = job.job
    if made is None:
        kept = {key: value for key, value in notes.items() if key == HELD}
        body = {"metadata": {"annotations": kept}}
        return _patch(job.submitted, body)
    spec = {"spec": {"suspend": suspend}} if suspend is not None else {}
    return _patch(made, {"metadata": {"annotations": notes}, **spec})


def _patch(seen: BatchJob | TrainingJob, body: dict[str, Any]) -> JobRequest:
    # The server refuses it where anybody has changed the object since it was looked at.
    own = {"resourceVersion": seen.version, "uid": seen.uid}
    body = {**body, "metadata": {**own, **body.get("metadata", {})}}
    kubectl = f"kubectl -n {seen.namespace} patch {_resource(seen)} --type=merge"
    typed = f"{kubectl} -p {shlex.quote(json.dumps(body))}"
    return JobRequest(verb="patch", path=seen.path, body=body, typed=typed)


def _resource(seen: BatchJob | TrainingJob) -> str:
    return f"{'trainingjob' if isinstance(seen, TrainingJob) else 'job'} {seen.name}"


def _refused(job: KubeJob, problem: str, hint: str) -> StewardError:
    return StewardError(problem, where=f"job {job.id}", hint=hint)
