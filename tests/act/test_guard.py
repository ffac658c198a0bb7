from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import (
    call_back,
    decision,
    drain,
    job,
    loan,
    node,
    outcome,
    preempt,
    start,
    view,
)
from steward.act.guard import Guard, Limits
from steward.model.cluster import Health
from steward.model.decision import Autonomy, Ruling
from steward.model.identity import JobId, TenantId
from steward.model.site import TenantCeiling
from steward.model.view import HEALTH_CODES, ClusterView

GPU, OTHER = "n1/gpu0", "n1/gpu1"
AUTO = Limits(autonomy=Autonomy.AUTO)


def ready(*, t_s: float = 1000.0, gpus: int = 2) -> ClusterView:
    """Return a moment in which j1 holds idle GPUs and j2 waits."""
    held = [f"n1/gpu{i}" for i in range(gpus)]
    return view(node("n1", gpus), jobs=[job("j1", on=held), job("j2")], t_s=t_s)


def test_within_budgets_an_automatic_site_goes_ahead() -> None:
    assert Guard(AUTO).judge(decision(), ready()).ruling is Ruling.GO


@pytest.mark.parametrize(
    ("site", "tenant", "ruling"),
    [
        (Autonomy.OBSERVE, None, Ruling.ADVISE),
        (Autonomy.ADVISE, None, Ruling.ADVISE),
        (Autonomy.APPROVE, None, Ruling.ASK),
        (Autonomy.AUTO, Autonomy.APPROVE, Ruling.ASK),
        (Autonomy.AUTO, Autonomy.ADVISE, Ruling.ADVISE),
        (Autonomy.ADVISE, Autonomy.AUTO, Ruling.ADVISE),
    ],
)
def test_autonomy_is_the_lower_of_the_sites_and_the_tenants(
    site: Autonomy, tenant: Autonomy | None, ruling: Ruling
) -> None:
    ceilings = {} if tenant is None else {TenantId("a"): tenant}
    guard = Guard(Limits(autonomy=site, tenant_autonomy=ceilings))

    assert guard.judge(decision(), ready()).ruling is ruling


@pytest.mark.parametrize(
    ("site", "own", "ruling"),
    [
        (Autonomy.AUTO, Autonomy.OBSERVE, Ruling.ADVISE),
        (Autonomy.AUTO, Autonomy.APPROVE, Ruling.ASK),
        (Autonomy.APPROVE, Autonomy.AUTO, Ruling.ASK),
        (Autonomy.AUTO, Autonomy.AUTO, Ruling.GO),
    ],
)
def test_what_a_tenant_says_on_its_engine_is_a_ceiling_on_the_site(
    site: Autonomy, own: Autonomy, ruling: Ruling
) -> None:
    guard = Guard(Limits(autonomy=site))
    guard.bind({TenantId("a"): TenantCeiling(autonomy=own, source="policy p")})

    before = guard.judge(decision(), ready())
    guard.bind({})
    after = guard.judge(decision(), ready())

    assert before.ruling is ruling
    assert after.ruling is Guard(Limits(autonomy=site)).judge(decision(), ready()).ruling


def test_an_action_that_a_tenant_does_not_allow_is_advised_and_its_jobs_are_still_started() -> None:
    guard = Guard(AUTO)
    guard.bind({TenantId("a"): TenantCeiling(actions=frozenset({"resize"}), source="policy p")})

    refused = guard.judge(decision(), ready())
    by_person = guard.judge(decision(), ready(), approved=True)
    starts = guard.judge(start(job="j2"), view(node("n1", 2), jobs=[job("j2")]))
    guard.bind({TenantId("a"): TenantCeiling(actions=frozenset({"lend"}), source="policy p")})

    assert (refused.ruling, refused.why) == (
        Ruling.ADVISE,
        "a does not allow 'lend' by its policy p",
    )
    assert (by_person.ruling, starts.ruling) == (Ruling.GO, Ruling.GO)
    assert guard.judge(decision(), ready()).ruling is Ruling.GO


def test_a_tenant_can_have_its_jobs_disturbed_less_often_than_the_site_allows() -> None:
    guard = Guard(AUTO)
    guard.bind({TenantId("a"): TenantCeiling(disturbed_per_job_per_day=1)})
    first = guard.judge(decision(), ready())
    guard.record(decision(), 1000.0)

    second = guard.judge(decision(t_s=5000.0), ready(t_s=5000.0))

    assert (first.ruling, second.ruling) == (Ruling.GO, Ruling.HOLD)
    assert "disturbed 1 times in a day, and 1 are allowed" in second.why
    assert guard.spared(5000.0) == [JobId("j1")]


