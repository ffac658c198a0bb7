"""When a job would start that is submitted now: the queue of a running steward, played through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.decide.scheduling.queue_wait import QueueAhead, StartForecast, start_forecast
from steward.learn.estimators.job_history import JobHistory
from steward.model.identity import TenantId
from steward.model.job import JobRequest, JobShape

__all__ = ["start_time_of"]

Floats = NDArray[np.float64]
DRAWS = 200
_OUT = "bad"  # health of GPUs that nothing starts on


def start_time_of(
    request: JobRequest, cluster: Mapping[str, Any], history: JobHistory, *, seed: int = 0
) -> StartForecast:
    """Return when a job would start; `cluster` is what `GET /api/v1/cluster` answers.

    Jobs go by priority, then by arrival, and smaller ones pass the first where that does not move
    it. Only how many GPUs are free counts, not where; nor what comes later.
    """
    running = [job for job in cluster["running"] if job["gpus"] > 0]
    queue = sorted(cluster["queue"], key=lambda job: (-job["priority"], -job["waiting_s"]))
    at = len([job for job in queue if job["priority"] >= 0])  # the new one has priority 0
    ahead = queue[:at]
    requests = [_request(job) for job in (*running, *ahead)]
    ran_s = [float(job["ran_s"] or 0.0) for job in running] + [0.0] * (len(ahead) + 1)
    drawn = history.draws([*requests, request], ran_s, count=DRAWS, seed=seed)
    count = len(running)
    left_limit = _limits(requests[:count]) - np.array(ran_s[:count], np.float64)
    return start_forecast(
        QueueAhead(
            capacity=_capacity(cluster),
            held=np.array([job["gpus"] for job in running], np.int64),
            left_s=drawn[:, :count],
            running_limit_s=np.maximum(left_limit, 1.0),
            asked=np.array([*(job["gpus"] for job in ahead), request.shape.gpus], np.int64),
            run_s=drawn[:, count:],
            limit_s=_limits([*requests[count:], request]),
        )
    )[0]


def _capacity(cluster: Mapping[str, Any]) -> int:
    gpus = [gpu for node in cluster["nodes"] for gpu in node["gpus"]]
    return sum(gpu["health"] != _OUT or gpu["owner"] is not None for gpu in gpus)


def _request(job: Mapping[str, Any]) -> JobRequest:
    return JobRequest(
        shape=JobShape(gpus=int(job["gpus"])),
        tenant=TenantId(job["tenant"] or ""),
        user=job["user"],
        name=job["name"],
        time_limit_s=job["time_limit_s"],
    )


def _limits(requests: Sequence[JobRequest]) -> Floats:
    limits = [np.inf if each.time_limit_s is None else each.time_limit_s for each in requests]
    return np.array(limits, np.float64)
