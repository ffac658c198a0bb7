"""What is said about a TrainingJob: its phase, conditions and Events, from its Job alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steward.clients.kubernetes.batch_job import BatchJob
from steward.clients.kubernetes.conditions import condition
from steward.clients.kubernetes.custom_resources import API_VERSION
from steward.clients.kubernetes.training_job import TrainingJob

__all__ = ["event_of", "phase_of", "status_of"]

_REASONS = {
    "Refused": "JobRefused",
    "Pending": "WaitsForSteward",
    "Starting": "Started",
    "Running": "PodsReady",
    "Suspended": "Preempted",
    "Succeeded": "JobComplete",
    "Failed": "JobFailed",
}


def phase_of(job: BatchJob | None) -> tuple[str, str]:
    """Return the phase that follows from a Job, and why. Without one, it was deleted."""
    if job is None or job.leaving:
        return "Failed", "its Job was deleted: it is not started a second time"
    if job.end:
        phase = "Succeeded" if job.end == "Complete" else "Failed"
        return phase, job.end_why or f"{job.label} is {job.end.lower()}"
    if job.suspended:
        if job.did is None:
            return "Pending", "no decision has started it yet"
        return "Suspended", f"{job.did.did} by {job.did.id}: {job.did.why}".rstrip(": ")
    if job.ready:
        return "Running", f"{job.ready} of {job.parallelism} pods are ready"
    return "Starting", "its pods are on their way"


def status_of(
    training: TrainingJob,
    job: BatchJob | None,
    *,
    now: str,
    refused: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Return the status that a TrainingJob should have; equal to the present one if all is said.

    `refused`: the phase of one whose Job the server does not accept (now, or ever), and why.
    """
    phase, why = refused or phase_of(job)
    job_uid = training.job_uid or (job.uid if job else "")
    changed = phase != training.phase
    decision = job.did.id if job and job.did else str(training.status.get("decision") or "")
    return {
        "phase": phase,
        "changes": training.changes + changed,
        **({"jobName": training.job_name, "jobUid": job_uid} if job_uid else {}),
        **({"decision": decision} if decision else {}),
        "observedGeneration": training.generation,
        "conditions": [
            condition(
                training.status,
                type_,
                holds=holds,
                reason=_REASONS[phase],
                why=why,
                now=now,
                generation=training.generation,
            )
            for type_, holds in (
                ("Running", phase == "Running"),
                ("Finished", phase in ("Succeeded", "Failed")),
            )
        ],
    }


def event_of(training: TrainingJob, status: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return the Event of a new phase. Its name is the same whoever makes it, however often.

    The phase is part of it: whoever goes on after a kill may find the next one already. An end
    comes once, however many changes a watch that is behind has seen before it.
    """
    over = status["phase"] in ("Succeeded", "Failed")
    count = "" if over else f".{status['changes']}"
    why = status["conditions"][0]["message"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{training.job_name}{count}.{status['phase'].lower()}",
            "namespace": training.namespace,
        },
        "type": "Warning" if status["phase"] in ("Failed", "Refused") else "Normal",
        "reason": _REASONS[status["phase"]],
        "message": why,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": "steward"},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "TrainingJob",
            "name": training.name,
            "namespace": training.namespace,
            "uid": training.uid,
        },
    }
