from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import believing, column, finding, job, node, view
from steward.decide.scheduling.lend_idle import LendIdle
from steward.model.actions import CallBack, Lend
from steward.model.cluster import GIB, Health
from steward.model.decision import Decision
from steward.model.finding import Severity
from steward.model.forecast import CHOICE_LEND, CHOICE_SHARES, REMAINING_S, About
from steward.model.identity import FindingId
from steward.model.job import Checkpointing, Job, JobShape
from steward.model.treatment import Treatment
from steward.model.view import HEALTH_CODES, ClusterView
from steward.model.yielding import Yielding

GPU, OTHER = "n1/gpu0", "n1/gpu1"
TELL = Treatment(action="tell", advice="say it")


def idle_holder(
    *waiting: Job, gpus: tuple[str, ...] = (GPU,), remaining_s: float = 1800.0
) -> ClusterView:
    """Return a moment in which j1 has left its GPUs idle while others wait."""
    seen = view(node("n1", max(2, len(gpus))), jobs=[job("j1", on=gpus), *waiting])
    seen = believing(seen, idle_s=dict.fromkeys(gpus, 400.0), remaining_s=remaining_s)
    return seen.with_findings((finding("j1", *gpus),))


def borrowers(decisions: tuple[Decision, ...]) -> list[str]:
    return [each.action.borrower for each in decisions if isinstance(each.action, Lend)]


def test_an_idle_gpu_is_lent_to_the_job_that_waits_with_reason_expectation_and_undo() -> None:
    (made,) = LendIdle().decide(idle_holder(job("j2")))

    assert made.action == Lend(gpus=(GPU,), owner="j1", borrower="j2")
    assert made.undo == CallBack(loan=made.id, gpus=(GPU,), owner="j1", borrower="j2")
    assert made.findings == ("f-j1",)
    assert made.expects.mid == pytest.approx(600 * 0.6)
    assert made.expects.low <= made.expects.mid <= made.expects.high
    assert made.forecasts[0].mid == 1800.0
    assert "j1 has left n1/gpu0 idle" in made.because


def test_nothing_is_decided_without_forecasts_findings_or_waiting_jobs() -> None:
    full = idle_holder(job("j2"))

    assert LendIdle().decide(view()) == ()
    assert LendIdle().decide(full.with_findings(())) == ()
    assert LendIdle().decide(idle_holder()) == ()


def test_gpus_of_a_job_that_has_ended_since_it_was_found_idle_are_not_lent() -> None:
    idle = idle_holder(job("j2"))

    assert LendIdle().decide(idle.with_findings((finding("ended", GPU),))) == ()


def test_a_job_that_cannot_save_its_work_gets_no_loan() -> None:
    assert LendIdle().decide(idle_holder(job("j2", checkpointing=Checkpointing()))) == ()


def test_a_job_that_needs_no_gpu_is_no_borrower() -> None:
    waiting = [job("cpu-only", shape=JobShape(gpus=0)), job("j2", submit_s=5.0)]

    assert borrowers(LendIdle().decide(idle_holder(*waiting))) == ["j2"]


def test_a_job_that_does_not_fit_beside_the_holders_memory_gets_no_loan() -> None:
    large = job("j2", shape=JobShape(gpus=1, gpu_memory_bytes=130 * GIB))

    assert LendIdle().decide(idle_holder(large)) == ()


def test_a_job_that_needs_another_model_of_gpu_gets_no_loan() -> None:
    picky = job("j2", shape=JobShape(gpus=1, gpu_models=("a100",)))

    assert LendIdle().decide(idle_holder(picky)) == ()


def test_a_loan_that_will_not_outlast_its_own_cost_is_not_made() -> None:
    assert LendIdle().decide(idle_holder(job("j2"), remaining_s=50.0)) == ()


