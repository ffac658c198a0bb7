"""Runs of a campaign as jobs of an engine of `steward jobs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steward.cli.jobs.asking import NoStewardError, patiently
from steward.cli.jobs.engines import JobEngine, SubmitRequest, job_engine
from steward.errors import StewardError, TemporaryError
from steward.learn.estimators.applications.runner import JobLook

__all__ = ["JobRunEngine"]


class JobRunEngine:
    """Submits and looks through a job engine: this machine's steward, Slurm or Kubernetes."""

    def __init__(self, name: str | None, config: Path | None, data: Path | None) -> None:
        self._jobs: JobEngine = job_engine(name, config, data)

    @property
    def poll_s(self) -> float:
        return self._jobs.slowest_poll_s

    def submit(
        self, argv: Sequence[str], options: Mapping[str, str], *, name: str, token: str
    ) -> str:
        given = {**options, "job-name": name, "token": token}
        request = SubmitRequest(command=list(argv), as_command=True, given=given)
        return str(patiently(lambda: self._jobs.submit(request, dry_run=False)).record["id"])

    def look(self, job: str) -> JobLook:
        try:
            record = patiently(lambda: self._jobs.show(job))
        except (NoStewardError, TemporaryError):
            raise
        except StewardError as fault:
            return JobLook(over=True, why=f"its job {job} is unknown: {fault.problem}")
        return job_look(record)


def job_look(record: Mapping[str, Any]) -> JobLook:
    """Return what the record of a job shows of a run.

    The time is that of its last attempt; of a job that saves and goes on, of all of them.
    """
    code = record.get("exit_code")
    if code is None:
        return JobLook(over=False)
    attempts = [each for each in record.get("attempts") or [] if each.get("began_s") is not None]
    lengths = [_length(each) for each in attempts if each.get("ended_s") is not None]
    if not record.get("can_save"):
        lengths = lengths[-1:]
    peaks = [each["peak_memory_bytes"] for each in attempts if each.get("peak_memory_bytes")]
    finished = code == 0 and record.get("state") == "finished"
    why = "" if finished else _why(record, int(code))
    return JobLook(
        over=True,
        finished=finished,
        seconds=sum(lengths) if lengths else None,
        memory_bytes=float(max(peaks)) if peaks else None,
        why=why,
    )


def _length(attempt: Mapping[str, Any]) -> float:
    """Return how long an attempt ran: as its engine measured it, or from its start to its end."""
    if attempt.get("ran_s") is not None:
        return float(attempt["ran_s"])
    return max(0.0, float(attempt["ended_s"]) - float(attempt["began_s"]))


def _why(record: Mapping[str, Any], code: int) -> str:
    events = record.get("events") or []
    said = str(events[-1].get("why") or "") if events else str(record.get("why") or "")
    return f"{record.get('state')}, exit status {code}" + (f": {said}" if said else "")
