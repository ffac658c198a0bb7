"""What a change of a job is in Slurm's commands, or why it cannot be."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from steward.clients.job_directives import seconds
from steward.clients.slurm import changes
from steward.clients.slurm_jobs.exchange import files_of
from steward.clients.slurm_jobs.job_life import life_of
from steward.clients.slurm_jobs.listed_job import ListedJob
from steward.errors import StewardError
from steward.model.managed_job import LifeState

__all__ = ["ChangePlan", "plan_change"]

# A node refuses to launch a job in the second in which it killed it; see docs/slurm.md, "Traps".
REST_S = 5
CLOCKS_AGREE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """The commands of a change, after a save if there is to be one, and what the job is then."""

    state: str
    why: str
    commands: tuple[changes.Command, ...] = ()
    save: bool = False
    needs: str = ""  # the right that its owner may lack


def plan_change(what: str, job: ListedJob, body: Mapping[str, Any], now_s: float) -> ChangePlan:
    """Return how to carry out a change that a person asked for."""
    if job.ended:
        problem = f"it is {life_of(job)[0].value}: it is over"
        raise StewardError(problem, where=f"job {job.id}", hint="submit it again")
    return _PLANS[what](job, body, now_s)


def _cancel(job: ListedJob, _: Mapping[str, Any], __: float) -> ChangePlan:
    why = "ended by Slurm: TERM, then KILL"
    return ChangePlan(state="cancelled", why=why, commands=(changes.cancel(job.address),))


def _hold(job: ListedJob, _: Mapping[str, Any], __: float) -> ChangePlan:
    if not job.waits:
        hint = "`steward jobs preempt` puts it back into the queue first"
        raise _refused(job, f"it is {life_of(job)[0].value} and does not wait", hint)
    return ChangePlan(
        state="held", why="waits for a release", commands=(changes.hold(job.address),)
    )


def _release(job: ListedJob, _: Mapping[str, Any], __: float) -> ChangePlan:
    if job.is_lent:
        hint = "undo the loan: `steward decisions list` has it; or cancel the job"
        raise _refused(job, f"it runs {life_of(job)[1]}", hint)
    if not job.held_by:
        raise _refused(
            job, f"it is {life_of(job)[0].value}, not held", "only a held job is released"
        )
    return ChangePlan(state="waiting", why="released", commands=(changes.release(job.address),))


def _save(job: ListedJob, _: Mapping[str, Any], __: float) -> ChangePlan:
    _check_saves(job)
    return ChangePlan(state=life_of(job)[0].value, why="it goes on", save=True)


def _preempt(job: ListedJob, body: Mapping[str, Any], _: float) -> ChangePlan:
    if not job.runs:
        raise _refused(
            job, f"it is {life_of(job)[0].value}, not running", "there is nothing to stop"
        )
    if not job.batch:
        raise _refused(job, "srun and salloc cannot be requeued", "cancel it, or let it end")
    if not job.requeue:
        hint = f"its owner may allow it: scontrol update JobId={job.id} Requeue=1"
        raise _refused(job, "it was submitted with --no-requeue", hint)
    force = bool(body.get("force"))
    if not force:
        _check_saves(job)
    why = (
        "it starts again two minutes from now at the earliest, sooner with "
        f"`steward jobs resume {job.id}`"
    )
    back = (changes.requeue(job.address, hold=False),)
    return ChangePlan(state=LifeState.PREEMPTED.value, why=why, commands=back, save=not force)


def _resume(job: ListedJob, _: Mapping[str, Any], now_s: float) -> ChangePlan:
    if not job.waits:
        raise _refused(
            job, f"it is {life_of(job)[0].value} and does not wait", "nothing is to be done"
        )
    if job.held_by in ("user", "admin"):
        raise _refused(job, life_of(job)[1], f"release it: `steward jobs release {job.id}`")
    rest = REST_S if job.restarts and now_s - job.submit_s < CLOCKS_AGREE_S else 0
    first = (changes.release(job.address),) if job.held_by == "requeue" else ()
    late = job.reason == "BeginTime" or job.held_by == "requeue"
    commands = (*first, changes.update_job(job.address, start_in_s=rest)) if late else ()
    why = f"may start in {rest} s" if late else life_of(job)[1]
    return ChangePlan(state=LifeState.WAITING.value, why=why, commands=commands)


def _move(job: ListedJob, body: Mapping[str, Any], _: float) -> ChangePlan:
    """Shrink a running job to fewer of its nodes: Slurm can do no more."""
    to = body["to"]
    hint = "Slurm moves no running job: it gives up whole nodes of it, all but its first"
    if not job.runs:
        raise _refused(job, f"it is {life_of(job)[0].value}, not running", hint)
    kept = job.nodes[:to] if isinstance(to, int) else tuple(to)
    strange = [name for name in kept if name not in job.nodes]
    if strange:
        raise _refused(job, f"it does not run on {', '.join(strange)}", hint)
    if not kept or {*kept} == {*job.nodes} or (isinstance(to, int) and to > len(job.nodes)):
        has = f"it has {len(job.nodes)} nodes: {', '.join(job.nodes)}"
        raise _refused(job, f"{has}; that is no smaller number of them", hint)
    if job.nodes[0] not in kept:
        raise _refused(job, f"its batch script runs on {job.nodes[0]}", hint)
    command = changes.update_job(job.address, nodes=kept)
    why = f"goes on with {', '.join(kept)}"
    return ChangePlan(state=LifeState.RESIZED.value, why=why, commands=(command,))


def _extend(job: ListedJob, body: Mapping[str, Any], now_s: float) -> ChangePlan:
    """Change how long a job may run: all in all, or with a `+` so much longer."""
    text = str(body["time"]).strip()
    more, wanted_s = text.startswith("+"), seconds(text.removeprefix("+"), "--time")
    ran_s = now_s - job.start_s if job.runs and job.start_s is not None else 0.0
    if wanted_s is not None and not more and wanted_s <= ran_s:
        problem = f"it has run for {ran_s / 60:.0f} min: a limit of {text} would end it now"
        raise _refused(job, problem, "write more, or end it: `steward jobs cancel`")
    if wanted_s is None and more:
        raise _refused(job, f"'{text}' is no time", "write how much longer, as +1:00:00")
    limit = "UNLIMITED" if wanted_s is None else ("+" if more else "") + _clock(wanted_s)
    command = changes.update_job(job.address, time_limit=limit)
    needs = f"only an operator of Slurm may let a running job run longer: {shlex.join(command)}"
    why = f"it may run {f'for {limit[1:]} more' if more else f'for {limit} in all'}"
    state = life_of(job)[0].value
    return ChangePlan(state=state, why=why, commands=(command,), needs=needs if job.runs else "")


def _clock(time_s: float) -> str:
    """Return a time as Slurm takes it, which has no seconds alone.

    >>> _clock(90), _clock(200_000)
    ('00:01:30', '2-07:33:20')
    """
    minutes, rest = divmod(round(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hours:02}:{minutes:02}:{rest:02}"


_PLANS: Mapping[str, Callable[[ListedJob, Mapping[str, Any], float], ChangePlan]] = {
    "cancel": _cancel,
    "hold": _hold,
    "release": _release,
    "save": _save,
    "preempt": _preempt,
    "resume": _resume,
    "move": _move,
    "extend": _extend,
}


def _check_saves(job: ListedJob) -> None:
    """Refuse to signal a job that would end by it, or that would lose its work."""
    if not job.runs:
        raise _refused(
            job, f"it is {life_of(job)[0].value}, not running", "only a running job saves"
        )
    files = files_of(job)
    able = files.able if files is not None else None
    if able is False and files is not None:
        raise _refused(job, f"it cannot save: {files.why_not}", "see docs/jobs/checkpoints.md")
    if able is None and job.mark.save_s is None:
        hint = (
            "three lines of steward.training do, see docs/jobs/checkpoints.md; --force loses work"
        )
        raise _refused(job, "it has not said that it can save", hint)


def _refused(job: ListedJob, problem: str, hint: str) -> StewardError:
    return StewardError(problem, where=f"job {job.id}", hint=hint)
