"""Jobs as the API shows them: all of one to its owner, little of it to others."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from steward.config.local_jobs import LocalJobRunner
from steward.model.identity import JobId
from steward.model.job_loan import JobLoan, yielding_of
from steward.model.managed_job import JobNote, LifeEvent, ManagedJob
from steward.service.api.job_rights import Asker

__all__ = ["array_reply", "long_reply", "short_reply"]


def short_reply(job: ManagedJob, asker: Asker) -> dict[str, Any]:
    """Return one line of a list."""
    last = job.events[-1]
    mine = asker.sees_all_of(job)
    return {
        "id": job.id,
        "name": job.spec.name,
        "user": job.spec.user,
        "tenant": job.spec.tenant,
        "state": job.state.value,
        "why": _why(last) if mine else last.why,
        "since_s": last.t_s,
        "submit_s": job.submit_s,
        "priority": job.spec.priority,
        "asks_for": job.spec.shape.gpus,
        "gpus": list(job.gpus),
        "exit_code": job.exit_code,
        "attempts": len(job.attempts),
    }


def long_reply(runner: LocalJobRunner, job: ManagedJob, asker: Asker) -> dict[str, Any]:
    """Return all of a job that is the asker's to see."""
    mine = asker.sees_all_of(job)
    events = [
        {
            "t_s": each.t_s,
            "state": each.state.value,
            "why": _why(each) if mine else each.why,
            "decision": each.decision,
        }
        for each in job.events
    ]
    notes = [
        {"t_s": each.t_s, "attempt": each.attempt, "why": _why(each) if mine else each.why}
        for each in job.notes
    ]
    return {
        **short_reply(job, asker),
        "events": events,
        "notes": notes,
        "loans": [_loan(each, job.id) for each in runner.store.loans.of(job.id)],
        **(_own(runner, job) if mine else _NONE),
    }


def _loan(loan: JobLoan, job: JobId) -> dict[str, Any]:
    """Return one loan as a job that has a part in it sees it."""
    owns = loan.owner == job
    return {
        "id": loan.id,
        "role": "owner" if owns else "borrower",
        "other": loan.borrower if owns else loan.owner,
        "gpus": list(loan.gpus),
        "since_s": loan.since_s if loan.since_s is not None else loan.asked_s,
        "until_s": loan.free_s if loan.free_s is not None else loan.over_s,
        "way": loan.way,
        "promised_s": loan.promised_s,
        "took_s": loan.took_s,
        "phase": loan.phase,
        "failed": loan.failed,
        "notes": [asdict(each) for each in loan.notes],
    }


_NONE: dict[str, Any] = {
    "command": None,
    "spec": None,
    "attempts": [],
    "checkpoints": [],
    "can_save": None,
    "job_folder": None,
    "log": None,
    "fault": None,
    "giving_back": None,
}


def _own(runner: LocalJobRunner, job: ManagedJob) -> dict[str, Any]:
    fault = runner.controller.faults.get(job.id)
    return {
        "command": runner.engine.command(job),
        "spec": {**asdict(job.spec), "environment": dict(job.spec.environment)},
        "attempts": [asdict(each) for each in job.attempts],
        "checkpoints": [asdict(each) for each in job.checkpoints],
        "can_save": job.checkpointing.able,
        "job_folder": str(runner.engine.work_folder(job.id)),
        "log": str(runner.engine.log_of(job)),
        "fault": fault.as_record() if fault is not None else None,
        "giving_back": _giving_back(runner, job),
    }


def _giving_back(runner: LocalJobRunner, job: ManagedJob) -> dict[str, Any]:
    """Return what is promised, before a loan, about giving GPUs back, and what it rests on."""
    engine, known = runner.engine, runner.store.loans.measured(job.id, "call-back")
    made = yielding_of(job, known, step_s=engine.step_s(job.id), grace_s=engine.grace_s)
    attempt = job.attempt
    if attempt is not None and {*attempt.gpus} & {*engine.uuids}:
        refused = runner.controller.lending.suspender.refusal(job)
        made = replace(made, suspendable=not refused, refused=refused)
    return {**asdict(made), "text": made.text}


def array_reply(id_: str, tasks: tuple[ManagedJob, ...], asker: Asker) -> dict[str, Any]:
    """Return an array with a line for each of its tasks."""
    codes = [each.exit_code for each in tasks]
    over = all(code is not None for code in codes)
    states = {each.state.value for each in tasks}
    return {
        "id": id_,
        "state": states.pop() if len(states) == 1 else "mixed",
        "exit_code": max(code or 0 for code in codes) if over else None,
        "gpus": [gpu for each in tasks for gpu in each.gpus],
        "attempts": [],
        "checkpoints": [],
        "tasks": [short_reply(each, asker) for each in tasks],
    }


def _why(event: LifeEvent | JobNote) -> str:
    return f"{event.why}: {event.detail}" if event.detail else event.why