def test_of_two_ceilings_the_stricter_of_each_part_counts() -> None:
    one = TenantCeiling(actions=frozenset({"lend", "resize"}), source="p")
    two = TenantCeiling(
        autonomy=Autonomy.APPROVE,
        actions=frozenset({"lend"}),
        disturbed_per_job_per_day=3,
        source="q",
    )

    both = one.with_stricter(two)

    assert both == replace(two, source="p, q")
    assert TenantCeiling().with_stricter(TenantCeiling()) == TenantCeiling()
    assert both.text == (
        "autonomy at most 'approve'; actions: lend; at most 3 disturbances of a job in a day"
    )
    assert TenantCeiling(actions=frozenset()).text == "autonomy at most 'auto'; actions: none"
    assert TenantCeiling().text == "autonomy at most 'auto'"


@pytest.mark.parametrize("site", [Autonomy.APPROVE, Autonomy.AUTO])
def test_a_tenants_waiting_jobs_are_started_by_the_autonomy_of_the_site(site: Autonomy) -> None:
    guard = Guard(Limits(autonomy=site, tenant_autonomy={TenantId("a"): Autonomy.APPROVE}))
    seen = view(node("n1", 1), jobs=[job("j1")])

    verdict = guard.judge(start(job="j1"), seen)
    assert verdict.ruling is (Ruling.GO if site is Autonomy.AUTO else Ruling.ASK)
    if site is Autonomy.APPROVE:
        assert verdict.why == "autonomy for the site is 'approve': a person decides"


def test_a_persons_approval_is_above_autonomy_and_budget_but_not_above_preconditions() -> None:
    guard = Guard(Limits(disturbed_gpus_per_hour=0))

    assert guard.judge(decision(), ready(), approved=True).ruling is Ruling.GO
    gone = view(jobs=[job("j1", on=[GPU])])
    assert guard.judge(decision(), gone, approved=True).ruling is Ruling.EXPIRE


def test_giving_back_is_allowed_whatever_the_budget_and_autonomy() -> None:
    seen = view(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()])
    guard = Guard(Limits(autonomy=Autonomy.OBSERVE, disturbed_gpus_per_hour=0))

    assert guard.judge(call_back(decision()), seen).ruling is Ruling.GO


def test_a_decision_that_nobody_carried_out_in_time_expires() -> None:
    verdict = Guard(AUTO).judge(decision(t_s=0.0), ready(t_s=601.0))

    assert verdict.ruling is Ruling.EXPIRE
    assert "600 s" in verdict.why


# -- budgets ---------------------------------------------------------------------------------------


def test_a_used_up_budget_holds_and_comes_back_after_an_hour() -> None:
    guard = Guard(replace(AUTO, disturbed_gpus_per_hour=1))
    guard.record(decision(), 1000.0)

    held = guard.judge(decision("d-2"), ready())
    later = guard.judge(decision("d-2", t_s=4600.0), ready(t_s=4600.0))

    assert (held.ruling, later.ruling) == (Ruling.HOLD, Ruling.GO)
    assert "1 of 1 GPUs an hour to disturb are used up" in held.why


def test_a_tenant_has_a_budget_of_its_own() -> None:
    guard = Guard(replace(AUTO, disturbed_gpus_per_tenant_per_hour=1))
    guard.record(decision(), 1000.0)

    assert "of a to disturb are used up" in guard.judge(decision("d-2"), ready()).why
    assert guard.judge(decision("d-3", tenant=TenantId("b")), ready()).ruling is Ruling.GO


def test_a_job_is_disturbed_only_so_often_in_a_day_and_then_runs_on() -> None:
    guard = Guard(replace(AUTO, disturbed_per_job_per_day=2, disturbed_gpus_per_hour=100))
    for t_s in (1000.0, 5000.0):
        guard.record(decision(), t_s)

    held = guard.judge(decision(t_s=9000.0), ready(t_s=9000.0))
    by_person = guard.judge(decision(t_s=9000.0), ready(t_s=9000.0), approved=True)
    other = guard.judge(start(job="j2"), view(node("n1", 2), jobs=[job("j2")]))
    later_s = 1001.0 + 24 * 3600
    later = guard.judge(decision(t_s=later_s), ready(t_s=later_s))

    assert held.ruling is Ruling.HOLD
    assert held.why == "budget: j1 was disturbed 2 times in a day, and 2 are allowed"
    assert guard.spared(9000.0) == [JobId("j1")]
    assert (by_person.ruling, other.ruling, later.ruling) == (Ruling.GO,) * 3
    assert guard.spared(later_s) == []


