"""Jobs of Slurm as JSON, in the shape that jobs of this machine have."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steward.clients.slurm_jobs.exchange import files_of
from steward.clients.slurm_jobs.job_life import exit_status, life_of, story_of
from steward.clients.slurm_jobs.listed_job import ListedJob
from steward.model.managed_job import LifeState

__all__ = ["array_record", "long_record", "short_record", "why_record"]


def short_record(job: ListedJob) -> dict[str, Any]:
    """Return one line of a list. Slurm lists nodes, not the single GPUs of a job."""
    state, why = life_of(job)
    since_s = job.submit_s if job.waits else job.start_s if job.runs else job.end_s
    return {
        "id": job.id,
        "name": _printable(job.name),
        "user": job.user,
        "tenant": job.account,
        "state": state.value,
        "why": why,
        "since_s": since_s or job.submit_s,
        "submit_s": job.submit_s,
        "priority": job.priority,
        "asks_for": job.gpus,
        "gpus": [],
        "nodes": list(job.nodes),
        "partition": job.partition,
        "exit_code": exit_status(job),
        "attempts": job.restarts + (0 if job.waits else 1),
    }


def long_record(
    job: ListedJob, runs: Sequence[ListedJob], *, gpus: Sequence[str], log: str, command: str
) -> dict[str, Any]:
    """Return all of a job. `runs` is what accounting has of it."""
    files = files_of(job)
    record = short_record(job)
    story = story_of(job, runs)
    if files is not None and job.state == "RUNNING" and files.saving:
        record |= {"state": LifeState.SAVING.value, "why": "it was asked to save"}
    return {
        **record,
        "gpus": list(gpus),
        "attempts": _attempts(job, runs),
        "events": [
            {"t_s": t_s, "state": state.value, "why": why, "decision": None}
            for t_s, state, why in story
        ],
        "notes": [],
        "loans": [],
        "command": _words(command),
        "spec": {
            "folder": job.folder,
            "account": job.account,
            "partition": job.partition,
            "cpus": job.cpus,
            "dependency": job.dependency,
            "token": job.mark.token,
        },
        "checkpoints": files.checkpoints() if files is not None else [],
        "can_save": files.able if files is not None else job.mark.save_s is not None,
        "job_folder": str(files.folder) if files is not None else None,
        "log": log,
        "fault": None,
        "giving_back": None,
        "power": None,
    }


def _attempts(job: ListedJob, runs: Sequence[ListedJob]) -> list[dict[str, Any]]:
    known = [run for run in runs if run.submit_s < job.submit_s and run.start_s]
    begun = [*known, *([job] if not job.waits else [])]
    return [
        {
            "number": number,
            "began_s": each.start_s,
            "ended_s": each.end_s if each.ended or each is not job else None,
            "nodes": list(each.nodes),
            "state": each.state.lower(),
        }
        for number, each in enumerate(begun, 1)
    ]


def _printable(name: str) -> str:
    """Return a name of somebody else's that cannot move the cursor of a terminal."""
    return "".join(each if each.isprintable() else "?" for each in name)


def _words(command: str) -> list[str]:
    """Return what was submitted: ours lay in a folder that is gone, so its name alone."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    return [Path(words[0]).name, *words[1:]] if words else []


def array_record(number: str, tasks: Sequence[ListedJob]) -> dict[str, Any]:
    """Return an array with a line for each of its tasks, or of those that wait together."""
    codes = [exit_status(each) for each in tasks]
    states = {life_of(each)[0].value for each in tasks}
    return {
        "id": number,
        "state": states.pop() if len(states) == 1 else "mixed",
        "exit_code": None if None in codes else max(code or 0 for code in codes),
        "gpus": [],
        "attempts": [],
        "checkpoints": [],
        "tasks": [short_record(each) for each in tasks],
    }


def why_record(job: ListedJob, now_s: float) -> dict[str, Any]:
    """Return why a job does not run, as far as Slurm says it."""
    state, why = life_of(job)
    guess_s = job.start_s if job.waits else None
    eta: dict[str, Any] = {
        "low_s": guess_s,
        "mid_s": guess_s,
        "high_s": None,
        "beyond": False,
        "unknown": [],
    }
    reason = f"Slurm's reason: {job.reason}" if job.reason else ""
    limits = [reason, f"depends on {job.dependency}" if job.dependency else ""]
    return {
        "id": job.id,
        "state": state.value,
        "summary": f"{state.value}: {why}",
        "limits": [each for each in limits if each],
        "holders": [],
        "ahead": [],
        "eta": eta if guess_s is not None else None,
        "now_s": now_s,
        "changes": [],
    }