def test_a_gang_needs_enough_gpus_of_one_holder() -> None:
    two = job("j2", shape=JobShape(gpus=2, gpu_memory_bytes=GIB))

    assert LendIdle().decide(idle_holder(two)) == ()
    (made,) = LendIdle().decide(idle_holder(two, gpus=(GPU, OTHER)))
    assert made.action.gpus == (GPU, OTHER)


def test_the_higher_priority_then_the_poorer_tenant_then_the_longer_wait_comes_first() -> None:
    waiting = [
        job("rich", tenant="a", submit_s=0.0),
        job("poor-late", tenant="b", submit_s=20.0),
        job("poor-early", tenant="b", submit_s=10.0),
        job("urgent", tenant="a", submit_s=30.0, priority=1),
    ]
    gpus = tuple(f"n1/gpu{i}" for i in range(4))

    made = LendIdle().decide(idle_holder(*waiting, gpus=gpus))

    assert borrowers(made) == ["urgent", "poor-early", "poor-late", "rich"]
    assert len({gpu for each in made for gpu in each.action.gpus}) == 4


def test_small_leftovers_are_used_before_large_pools_are_broken_up() -> None:
    seen = view(
        node("n1", 2),
        node("n2", 1),
        jobs=[job("j1", on=[GPU, OTHER]), job("j3", on=["n2/gpu0"]), job("j2")],
    )
    seen = believing(seen, idle_s={GPU: 400.0, OTHER: 400.0, "n2/gpu0": 400.0})
    seen = seen.with_findings((finding("j1", GPU, OTHER), finding("j3", "n2/gpu0")))

    (made,) = LendIdle().decide(seen)

    assert made.action.gpus == ("n2/gpu0",)


@pytest.mark.parametrize("column", ["users", "reserved", "health", "memory_used_bytes"])
def test_gpus_that_are_lent_reserved_sick_or_of_unknown_memory_are_left_alone(
    column: str,
) -> None:
    seen = idle_holder(job("j2"))
    value = {
        "users": 2,
        "reserved": True,
        "health": HEALTH_CODES[Health.BAD],
        "memory_used_bytes": np.nan,
    }[column]
    changed = getattr(seen.gpus, column).copy()
    changed[0] = value

    seen = replace(seen, gpus=replace(seen.gpus, **{column: changed}))

    assert LendIdle().decide(seen) == ()


def test_a_job_that_an_open_decision_is_about_is_not_decided_on_again() -> None:
    seen = idle_holder(job("j2"))
    spoken = np.array([id_ == "j2" for id_ in seen.jobs.ids])

    assert LendIdle().decide(replace(seen, jobs=replace(seen.jobs, reserved=spoken))) == ()


# -- laws ------------------------------------------------------------------------------------------


@given(
    held=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    wanted=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 140)), max_size=8),
    remaining_s=st.floats(0.0, 1e5),
)
def test_no_gpu_is_lent_twice_and_no_job_borrows_twice(
    held: list[int], wanted: list[tuple[int, int]], remaining_s: float
) -> None:
    nodes = [node(f"n{i}", 4) for i in range(len(held))]
    owners = [
        job(f"o{i}", on=[f"n{i}/gpu{g}" for g in range(count)]) for i, count in enumerate(held)
    ]
    waiting = [
        job(f"w{i}", shape=JobShape(gpus=gpus, gpu_memory_bytes=gib * GIB))
        for i, (gpus, gib) in enumerate(wanted)
    ]
    seen = view(*nodes, jobs=[*owners, *waiting])
    idle = {gpu: 500.0 for owner in owners for gpu in owner.gpus}
    seen = believing(seen, idle_s=idle, remaining_s=remaining_s)
    seen = seen.with_findings(tuple(finding(each.id, *each.gpus) for each in owners))

    made = LendIdle().decide(seen)

    lent = [gpu for each in made for gpu in each.action.gpus]
    assert len(lent) == len(set(lent))
    assert len(borrowers(made)) == len(set(borrowers(made)))
    for each in made:
        assert len(each.action.gpus) == seen.details[each.action.borrower].shape.gpus
        assert len({gpu.split("/")[0] for gpu in each.action.gpus}) == 1
        assert set(each.action.gpus) <= set(seen.details[each.action.owner].gpus)


