"""Moves a running job to other GPUs, or to another number of them: save, stop, start there.

The target is in the store before the job is asked to save, and is held from then on. When the first
attempt has ended, its end and the next attempt are one transaction: a steward that is killed in
between finds either a job that is still to be stopped, or one that is to be started there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from steward.errors import PermanentError
from steward.model.actions.checks import span
from steward.model.identity import DecisionId, GpuId
from steward.model.managed_job import Attempt, LifeState, ManagedJob

__all__ = ["begin_again", "check_movable", "go_on_there", "intend"]

MOST_TRIES = 3  # to start it there, by attempts that ran nothing; then it goes into the queue


def check_movable(job: ManagedJob, target: tuple[GpuId, ...], taken: dict[GpuId, str]) -> Attempt:
    """Return the attempt that would be moved, or raise with what forbids it.

    `taken` has the GPUs of other jobs. That the job can save is the caller's to check.
    """
    where, last = f"job {job.id}", job.attempt
    if last is None or not job.state.runs:
        raise PermanentError(f"it is {job.state.value}, not running", where=where)
    if last.stop:
        doing = {"cancel": "cancelled", "preempt": "preempted", "move": "moved"}[last.stop]
        raise PermanentError(f"it is being {doing}", where=where, hint="wait until that is done")
    if len({*target}) != len(target) or {*target} == {*last.gpus}:
        problem = f"{', '.join(target)} is no other place than {', '.join(last.gpus)}"
        raise PermanentError(
            problem, where=where, hint="name GPUs that it does not hold, each once"
        )
    busy = [f"{gpu} by job {taken[gpu]}" for gpu in target if gpu in taken]
    if busy:
        raise PermanentError(f"held: {', '.join(busy)}", where=where)
    least, most = job.spec.shape.gpu_range
    if len(target) != len(last.gpus) and not least <= len(target) <= most:
        hint = "submit it with --min-gpus and --max-gpus if it can go on with other numbers"
        problem = f"it runs on {span(least, most)} GPUs, not on {len(target)}"
        raise PermanentError(problem, where=where, hint=hint)
    return last


def intend(
    job: ManagedJob, target: tuple[GpuId, ...], *, decision: DecisionId, why: str
) -> ManagedJob:
    """Return the job with its newest attempt to be moved."""
    assert job.attempt is not None  # noqa: S101 - `check_movable` has returned it
    stop: Literal["move"] = "move"
    kept = replace(job.attempt, stop=stop, stop_why=why, stop_decision=decision, next_gpus=target)
    return job.with_attempt(kept)


def go_on_there(job: ManagedJob, over: Attempt, t_s: float) -> ManagedJob:
    """Return a job whose attempt is over with the next one, on the GPUs that it was to go to."""
    assert over.stop_decision is not None  # noqa: S101 - `intend` has set it
    same = len(over.next_gpus) == len(over.gpus)
    return _with_next(
        job, over.next_gpus, over.stop_decision, "migrated" if same else "resized", t_s
    )


def begin_again(job: ManagedJob, over: Attempt, t_s: float) -> ManagedJob | None:
    """Return a moved job whose attempt ran nothing with another one; None after several."""
    tries = sum(each.decision == over.decision for each in job.attempts)
    if not over.arrives or over.stop == "cancel" or tries >= MOST_TRIES:
        return None
    return _with_next(job, over.gpus, over.decision, over.arrives, t_s)


def _with_next(
    job: ManagedJob,
    gpus: tuple[GpuId, ...],
    decision: DecisionId,
    arrives: Literal["migrated", "resized"],
    t_s: float,
) -> ManagedJob:
    number = len(job.attempts) + 1
    made = Attempt(number=number, decision=decision, gpus=gpus, began_s=t_s, arrives=arrives)
    why = f"on {', '.join(gpus)}"
    return job.with_attempt(made).moved(t_s, LifeState.STARTING, why, decision=decision)
