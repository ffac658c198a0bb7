"""What each policy that shares between tenants makes of a small queue."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from decide.live.queues import believing_jobs, queue, running, sharing, starts, stops, waiting
from factories import SAVES, column
from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.decide.scheduling.tenant_sharing.drf import Drf
from steward.decide.scheduling.tenant_sharing.kueue import Kueue
from steward.decide.scheduling.tenant_sharing.multifactor import Multifactor
from steward.decide.scheduling.tenant_sharing.static_quota import StaticQuota
from steward.model.forecast import USED_GPU_S, About
from steward.model.job import Checkpointing

HALVES = sharing(a=2, b=2)
A_HOLDS_3 = (running("a1", 0, 1, 2), waiting("a2", since_s=10.0), waiting("b1", tenant="b"))


def test_with_static_quotas_idle_gpus_stay_idle() -> None:
    full = queue(4, running("a1", 0, 1), waiting("a2"), waiting("b1", 3, tenant="b"), of=HALVES)
    room = queue(4, running("a1", 0), waiting("a2"), waiting("b1", 2, tenant="b"), of=HALVES)

    assert StaticQuota().decide(full) == ()
    assert starts(StaticQuota().decide(room)) == ["a2", "b1"]


def test_jobs_of_no_tenant_have_what_nobody_is_guaranteed() -> None:
    jobs = (waiting("x1", 2, tenant="x"), waiting("x2", 2, tenant=""))

    some = StaticQuota().decide(queue(6, *jobs, of=HALVES))
    none = StaticQuota().decide(queue(4, *jobs, of=HALVES))

    assert starts(some) == ["x1"]
    assert "it belongs to no tenant that is known" in some[0].because
    assert none == ()


def test_kueue_reclaims_lent_quota_from_the_youngest_that_can_save_itself() -> None:
    jobs = (
        running("old", 0, since_s=10.0),
        running("young", 1, since_s=500.0),
        running("stubborn", 2, since_s=900.0, checkpointing=Checkpointing()),
        waiting("b1", tenant="b"),
    )

    made = Kueue().decide(queue(3, *jobs, of=sharing(a=1, b=2)))

    assert (stops(made), starts(made)) == (["young"], ["b1"])
    assert "its tenant holds 3 of 1 guaranteed GPUs" in made[0].because
    assert "its tenant holds 0 of 2 guaranteed GPUs" in made[1].because


def test_the_tenant_that_holds_least_for_its_weight_goes_next() -> None:
    assert starts(Drf().decide(queue(4, *A_HOLDS_3, of=HALVES))) == ["b1"]


def test_the_tenant_that_has_used_least_goes_first_and_forgotten_use_is_what_is_held() -> None:
    seen = queue(4, *A_HOLDS_3, of=HALVES)
    used = column(USED_GPU_S, np.array([10.0, 5000.0]), about=About.TENANTS)

    assert starts(Multifactor().decide(seen)) == ["b1"]
    assert starts(Multifactor().decide(seen.with_forecasts((used,)))) == ["a2"]


def test_commons_gives_guarantees_at_once_and_lends_what_is_idle() -> None:
    busy = queue(4, running("a1", 0, 1, 2), running("a2", 3), waiting("b1", tenant="b"), of=HALVES)
    alone = queue(4, waiting("a1", 3), waiting("a2"), of=HALVES)

    made = Commons().decide(busy)

    assert (stops(made), starts(made)) == (["a1"], ["b1"])
    assert sorted(starts(Commons().decide(alone))) == ["a1", "a2"]


def test_commons_stops_nobody_for_a_rank_that_is_not_better_by_its_lead() -> None:
    one = sharing(a=1)
    seen = queue(1, running("a1", 0, since_s=-90_000.0), waiting("a2"), of=one)
    close = believing_jobs(seen, rank_s={"a1": 150.0, "a2": 100.0})
    far = believing_jobs(seen, rank_s={"a1": 250.0, "a2": 100.0})

    assert Commons().decide(close) == ()
    assert stops(Commons().decide(far)) == ["a1"]


def test_commons_shields_who_has_not_run_long_enough_to_be_worth_stopping() -> None:
    one = sharing(a=1)
    jobs = (running("a1", 0, since_s=500.0, checkpointing=SAVES), waiting("a2"))
    seen = believing_jobs(queue(1, *jobs, of=one), rank_s={"a1": 9000.0, "a2": 100.0})
    free = tuple(replace(each, checkpointing=Checkpointing(able=True)) for each in jobs)
    cheap = believing_jobs(queue(1, *free, of=one), rank_s={"a1": 9000.0, "a2": 100.0})

    assert Commons().decide(seen) == ()  # 50 s of saving and restoring for 500 s of work
    assert stops(Commons().decide(cheap)) == ["a1"]
