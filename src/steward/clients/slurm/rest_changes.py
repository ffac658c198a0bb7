"""The changes that slurmrestd can make: which request stands for one of Slurm's commands.

`changes.py` builds the commands; what has no request here is run as one, or refused. Seen on 22.05:
its DELETE with a signal reaches every process of a job, so that one asked to save would die of it;
its hold is an administrator's hold, also of one's own jobs; requeue and node states are not there.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any

from steward.clients.slurm.changes import Command
from steward.clients.slurm.rest import RestApi

__all__ = ["BATCH_SIGNALS", "DRAINS", "JOB", "NODE", "RestChange", "not_served", "request_of"]

JOB, NODE = "slurm/job/{}", "slurm/node/{}"
DRAINS = "drains"
BATCH_SIGNALS = "signals to a batch shell alone"
_FIRST = "v0.0.38"  # takes times as scontrol does; later ones take seconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class RestChange:
    """One request about a job or a node. `value` is its address in Slurm's words, as `29_2`."""

    method: str
    path: str
    value: str
    query: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] | None = None


def not_served(api: RestApi) -> list[str]:
    """Return in words what this version of the API does not do."""
    missing = ["requeue", "fewer nodes of a job", "messages to a job"]
    if not api.has(JOB, "delete", parameter="flags"):
        missing.append(BATCH_SIGNALS)
    if not api.has(NODE, "post"):
        missing.append(DRAINS)
    return missing


def request_of(command: Command, api: RestApi) -> RestChange | None:
    """Return the request that does what a command does; None where this version has none."""
    match command:
        case ("scontrol", "release", job):
            return RestChange(method="POST", path=JOB, value=job, body={"hold": False})
        case ("scontrol", "update", what, *parts) if what.startswith("JobId="):
            body = _job_body(parts, api)
            job = what.removeprefix("JobId=")
            return RestChange(method="POST", path=JOB, value=job, body=body) if body else None
        case ("scontrol", "update", what, *parts) if what.startswith("NodeName="):
            given = dict(part.partition("=")[::2] for part in parts)
            reason = {"reason": given["Reason"]} if "Reason" in given else {}
            change = {"state": [given["State"]], **reason}
            node = what.removeprefix("NodeName=")
            known = api.has(NODE, "post")
            return RestChange(method="POST", path=NODE, value=node, body=change) if known else None
        case ("scancel", "--batch", signal, job) if api.has(JOB, "delete", parameter="flags"):
            query = {"signal": signal.partition("=")[2], "flags": "BATCH_JOB"}
            return RestChange(method="DELETE", path=JOB, value=job, query=query)
        case ("scancel", job):
            return RestChange(method="DELETE", path=JOB, value=job)
    return None


def _job_body(parts: list[str], api: RestApi) -> dict[str, Any] | None:
    """Return the properties of a job to change; None if one of them cannot be."""
    body: dict[str, Any] = {}
    for part in parts:
        name, _, text = part.partition("=")
        match name:
            case "Nice":
                body["nice"] = int(text)
            case "Comment":
                body["comment"] = text
            case "StartTime":
                body["begin_time"] = text if api.version == _FIRST else _epoch_s(text)
            case _:
                return None
    return body


def _epoch_s(text: str) -> int:
    """Return `now` or `now+5` in seconds since 1970, by the clock here."""
    later = re.fullmatch(r"now(?:\+(\d+))?", text)
    assert later is not None  # noqa: S101 - `changes.update_job` writes nothing else
    return int(time.time()) + int(later[1] or 0)
