"""When a job would start in the queue that a running steward shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from steward.learn.estimators.job_history import JobHistory
from steward.model.identity import TenantId
from steward.model.job import JobRequest, JobShape
from steward.model.trace import trace_of
from steward.service.start_times import start_time_of


def learned() -> JobHistory:
    made = JobHistory()
    n = 200
    made.learn_trace(
        trace_of(
            "past",
            submit_s=np.arange(n) * 4000.0,
            duration_s=np.full(n, 3600.0),
            gpus=np.ones(n),
            user=["ada"] * n,
        )
    )
    return made


def cluster(*, running: list[dict[str, Any]], queue: list[dict[str, Any]]) -> dict[str, Any]:
    gpus = [
        {"health": "good", "owner": None},
        {"health": "good", "owner": None},
        {"health": "bad", "owner": None},
    ]
    return {"nodes": [{"gpus": gpus}], "running": running, "queue": queue}


def one(**more: Any) -> dict[str, Any]:
    common = {"name": "", "user": "ada", "tenant": None, "gpus": 1, "time_limit_s": None}
    return common | {"ran_s": 0.0, "priority": 0, "waiting_s": 10.0} | more


REQUEST = JobRequest(shape=JobShape(gpus=1), tenant=TenantId(""), user="ada")


def test_a_free_gpu_is_taken_at_once_and_a_bad_one_is_none() -> None:
    free = start_time_of(REQUEST, cluster(running=[one()], queue=[]), learned())
    full = start_time_of(REQUEST, cluster(running=[one(), one()], queue=[]), learned())

    assert free.high_s == 0.0
    assert 1000 < full.mid_s < 6000


def test_who_has_run_for_long_ends_sooner() -> None:
    new = cluster(running=[one(), one()], queue=[])
    old = cluster(running=[one(), one(ran_s=3300.0)], queue=[])

    assert start_time_of(REQUEST, old, learned()).mid_s < (
        start_time_of(REQUEST, new, learned()).mid_s
    )


def test_only_those_of_the_same_or_a_higher_priority_are_ahead() -> None:
    def wait(priority: int) -> float:
        queue = [one(priority=priority), one(priority=priority)]
        seen = cluster(running=[one(ran_s=1000.0), one(ran_s=1000.0)], queue=queue)
        return start_time_of(REQUEST, seen, learned()).mid_s

    assert wait(1) == wait(0) > wait(-1)


def test_more_gpus_than_there_are_never_start() -> None:
    request = JobRequest(shape=JobShape(gpus=3), tenant=TenantId(""))

    assert start_time_of(request, cluster(running=[], queue=[]), learned()).never
