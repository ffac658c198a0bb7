"""What each policy of the family "one order" makes of a small queue."""

from __future__ import annotations

import pytest

from decide.live.queues import believing_jobs, queue, running, starts, stopped, stops, waiting
from steward.decide.scheduling.ordered.conservative_backfill import ConservativeBackfill
from steward.decide.scheduling.ordered.easy_backfill import EasyBackfill
from steward.decide.scheduling.ordered.fifo import Fifo
from steward.decide.scheduling.ordered.fit_first import FitFirst
from steward.decide.scheduling.ordered.gittins import Gittins
from steward.decide.scheduling.ordered.las import Las
from steward.decide.scheduling.ordered.qssf import Qssf
from steward.decide.scheduling.ordered.sjf import Sjf
from steward.decide.scheduling.ordered.srsf import Srsf
from steward.decide.scheduling.ordered.srtf import Srtf
from steward.decide.scheduling.ordered.tiresias import Tiresias
from steward.ports import Policy

BLOCKED = queue(
    3, running("long", 0, 1), waiting("wide", 2, since_s=10.0), waiting("late", since_s=20.0)
)
TWO = queue(1, waiting("first", since_s=10.0), waiting("second", since_s=20.0))


def test_fifo_lets_nobody_pass_a_job_that_does_not_fit() -> None:
    assert starts(Fifo().decide(BLOCKED)) == []
    assert starts(Fifo().decide(TWO)) == ["first"]


def test_fit_first_starts_whoever_fits() -> None:
    made = FitFirst().decide(BLOCKED)

    assert starts(made) == ["late"]
    assert made[0].action.gpus == ("n1/gpu2",)


@pytest.mark.parametrize("policy", [EasyBackfill(), ConservativeBackfill()])
def test_backfill_passes_only_with_jobs_that_end_before_the_first_can_start(
    policy: Policy,
) -> None:
    soon = believing_jobs(BLOCKED, left_s={"long": 3600.0, "wide": 60.0, "late": 600.0})
    late = believing_jobs(BLOCKED, left_s={"long": 300.0, "wide": 60.0, "late": 600.0})
    fills = believing_jobs(
        queue(4, running("long", 0, 1), waiting("wide", 4), waiting("late", since_s=20.0)),
        left_s={"long": 300.0, "wide": 60.0, "late": 600.0},
    )

    assert starts(policy.decide(soon)) == ["late"]
    assert starts(policy.decide(late)) == ["late"]  # beside the first there is room for it
    assert starts(policy.decide(fills)) == []
    assert starts(policy.decide(queue(4, *fills.details.values()))) == []  # nothing is known


@pytest.mark.parametrize("policy", [Sjf(), Qssf(), Srtf(), Srsf()])
def test_expected_ends_stand_in_for_durations_that_nobody_knows(policy: Policy) -> None:
    seen = believing_jobs(TWO, left_s={"first": 9000.0, "second": 60.0})

    made = policy.decide(seen)

    assert starts(made) == ["second"]
    assert "durations are not known" in made[0].because
    assert "12 similar jobs" in made[0].because
    assert [each.subject for each in made[0].forecasts] == ["second"]
    assert starts(policy.decide(TWO)) == ["first"]


def test_the_nearest_to_its_end_runs_and_others_make_room() -> None:
    jobs = (running("long", 0, 1), waiting("short", 2, since_s=20.0))
    seen = believing_jobs(queue(2, *jobs), left_s={"long": 9000.0, "short": 60.0})

    made = Srtf().decide(seen)

    assert stops(made) == ["long"]
    assert starts(made) == ["short"]
    assert made[1].after == (made[0].id,)
    assert made[0].because.startswith("a's job long makes room for short: about 2.5 h")
    assert made[1].because.endswith("; long makes room")


def test_service_counts_gpus_and_time_alone_does_not() -> None:
    jobs = (waiting("wide", 4, since_s=10.0), waiting("narrow", 1, since_s=20.0))
    seen = believing_jobs(queue(4, *jobs), left_s={"wide": 600.0, "narrow": 900.0})

    assert starts(Srtf().decide(seen)) == ["wide"]
    assert starts(Srsf().decide(seen)) == ["narrow"]


def test_least_attained_service_makes_room_for_newcomers() -> None:
    seen = queue(1, running("old", 0, since_s=0.0), waiting("new", since_s=4000.0), t_s=4000.0)
    young = queue(1, running("old", 0, since_s=3000.0), waiting("new"), t_s=4000.0)

    assert (stops(Las().decide(seen)), starts(Las().decide(seen))) == (["old"], ["new"])
    assert Las().decide(young) == ()  # both are on the first level, and one of them runs


def test_tiresias_counts_gpu_time() -> None:
    seen = queue(4, running("old", 0, 1, 2, 3), waiting("new"), t_s=900.0)

    assert Las().decide(seen) == ()
    made = Tiresias().decide(seen)
    assert stops(made) == ["old"]
    assert "1 h of GPU time used so far, level 1 of 2" in made[0].because


def test_who_waited_long_enough_counts_as_new_again() -> None:
    old = stopped("old", ran=[(0.0, 4000.0)])
    seen = queue(1, old, waiting("new", since_s=4500.0), t_s=13000.0)
    promoting = Tiresias(promote=2.0)

    assert starts(Tiresias().decide(seen)) == ["new"]
    assert starts(promoting.decide(seen)) == ["old"]
    soon = queue(1, old, waiting("new", since_s=4500.0), t_s=9000.0)
    assert starts(promoting.decide(soon)) == ["new"]


def test_a_new_start_is_kept_while_the_job_runs_and_lost_work_does_not_count() -> None:
    promoting = Tiresias(promote=2.0)
    again = stopped("old", ran=[(0.0, 4000.0), (13000.0, 13500.0)])
    seen = queue(1, again, running("other", 0, since_s=5000.0), t_s=13600.0)

    made = promoting.decide(seen)

    assert (stops(made), starts(made)) == (["other"], ["old"])
    assert "level 0 of 2" in made[1].because


def test_gittins_goes_by_what_ends_most_jobs_for_the_gpu_time() -> None:
    seen = believing_jobs(TWO, rank_s={"first": 9000.0, "second": 60.0})
    unknown = believing_jobs(TWO, rank_s={})

    made = Gittins().decide(seen)

    assert starts(made) == ["second"]
    assert "rank 0.017 h of GPU time per finished job (12 similar jobs)" in made[0].because
    assert starts(Gittins().decide(unknown)) == ["first"]