def test_the_forecast_that_a_decision_rests_on_is_the_views_own() -> None:
    seen = idle_holder(job("j2"))
    column = seen.forecast(About.GPUS, REMAINING_S)
    assert column is not None

    (made,) = LendIdle().decide(seen)

    assert made.forecasts == (column.row(0, GPU),)


def test_a_rule_that_lends_is_heard_and_one_gpu_is_lent_once() -> None:
    treatment = Treatment(action="lend", advice="lend it")
    by_rule = replace(finding("j1", GPU), id=FindingId("f-rule"), treatment=treatment, weight=0.2)
    jobs = [job("j1", on=[GPU]), job("j2"), job("j3")]
    idle = believing(view(node("n1", 2), jobs=jobs), idle_s={GPU: 900.0})

    (lent,) = LendIdle().decide(idle.with_findings((by_rule, finding("j1", GPU))))

    assert (lent.findings, lent.treatment, lent.trusted) == (("f-rule",), treatment, False)


@pytest.mark.parametrize("more", [{"severity": Severity.FAULT}, {"job": None}, {"treatment": TELL}])
def test_gpus_of_other_findings_are_not_lent(more: dict[str, object]) -> None:
    jobs = [job("j1", on=[GPU]), job("j2")]
    idle = believing(view(node("n1", 2), jobs=jobs), idle_s={GPU: 900.0})
    other = replace(finding("j1", GPU), **more)  # type: ignore[arg-type]

    assert LendIdle().decide(idle.with_findings((other,))) == ()


def large(name: str = "j2", **given: object) -> Job:
    """Return a waiting job that fits on a GPU alone, and not beside anybody."""
    return job(name, shape=JobShape(gpus=1, gpu_memory_bytes=130 * GIB), **given)


def holders(*made: Job, waiting: Job) -> ClusterView:
    """Return a moment in which all these jobs have left their GPUs idle."""
    seen = view(node("n1", 4), jobs=[*made, waiting])
    gpus = [gpu for each in made for gpu in each.gpus]
    seen = believing(seen, idle_s=dict.fromkeys(gpus, 400.0), remaining_s=1800.0)
    return seen.with_findings(tuple(finding(each.id, *each.gpus) for each in made))


SUSPENDS = Yielding(suspendable=True, suspend_s=7.0, resume_s=3.0)
STOPS = Yielding(stoppable=True, saved_s=940.0)


def test_a_holder_that_can_be_suspended_makes_room_for_a_job_that_does_not_fit_beside_it() -> None:
    (made,) = LendIdle().decide(holders(job("j1", on=[GPU], yielding=SUSPENDS), waiting=large()))

    assert isinstance(made.action, Lend)
    assert (made.action.way, made.action.for_s) == ("suspended", 1800.0)
    assert "suspending it (7.0 s, 3.0 s to resume)" in made.because
    assert "nothing is promised" in made.because


def test_a_holder_that_can_save_makes_room_and_the_reason_has_what_is_promised() -> None:
    promise = Yielding(promised_s=9.0, p50_s=4.0, p95_s=6.0, measured=12)

    (made,) = LendIdle().decide(
        holders(job("j1", on=[GPU], yielding=STOPS), waiting=large(yielding=promise))
    )

    assert isinstance(made.action, Lend)
    assert made.action.way == "saved"
    assert "1 min after its last verified save" in made.because
    assert "given back within 9.0 s (p50 4.0 s, p95 6.0 s of 12)" in made.because


def test_the_holder_that_loses_least_since_its_last_verified_save_makes_room() -> None:
    old = job("j1", on=[GPU], yielding=replace(STOPS, saved_s=100.0))
    never = job("j3", on=["n1/gpu3"], yielding=replace(STOPS, saved_s=None))
    new = job("j4", on=[OTHER], yielding=replace(STOPS, saved_s=990.0))

    (made,) = LendIdle().decide(holders(old, never, new, waiting=large()))
    (second,) = LendIdle().decide(holders(old, never, waiting=large()))

    assert isinstance(made.action, Lend)
    assert isinstance(second.action, Lend)
    assert (made.action.owner, second.action.owner) == ("j4", "j1")