def test_what_no_job_feels_is_noted_for_none() -> None:
    guard = Guard(replace(AUTO, disturbed_per_job_per_day=1))
    guard.record(drain(), 1000.0)

    assert guard.spared(1000.0) == []
    assert guard.judge(decision(), ready()).ruling is Ruling.GO


def test_jobs_of_yesterday_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steward.act.guard.REMEMBERED", 1)
    guard = Guard(replace(AUTO, disturbed_per_job_per_day=1))

    guard.record(decision(), 1000.0)
    guard.record(preempt(job="j2"), 200_000.0)

    assert guard.spared(1000.0) == [JobId("j2")]


def test_giving_back_uses_no_budget() -> None:
    guard = Guard(replace(AUTO, disturbed_gpus_per_hour=1))

    guard.record(call_back(decision()), 1000.0)

    assert guard.judge(decision(), ready()).ruling is Ruling.GO


@given(
    asks=st.lists(st.tuples(st.integers(1, 3), st.floats(0.0, 1000.0)), max_size=40),
    budget=st.integers(0, 20),
)
def test_the_budget_holds_in_every_hour_whatever_is_asked(
    asks: list[tuple[int, float]], budget: int
) -> None:
    guard = Guard(
        replace(AUTO, disturbed_gpus_per_hour=budget, disturbed_gpus_per_tenant_per_hour=100)
    )
    done: list[tuple[float, int]] = []
    t_s = 1000.0
    for number, (size, wait_s) in enumerate(asks):
        t_s += wait_s
        made = decision(f"d-{number}", t_s=t_s, gpus=tuple(f"n1/gpu{i}" for i in range(size)))
        if guard.judge(made, ready(t_s=t_s, gpus=3)).ruling is Ruling.GO:
            guard.record(made, t_s)
            done.append((t_s, size))

    for at_s, _ in done:
        assert sum(size for t, size in done if at_s - 3600.0 < t <= at_s) <= budget


# -- cool-down -------------------------------------------------------------------------------------


def test_after_a_loan_its_owner_is_left_alone_for_a_while() -> None:
    guard = Guard(AUTO)
    lent = view(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()])
    guard.follow(lent)
    guard.follow(ready(t_s=1000.0))

    soon = guard.judge(decision(t_s=1100.0), ready(t_s=1100.0))
    later = guard.judge(decision(t_s=1600.0), ready(t_s=1600.0))

    assert (soon.ruling, later.ruling) == (Ruling.HOLD, Ruling.GO)
    assert "left alone for 500 s more" in soon.why


def test_while_a_loan_goes_on_its_owner_is_not_left_alone_yet() -> None:
    guard = Guard(AUTO)
    lent = view(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()])

    guard.follow(lent)
    guard.follow(replace(lent, t_s=1010.0))

    assert guard.judge(decision(t_s=1020.0), ready(t_s=1020.0)).ruling is Ruling.GO


def test_an_earlier_reason_does_not_shorten_how_long_a_job_is_left_alone() -> None:
    guard = Guard(Limits(cool_down_s=600.0))

    guard.leave_alone(JobId("j1"), 1000.0)
    guard.leave_alone(JobId("j1"), 500.0)
    guard.leave_alone(JobId("j2"), 500.0)
    guard.leave_alone(JobId("j2"), 1000.0)

    assert guard.resting(1599.0) == ["j1", "j2"]
    assert guard.resting(1600.0) == []


def test_who_rested_long_ago_is_forgotten() -> None:
    guard = Guard(replace(AUTO, cool_down_s=1.0))
    quiet = ready()
    for number in range(10_002):
        one = replace(quiet, t_s=float(number * 10), loans=(loan("d", owner=f"o{number}"),))
        guard.follow(one)
        guard.follow(replace(quiet, t_s=one.t_s + 5.0, loans=()))

    assert len(guard._rests_until_s) < 10


# -- breaker ---------------------------------------------------------------------------------------


def test_the_breaker_opens_when_outcomes_surely_bring_far_less_than_was_promised() -> None:
    guard = Guard(AUTO)
    guard.learn([outcome(f"d-{i}", gained=40.0 + i, due_s=1000.0) for i in range(10)])

    verdict = guard.judge(decision(), ready())

    assert verdict.ruling is Ruling.HOLD
    assert (
        "open: the last 10 outcomes in 'put-to-work' brought 15% of what was promised"
        in verdict.why
    )
    assert guard.breaker(1000.0).startswith("open")
    assert guard.breaker(1000.0 + 1800.0) == "closed"


