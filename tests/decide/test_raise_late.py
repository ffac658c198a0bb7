from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from factories import column, job, node, tenants, view
from steward.decide.scheduling.raise_late import RaiseLate
from steward.model.actions import Reprioritise
from steward.model.forecast import RUN_LIMITS_S, About
from steward.model.identity import JobId
from steward.model.job import Job
from steward.model.view import ClusterView

NOW_S = 1000.0
LATE = job("j1", deadline_s=NOW_S + 5000.0, time_limit_s=4000.0, priority=3, submit_s=900.0)
FIRST = job("j2", priority=7, submit_s=900.0)


def seen(*jobs: Job, **changes: Any) -> ClusterView:
    of = changes.pop("of", ())
    return view(node("n1", 4), jobs=jobs or (LATE, FIRST), t_s=NOW_S, of=of)


def raised(at: ClusterView) -> dict[str, int]:
    made = RaiseLate().decide(at)
    return {
        each.action.job: each.action.priority
        for each in made
        if isinstance(each.action, Reprioritise)
    }


def test_a_job_that_would_miss_its_deadline_goes_before_all_that_are_not_urgent() -> None:
    (made,) = RaiseLate().decide(seen())

    assert made.action == Reprioritise(job=JobId("j1"), before=3, priority=8)
    assert made.because == (
        "job j1 runs for up to 67 min, and its deadline is in 83 min; 1 jobs wait before it"
    )
    assert made.undo == Reprioritise(job=JobId("j1"), before=8, priority=3)
    assert RaiseLate().decide(seen()) == (made,)


def test_it_is_raised_once_whatever_its_priority_becomes() -> None:
    (first,) = RaiseLate().decide(seen())
    (later,) = RaiseLate().decide(seen(replace(LATE, priority=5), replace(FIRST, priority=9)))

    assert later.id == first.id


def test_what_jobs_like_it_take_counts_more_than_its_limit() -> None:
    limits = column(RUN_LIMITS_S, np.array([100.0, np.nan]), about=About.JOBS)

    assert raised(seen().with_forecasts((limits,))) == {}


def test_the_most_urgent_comes_first() -> None:
    sooner = replace(LATE, id=JobId("j3"), deadline_s=NOW_S + 4500.0)

    assert list(raised(seen(LATE, FIRST, sooner))) == ["j3", "j1"]


@pytest.mark.parametrize(
    "at",
    [
        seen(replace(LATE, deadline_s=None), FIRST),
        seen(replace(LATE, deadline_s=NOW_S + 5801.0), FIRST),
        seen(replace(LATE, deadline_s=NOW_S), FIRST),
        seen(replace(LATE, time_limit_s=None), FIRST),
        seen(replace(LATE, held=True), FIRST),
        seen(replace(LATE, priority=8), FIRST),
        seen(LATE),
        seen(replace(job("j1", on=("n1/gpu0",)), deadline_s=NOW_S + 10.0), FIRST),
    ],
    ids=[
        "it has no deadline",
        "it has time",
        "its deadline is over",
        "how long it takes is unknown",
        "it is held",
        "it is first already",
        "nobody else waits",
        "it runs",
    ],
)
def test_priorities_stay_as_they_are(at: ClusterView) -> None:
    assert RaiseLate().decide(at) == ()


GUARANTEED = tuple(
    replace(each, guaranteed_gpus=2 if each.id == "a" else 0) for each in tenants("a", "b")
)
OWED = job("j1", submit_s=100.0, priority=3)
THEIRS = (job("k1", on=("n1/gpu0", "n1/gpu1"), tenant="b"), job("k2", tenant="b", priority=7))


def test_a_job_that_a_guarantee_covers_goes_before_those_of_who_holds_more() -> None:
    (made,) = RaiseLate().decide(seen(OWED, *THEIRS, of=GUARANTEED))

    assert made.action == Reprioritise(job=JobId("j1"), before=3, priority=8)
    assert "a is guaranteed 2 GPUs and holds 0, others hold more than theirs" in made.because


@pytest.mark.parametrize(
    "at",
    [
        seen(replace(OWED, submit_s=401.0), *THEIRS, of=GUARANTEED),
        seen(OWED, *THEIRS[1:], of=GUARANTEED),
        seen(OWED, *THEIRS, job("j3", on=("n1/gpu2", "n1/gpu3")), of=GUARANTEED),
        seen(replace(OWED, tenant="x"), *THEIRS, of=GUARANTEED),  # type: ignore[arg-type]
    ],
    ids=[
        "it has just come",
        "nobody holds more than theirs",
        "its tenant has what it is guaranteed",
        "its tenant is unknown",
    ],
)
def test_who_is_not_starved_waits_on(at: ClusterView) -> None:
    assert RaiseLate().decide(at) == ()
