"""What moves a job forward beside its rank: its class, its deadline, and long waiting."""

from __future__ import annotations

from typing import Any

import pytest

from decide.live.queues import believing_jobs, queue, running, sharing, starts, stops, waiting
from steward.decide.scheduling.live.ranks import ranks_of, urgent
from steward.decide.scheduling.ordered.gittins import Gittins
from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.model.job import Job
from steward.model.view import ClusterView

NOW_S = 1000.0
COMMONS = Commons().ranking


def one_gpu(*jobs: Job, **beliefs: Any) -> ClusterView:
    """Return a moment of one GPU that is all tenant a's, with beliefs about its jobs."""
    return believing_jobs(queue(1, *jobs, of=sharing(a=1), t_s=NOW_S), **beliefs)


def keys(policy: Commons, seen: ClusterView) -> dict[str, float]:
    key = ranks_of(policy.ranking, seen).key
    return {str(id_): float(value) for id_, value in zip(seen.jobs.ids, key, strict=True)}


# -- classes ---------------------------------------------------------------------------------------

CLASSES = one_gpu(
    waiting("first"), waiting("high", priority=9), rank_s={"first": 900.0, "high": 900.0}
)


def test_a_higher_class_goes_first_among_equals() -> None:
    made = Commons().decide(CLASSES)

    assert starts(made) == ["high"]
    assert "it is of priority class 9" in made[0].because
    assert keys(Commons(), CLASSES) == {"first": 900.0, "high": 450.0}


def test_where_classes_do_not_count_they_are_not_spoken_of() -> None:
    made = Commons(class_weight=1.0).decide(CLASSES)

    assert starts(made) == ["first"]
    assert "class" not in made[0].because
    assert starts(Gittins().decide(CLASSES)) == ["first"]


def test_the_lowest_class_is_not_spoken_of() -> None:
    jobs = (waiting("low", priority=3), waiting("high", priority=9))

    made = Commons().decide(one_gpu(*jobs, rank_s={"low": 60.0, "high": 900.0}))

    assert starts(made) == ["low"]
    assert "class" not in made[0].because


def test_a_class_up_does_not_make_up_for_any_rank() -> None:
    seen = one_gpu(
        waiting("short"), waiting("high", priority=1), rank_s={"short": 100.0, "high": 250.0}
    )

    assert starts(Commons().decide(seen)) == ["short"]
    assert starts(Commons(class_weight=3.0).decide(seen)) == ["high"]


# -- deadlines -------------------------------------------------------------------------------------

LEFT_S = {"first": 300.0, "due": 300.0}
RANKS = {"first": 200.0, "due": 9000.0}


def due(deadline_s: float | None, **beliefs: Any) -> ClusterView:
    """Return two waiting jobs, of which the worse ranked one has 300 s to go and a deadline."""
    told = {"left_s": LEFT_S, "rank_s": RANKS, **beliefs}
    return one_gpu(waiting("first"), waiting("due", deadline_s=deadline_s), **told)


@pytest.mark.parametrize(
    ("deadline_s", "goes"),
    [
        (NOW_S + 301.0, "first"),  # it can still wait
        (NOW_S + 300.0, "due"),
        (NOW_S + 1.0, "due"),
        (NOW_S, "first"),  # it is too late
        (NOW_S - 1.0, "first"),
        (None, "first"),
    ],
)
def test_who_would_miss_its_deadline_goes_first_until_that_has_passed(
    deadline_s: float | None, goes: str
) -> None:
    assert starts(Commons().decide(due(deadline_s))) == [goes]


def test_an_urgent_job_ranks_as_if_about_to_end_and_says_when_it_is_due() -> None:
    seen = due(NOW_S + 240.0)

    made = Commons().decide(seen)

    assert keys(Commons(), seen) == {"first": 200.0, "due": 60.0}
    assert "it is due in 4 min and may not wait longer" in made[0].because


def test_who_is_not_urgent_does_not_speak_of_its_deadline() -> None:
    made = Commons().decide(due(NOW_S - 1.0))

    assert "due in" not in made[0].because


def test_without_a_forecast_nobody_is_urgent() -> None:
    column_is_missing = due(NOW_S + 1.0, left_s=None)
    job_is_unknown = due(NOW_S + 1.0, left_s={"first": 300.0})

    for seen in (column_is_missing, job_is_unknown):
        assert not urgent(COMMONS, seen).any()
        assert starts(Commons().decide(seen)) == ["first"]


def test_policies_that_do_not_keep_deadlines_do_not_see_them() -> None:
    seen = due(NOW_S + 1.0)

    assert urgent(COMMONS, seen).tolist() == [False, True]
    assert not urgent(Gittins().ranking, seen).any()
    assert starts(Gittins().decide(seen)) == ["first"]


def test_an_urgent_job_takes_the_gpu_of_one_that_is_far_from_its_end() -> None:
    jobs = (running("long", 0, since_s=-90_000.0), waiting("due", deadline_s=NOW_S + 100.0))
    seen = one_gpu(*jobs, left_s={"due": 300.0}, rank_s={"long": 9000.0, "due": 9000.0})

    made = Commons().decide(seen)

    assert (stops(made), starts(made)) == (["long"], ["due"])


# -- long waiting ----------------------------------------------------------------------------------


def test_who_has_waited_longer_than_old_counts_for_more_by_doublings() -> None:
    seen = one_gpu(
        waiting("old", since_s=0.0),
        waiting("young", since_s=900.0),
        rank_s={"old": 800.0, "young": 300.0},
    )

    assert keys(Commons(), seen) == {"old": 800.0, "young": 300.0}
    assert keys(Commons(old_s=200.0), seen) == {"old": 200.0, "young": 300.0}  # 1000 s are 5 times
    assert starts(Commons().decide(seen)) == ["young"]
    assert starts(Commons(old_s=200.0).decide(seen)) == ["old"]


def test_time_that_a_job_has_run_is_no_waiting() -> None:
    seen = one_gpu(
        running("runs", 0, since_s=400.0), waiting("waits"), rank_s={"runs": 800.0, "waits": 800.0}
    )

    assert keys(Commons(old_s=200.0), seen) == {"runs": 400.0, "waits": 200.0}


def test_what_nobody_knows_stays_attained_service_whatever_its_class() -> None:
    seen = one_gpu(running("runs", 0, since_s=400.0, priority=5), waiting("new"), rank_s={})

    assert keys(Commons(), seen) == {"runs": 600.0, "new": 0.0}
