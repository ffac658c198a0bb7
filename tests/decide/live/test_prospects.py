"""Why a job waits, by asking its policy about moments that are later or otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from decide.live.queues import believing_jobs, queue, running, sharing, waiting
from factories import column, loan, node, view
from steward.decide.scheduling import lookahead
from steward.decide.scheduling.ordered.easy_backfill import EasyBackfill
from steward.decide.scheduling.prospects import Prospect, prospect_of
from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.model.forecast import USED_GPU_S, About
from steward.model.identity import JobId
from steward.model.job import Checkpointing
from steward.model.view import ClusterView

NOW_S = 1000.0
LAB = sharing(a=2)
SAVES = Checkpointing(able=True, save_s=1.0)


def asked(seen: ClusterView, job: str = "mine", *, stops: bool = False, **known: Any) -> Prospect:
    return prospect_of(Commons(), believing_jobs(seen, **known), JobId(job), stops=stops)


def changes(found: Prospect) -> dict[str, str]:
    return {each.what: each.value for each in found.changes}


def test_a_job_that_fits_starts_now() -> None:
    found = asked(queue(2, waiting("mine"), of=LAB))

    assert found.starts_now
    assert (found.starts.low_s, found.starts.mid_s, found.starts.high_s) == (NOW_S,) * 3
    assert (found.ahead, found.holders, found.changes) == ((), (), ())


def test_it_starts_when_those_that_run_reach_their_time_limits_at_the_latest() -> None:
    one = running("one", 0, since_s=900.0, time_limit_s=200.0)
    two = running("two", 1, since_s=900.0, time_limit_s=400.0)
    found = asked(queue(2, one, two, waiting("mine", 2), of=LAB))

    assert not found.starts_now
    assert (found.starts.low_s, found.starts.mid_s, found.starts.high_s) == (1000.0, 1300.0, 1300.0)
    assert found.holders == ("one", "two")
    assert found.limits[0] == "it asks for 2 GPUs, and 0 of 2 are free"
    assert found.limits[1] == "its tenant a holds 2 GPUs, 2 are guaranteed"


def test_what_is_known_of_jobs_like_them_counts_more_than_their_limit() -> None:
    one = running("one", 0, since_s=900.0, time_limit_s=2000.0)
    found = asked(queue(1, one, waiting("mine"), of=LAB), left_s={"one": 50.0, "mine": 50.0})

    assert found.starts.mid_s == 1050.0


def test_who_starts_before_it_is_named_in_that_order() -> None:
    jobs = (
        running("one", 0, since_s=900.0, time_limit_s=200.0),
        waiting("b", since_s=1.0, time_limit_s=100.0),
        waiting("a", since_s=2.0, time_limit_s=100.0),
        waiting("mine", since_s=3.0),
    )
    found = asked(queue(1, *jobs, of=LAB))

    assert found.ahead == ("b", "a")
    assert found.starts.mid_s == 1300.0


def test_a_job_without_an_end_leaves_the_order_and_takes_the_time() -> None:
    jobs = (running("one", 0), waiting("b", time_limit_s=100.0), waiting("mine", since_s=3.0))
    found = asked(queue(1, *jobs, of=LAB))

    assert found.ahead == ("b",)
    assert (found.starts.low_s, found.starts.mid_s, found.starts.high_s) == (None, None, None)
    assert found.starts.unknown == ("one",)


def test_what_can_never_start_has_no_time_and_no_unknown_ends() -> None:
    found = asked(queue(1, waiting("mine", 2), of=LAB))

    assert (found.starts.mid_s, found.starts.unknown, found.starts.beyond) == (None, (), False)
    assert changes(found)["gpus"] == "1"


def test_a_very_long_queue_says_when_it_is_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookahead, "MOST_STEPS", 3)
    ahead = [waiting(f"w{i}", since_s=i, time_limit_s=100.0) for i in range(5)]
    found = asked(queue(1, *ahead, waiting("mine", since_s=9.0), of=LAB))

    assert found.starts.beyond
    assert found.starts.mid_s == 1300.0


def test_fewer_gpus_or_an_own_job_less_would_start_it_now() -> None:
    jobs = (
        running("other", 0, user="bob", time_limit_s=5000.0),
        running("older", 1, since_s=10.0, user="ann", time_limit_s=5000.0),
        running("newer", 2, since_s=20.0, user="ann", time_limit_s=5000.0),
        waiting("mine", 2, user="ann"),
    )
    found = asked(queue(4, *jobs, of=LAB))

    assert changes(found) == {"gpus": "1", "cancel": "newer"}


def test_a_shorter_time_limit_would_start_it_in_a_hole() -> None:
    jobs = (
        running("one", 0, since_s=1000.0, time_limit_s=1000.0),
        waiting("wide", 2, since_s=1.0, time_limit_s=100.0),
        waiting("mine", since_s=2.0, time_limit_s=3000.0),
    )
    seen = queue(2, *jobs, of=LAB)

    found = prospect_of(EasyBackfill(), seen, JobId("mine"), stops=False)

    assert changes(found)["time"] == "750"
    assert found.limits[0] == "1 GPUs are free, but others go first"


def test_another_priority_or_tenant_would_start_it_where_jobs_are_stopped() -> None:
    jobs = (
        running("one", 0, tenant="a", checkpointing=SAVES, since_s=0.0),
        waiting("mine", tenant="b"),
    )
    ranks = {"one": 900.0, "mine": 900.0}
    seen = queue(1, *jobs, of=sharing(a=0, b=0, c=1))

    found = asked(seen, stops=True, rank_s=ranks)

    assert changes(found)["tenant"] == "c"


def test_who_would_make_room_is_named_where_people_have_to_agree() -> None:
    jobs = (running("one", 0, tenant="a", checkpointing=SAVES), waiting("mine", tenant="b"))
    seen = queue(1, *jobs, of=sharing(a=0, b=1))

    assert not asked(seen).starts_now
    assert asked(seen).room_by == ("one",)
    assert asked(seen, stops=True).starts_now


def test_one_that_was_stopped_for_it_ends_no_earlier_than_it_can() -> None:
    jobs = (
        running("one", 0, tenant="a", checkpointing=SAVES, time_limit_s=1500.0),
        running("two", 1, tenant="b", time_limit_s=3000.0, checkpointing=Checkpointing()),
        waiting("wide", 2, tenant="b"),
        waiting("first", tenant="b", since_s=0.0, time_limit_s=100.0),
    )
    found = asked(queue(2, *jobs, of=sharing(a=0, b=2)), "wide", stops=True)

    assert found.starts.mid_s is not None
    assert found.starts.mid_s >= 3000.0


def test_gpus_that_cannot_be_used_are_counted() -> None:
    jobs = (running("one", 0), running("two", 0), waiting("mine", 2))
    lent = loan("l-1", owner="one", borrower="two", gpus=("n1/gpu0",))

    found = asked(view(node("n1", 2), jobs=jobs, of=LAB, loans=(lent,)))

    assert found.limits[0].startswith("1 of 2 GPUs can't be used")
    assert not found.starts_now


def test_a_job_of_nobody_who_is_known_is_told_of_no_guarantee() -> None:
    seen = queue(1, running("one", 0, time_limit_s=2000.0), waiting("mine", tenant="x"), of=LAB)
    used = column(USED_GPU_S, np.array([5.0]), about=About.TENANTS)

    found = asked(seen.with_forecasts([used]))

    assert len(found.limits) == 1
    assert found.starts.mid_s == 2000.0
