"""Waits of plans from the queues that stewards look after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plans import site
from steward.errors import StewardError
from steward.learn.estimators.job_history import JobHistory
from steward.service.queue_waits import live_waits


def cluster(*, running: int) -> dict[str, Any]:
    """Return what the API answers of four GPUs."""
    gpus = [{"health": "good", "owner": None} for _ in range(4)]
    job = {"tenant": "t", "user": "u", "name": "n", "gpus": 1, "ran_s": 60.0}
    job |= {"priority": 0, "waiting_s": 0.0, "time_limit_s": 7200.0}
    return {"nodes": [{"gpus": gpus}], "running": [job] * running, "queue": []}


def look(name: str) -> tuple[Mapping[str, Any], JobHistory]:
    if name == "gone":
        raise StewardError("no steward runs there", where=name)
    return cluster(running={"free": 0, "full": 4}[name]), JobHistory()


def test_a_free_cluster_has_no_wait_and_a_full_one_has() -> None:
    sites = (site("a", steward_site="free"), site("b", steward_site="full"), site("c"))

    waits, notes = live_waits(sites, (2,), look)

    assert notes == ()
    assert set(waits) == {"a", "b"}
    assert waits["a"].high == 0.0
    assert waits["b"].mid > 0.0


def test_what_is_not_known_is_said() -> None:
    sites = (site("a", steward_site="gone"), site("b", steward_site="free"))

    waits, notes = live_waits(sites, (8,), look)

    assert waits == {}
    assert notes == (
        "the queue of a is not known: no steward runs there",
        "b has fewer than 8 GPUs: its queue tells nothing",
    )
    assert live_waits(sites, (0,), look) == ({}, ())


def test_a_count_that_a_site_never_has_does_not_hide_the_wait_of_smaller_ones() -> None:
    waits, notes = live_waits((site("b", steward_site="full"),), (1, 8), look)

    assert notes == ()
    assert waits["b"].mid > 0.0