def test_a_holder_is_not_stopped_for_some_of_its_gpus_or_if_nobody_can_stop_it() -> None:
    two = job("j1", on=[GPU, OTHER], yielding=STOPS)
    cannot = job("j1", on=[GPU], yielding=STOPS, checkpointing=Checkpointing())
    unknown_start = job("j1", on=[GPU], yielding=replace(STOPS, saved_s=None), start_s=None)
    partly = holders(two, waiting=large())
    partly = partly.with_findings((finding("j1", GPU),))

    assert LendIdle().decide(partly) == ()
    assert LendIdle().decide(holders(two, waiting=large())) == ()
    assert LendIdle().decide(holders(cannot, waiting=large())) == ()
    assert borrowers(LendIdle().decide(holders(unknown_start, waiting=large()))) == ["j2"]


def test_foreign_processes_lend_nothing_and_a_job_that_may_be_ended_borrows() -> None:
    foreign = job("j1", on=[GPU], held=True)
    endable = job("j2", checkpointing=Checkpointing(), yielding=Yielding(endable=True))

    assert LendIdle().decide(holders(foreign, waiting=job("j2"))) == ()
    assert borrowers(LendIdle().decide(idle_holder(endable))) == ["j2"]


def test_a_job_that_does_not_say_what_it_needs_on_a_gpu_gets_no_place_beside_another() -> None:
    silent = job("j2", shape=JobShape(gpus=1))

    assert LendIdle().decide(idle_holder(silent)) == ()
    (made,) = LendIdle().decide(holders(job("j1", on=[GPU], yielding=SUSPENDS), waiting=silent))
    assert isinstance(made.action, Lend)
    assert made.action.way == "suspended"


@pytest.mark.parametrize(
    ("borrows", "user", "lent"),
    [("own", "ada", True), ("own", "eve", False), ("own", "", False), ("no", "ada", False)],
)
def test_where_an_engine_lends_within_one_users_jobs_no_other_borrows(
    *, borrows: str, user: str, lent: bool
) -> None:
    holder = job("j1", on=[GPU], user="ada")
    seen = holders(holder, waiting=job("j2", user=user, borrows=borrows))

    assert borrowers(LendIdle().decide(seen)) == (["j2"] if lent else [])


def test_a_job_that_no_holder_of_its_user_helps_stops_no_other_from_borrowing() -> None:
    theirs = job("j2", user="eve", borrows="own")
    ours = job("j3", user="ada", borrows="own", submit_s=5.0)
    seen = idle_holder(theirs, ours)
    seen = replace(seen, details={**seen.details, "j1": job("j1", on=[GPU], user="ada")})

    assert borrowers(LendIdle().decide(seen)) == ["j3"]


def test_a_gpu_that_past_outcomes_chose_to_leave_alone_is_not_lent() -> None:
    seen = idle_holder(job("j2"), gpus=(GPU, OTHER))
    chosen = column(CHOICE_LEND, np.array([0.0, 1.0]))

    (made,) = LendIdle().decide(seen.with_forecasts((chosen,)))

    assert made.action.gpus == (OTHER,)


def test_a_loan_names_the_probabilities_that_it_was_chosen_with() -> None:
    seen = idle_holder(job("j2"))
    shares = [
        column(quantity, np.array([share, np.nan]))
        for quantity, share in zip(CHOICE_SHARES, (0.1, 0.7, 0.2), strict=True)
    ]

    (made,) = LendIdle().decide(seen.with_forecasts(shares))

    named = {each.quantity: each.mid for each in made.forecasts}
    assert [named[quantity] for quantity in CHOICE_SHARES] == [0.1, 0.7, 0.2]