def test_the_breaker_stays_closed_for_few_outcomes_for_good_ones_and_for_bad_luck() -> None:
    few, good, unlucky = Guard(AUTO), Guard(AUTO), Guard(AUTO)

    few.learn([outcome(gained=0.0) for _ in range(9)])
    good.learn([outcome(gained=200.0) for _ in range(30)])
    unlucky.learn([outcome(gained=gain) for gain in (900.0, *[0.0] * 11)])

    assert few.breaker(1000.0) == good.breaker(1000.0) == unlucky.breaker(1000.0) == "closed"


def test_outcomes_that_nothing_was_promised_of_do_not_count() -> None:
    guard = Guard(replace(AUTO, breaker_outcomes=2))

    guard.learn([outcome(gained=-50.0, expected=0.0)] * 5)

    assert guard.breaker(1000.0) == "closed"


def test_after_its_rest_the_breaker_needs_fresh_evidence_to_open_again() -> None:
    guard = Guard(replace(AUTO, breaker_outcomes=2, breaker_rest_s=100.0))
    guard.learn([outcome(gained=0.0, due_s=1000.0)] * 3)  # the third falls into the rest

    assert guard.breaker(1101.0) == "closed"
    guard.learn([outcome(gained=300.0, due_s=1101.0)])
    assert guard.breaker(1101.0) == "closed"


# -- preconditions ---------------------------------------------------------------------------------


def lent_view() -> ClusterView:
    return view(
        jobs=[job("j1", on=[GPU]), job("j2"), job("j3", on=[GPU])], loans=[loan(borrower="j3")]
    )


@pytest.mark.parametrize(
    ("seen", "broken"),
    [
        (view(jobs=[job("j1", on=[GPU])]), "j2 is not waiting any more"),
        (view(jobs=[job("j1", on=[GPU]), job("j2", on=[OTHER])]), "j2 is not waiting any more"),
        (view(node("n2"), jobs=[job("j2")]), "not in the cluster"),
        (view(jobs=[job("j1"), job("j2")]), "j1 does not hold these GPUs"),
        (lent_view(), "lent already"),
        (view(jobs=[job("j1", on=[GPU]), job("j2")], busy={GPU: 0.9}), "uses them again"),
        (view(jobs=[job("j1", on=[GPU]), job("j2")]), ""),
    ],
)
def test_a_loan_needs_an_idle_holder_and_a_waiting_borrower(seen: ClusterView, broken: str) -> None:
    found = decision().action.unmet(seen)

    assert broken in found
    assert bool(found) == bool(broken)


def test_a_sick_gpu_is_not_lent() -> None:
    seen = ready()
    sick = np.full(len(seen.gpus), HEALTH_CODES[Health.WORN])

    found = decision().action.unmet(replace(seen, gpus=replace(seen.gpus, health=sick)))

    assert found == "one of the GPUs is not healthy"


def test_a_loan_that_is_over_cannot_be_called_back() -> None:
    assert "has ended" in call_back(decision()).action.unmet(ready())


def test_what_was_done_under_an_approval_that_is_over_is_charged_to_its_budget_alone() -> None:
    guard = Guard(Limits(autonomy=Autonomy.APPROVE, disturbed_gpus_per_hour=1))

    guard.record(decision(), 1000.0)

    assert guard.approvals(1000.0) == []
    assert guard.permits(decision("d-2"), 1000.0) is Ruling.HOLD


# -- jobs that users submitted ---------------------------------------------------------------------


def test_what_users_submitted_is_started_whatever_the_site_allows_otherwise() -> None:
    guard = Guard(Limits(autonomy=Autonomy.OBSERVE, start_autonomy=Autonomy.AUTO))
    seen = view(node("n1", 1), jobs=[job("j1")])

    assert guard.judge(start(job="j1"), seen).ruling is Ruling.GO
    assert not guard.is_silenced(start(job="j1"))
    assert guard.is_silenced(decision())
    assert not guard.is_silenced(call_back(decision()))


def test_jobs_that_ended_early_do_not_keep_submitted_ones_from_starting() -> None:
    guard = Guard(Limits(start_autonomy=Autonomy.AUTO, breaker_outcomes=4))
    bad = replace(outcome(gained=0.0, expected=100.0), yardstick=start(job="j1").yardstick)
    guard.learn([bad] * 4)
    seen = view(node("n1", 1), jobs=[job("j1")])

    assert guard.judge(start(job="j1"), seen).ruling is Ruling.GO
