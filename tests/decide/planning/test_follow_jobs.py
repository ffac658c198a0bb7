"""What the policy of followed jobs decides, and what its actions say of themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from factories import decision as cluster_decision
from steward.decide.planning.drift import corrections, drifted
from steward.decide.planning.follow_jobs import FollowJobs
from steward.decide.planning.moves import MoveRules
from steward.model.actions import (
    PLANNING_ACTIONS,
    EndCopy,
    MoveJob,
    Recalibrate,
    StartCampaign,
    domain_of,
)
from steward.model.identity import JobId
from steward.model.planning.calibration import Calibration, RunError, calibrated
from steward.model.planning.followed import (
    MOST_MARKS,
    Expected,
    FollowedJob,
    JobEnd,
    Mark,
    Offer,
    RunState,
    SiteRun,
)
from steward.model.planning.plan import Choice, PlanRequest, Range, Way
from steward.model.planning.view import PlanningView, followed_claim
from steward.model.site import SiteHealth, SiteState

HOUR = 3600.0
NOW = 1000 * HOUR
WAY = Way(
    gpu_model="A100",
    gpus=2,
    run_s=Range(low=HOUR, mid=2 * HOUR, high=4 * HOUR),
    watts=Range(low=1, mid=2, high=3),
)
CPU = replace(WAY, gpu_model="", gpus=0)


def exactly(value: float) -> Range:
    return Range(low=value, mid=value, high=value)


def choice(site: str = "b", *, usd: float | None = 4.0, run_s: float = 2 * HOUR) -> Choice:
    return Choice(
        site=site,
        queue="q",
        way=WAY,
        nodes=1,
        start_s=NOW,
        wait_s=exactly(0),
        run_s=exactly(run_s),
        end_s=exactly(NOW + HOUR),
        links=1,
        interruptible=False,
        usd=None if usd is None else exactly(usd),
        units={},
        kwh=exactly(1),
        co2_kg=None,
        deadline_chance=0.99,
    )


def run(site: str = "a", **changed: Any) -> SiteRun:
    plain = SiteRun(
        site=site,
        queue="q",
        way=WAY,
        expected_run_s=WAY.run_s,
        submitted_s=NOW - 5 * HOUR,
        token=f"p-1-{site}",
        job="7",
        state=RunState.RUNNING,
        began_s=NOW - 4 * HOUR,
        can_save=True,
        usd_per_h=2.0,
    )
    return replace(plain, **changed)


def job(*runs: SiteRun, **changed: Any) -> FollowedJob:
    request = PlanRequest(
        name="bert", ways=(WAY,), now_s=0.0, deadline_s=NOW + 3 * HOUR, saves=True
    )
    plain = FollowedJob(id="p-1", name="bert", request=request, runs=runs or (run(),))
    return replace(plain, **changed)


def view(
    followed: FollowedJob, *there: Choice, chance: float | None = 0.3, **changed: Any
) -> PlanningView:
    here = Expected(
        end_s=exactly(NOW + 2 * HOUR),
        left_s=exactly(2 * HOUR),
        usd_left=exactly(5.0),
        deadline_chance=chance,
        basis="test",
    )
    plain = PlanningView(
        t_s=NOW,
        jobs=(followed,),
        expected={followed.id: here},
        offers={
            followed.id: tuple(
                Offer(choice=each, endpoint="x", options={"gpus": "2"}) for each in there
            )
        },
        sites={name: SiteHealth(name=name, state=SiteState.FINE) for name in "abc"},
    )
    return replace(plain, **changed)


def error(number: int, *, times: float = 1.0, t_s: float = NOW, gpu: str = "A100") -> RunError:
    return RunError(
        job=f"p-{number}",
        name="bert",
        gpu_model=gpu,
        t_s=t_s,
        planned_s=WAY.run_s,
        took_s=WAY.run_s.mid * times,
    )


def test_a_move_says_where_to_what_it_is_worth_and_what_was_forecast_without_it() -> None:
    [made] = FollowJobs().decide(view(job(), choice()))

    action = made.action
    assert isinstance(action, MoveJob)
    assert (action.source, action.target, action.endpoint) == ("a/q", "b/q", "x")
    assert action.options == (("gpus", "2"),)
    assert action.usd_per_h == 2.0
    assert action.stay.late_chance == pytest.approx(0.7)
    assert action.stay.usd == exactly(5.0)
    assert made.expects.mid == pytest.approx(1.0 + 0.69 * 20)
    assert made.because.startswith("the deadline is met with 30% here and 99% there")
    assert action.sentence == "Save p-1, and let it go on at b/q instead of a/q"
    assert len(action.gpus) == 2
    assert made.undo is None


@pytest.mark.parametrize(("usd", "run_s"), [(None, HOUR), (1.0, 0.0)])
def test_a_place_without_a_price_costs_an_unknown_amount_an_hour(
    usd: float | None, run_s: float
) -> None:
    [made] = FollowJobs().decide(view(job(), choice(usd=usd, run_s=run_s)))

    assert isinstance(made.action, MoveJob)
    assert made.action.usd_per_h is None


def test_a_job_without_gpus_counts_as_one_to_disturb() -> None:
    [made] = FollowJobs().decide(view(job(), replace(choice(), way=CPU)))

    assert len(made.action.gpus) == 1


def test_a_decision_keeps_its_id_for_an_hour_unless_the_job_ran_elsewhere_since() -> None:
    policy = FollowJobs(rules=MoveRules(between_s=0.0))
    seen = view(job(), choice())
    [first] = policy.decide(seen)
    [again] = policy.decide(replace(seen, t_s=NOW + 60))
    [later] = policy.decide(replace(seen, t_s=NOW + HOUR))
    moved = job(run(state=RunState.STOPPED), run("a", submitted_s=NOW))
    [other] = policy.decide(replace(seen, jobs=(moved,)))

    assert first.id == again.id
    assert len({first.id, later.id, other.id}) == 3


def test_what_an_open_decision_is_about_is_left_alone() -> None:
    seen = view(job(), choice(), reserved=frozenset({followed_claim("p-1")}))

    assert FollowJobs().decide(seen) == ()


def test_a_lost_job_would_surely_be_late_without_the_move() -> None:
    gone = SiteHealth(name="a", state=SiteState.UNREACHABLE, since_s=NOW - HOUR)
    seen = view(job(), choice(), chance=None)
    [made] = FollowJobs().decide(replace(seen, sites={"a": gone}))

    assert isinstance(made.action, MoveJob)
    assert made.action.lost
    assert made.action.stay.late_chance == 1.0
    assert made.action.sentence == (
        "Let p-1 go on at b/q from its last checkpoint, and end it at a/q when that answers again"
    )
    no_deadline = job(request=replace(job().request, deadline_s=None))
    [free] = FollowJobs().decide(replace(view(no_deadline, choice()), sites={"a": gone}))
    assert isinstance(free.action, MoveJob)
    assert free.action.stay.late_chance == 0.0


def test_a_job_at_no_site_goes_on_from_where_it_was_last() -> None:
    stranded = job(run(state=RunState.LOST))

    [made] = FollowJobs().decide(replace(view(stranded, choice()), expected={}))

    assert isinstance(made.action, MoveJob)
    assert (made.action.source, made.action.lost) == ("a/q", True)


def test_a_move_that_stopped_half_way_is_ended() -> None:
    held = run("b", state=RunState.HELD, held=True)
    two = view(job(run(state=RunState.STOPPED), held), choice("c"))
    one = view(job(held))

    for seen, source in ((two, "a/q"), (one, "b/q")):
        [made] = FollowJobs().decide(seen)
        assert isinstance(made.action, MoveJob)
        assert (made.action.source, made.action.target) == (source, "b/q")


def test_a_copy_is_ended_as_soon_as_its_site_answers() -> None:
    lost = run(state=RunState.LOST, to_end=True)
    seen = view(job(lost, run("b")), chance=0.99)
    [made] = FollowJobs().decide(seen)
    silent = replace(seen, sites={})

    assert made.action == EndCopy(job="p-1", run=0, place="a/q")
    assert made.returns
    assert FollowJobs().decide(silent) == ()
    assert "goes on elsewhere" in made.action.sentence


def test_runs_of_a_job_that_is_over_are_ended() -> None:
    over = job(run(), end=JobEnd.COMPLETED)
    forgotten = job(run(job=""), end=JobEnd.COMPLETED)
    known = job(run(state=RunState.LOST), end=JobEnd.COMPLETED)

    [made] = FollowJobs().decide(view(over))
    assert isinstance(made.action, EndCopy)
    assert "p-1 is over" in made.because
    assert FollowJobs().decide(view(forgotten)) == ()
    assert FollowJobs().decide(view(known)) == ()
    assert over.has_copies
    assert not job().has_copies


def test_jobs_that_took_longer_correct_the_next_plans_once() -> None:
    errors = tuple(error(number, times=1.5) for number in range(4))
    quiet = view(job(run(state=RunState.WAITING)), chance=0.99, errors=errors)

    [made] = FollowJobs().decide(quiet)
    assert isinstance(made.action, Recalibrate)
    correction = made.action.calibration
    assert 1.2 < correction.factor < 1.5
    assert "bert on A100" in made.action.sentence
    assert (
        "bert to run"
        in replace(made.action, calibration=replace(correction, gpu_model="")).sentence
    )
    assert FollowJobs().decide(replace(quiet, calibrations=(correction,))) == ()


def test_a_correction_shrinks_with_few_jobs_and_never_narrows_a_range() -> None:
    one = Calibration.of([error(1, times=3.0)])
    many = Calibration.of([error(number, times=3.0) for number in range(20)])

    assert 1.0 < one.factor < many.factor < 3.0
    made = calibrated(WAY.run_s, many)
    assert made.mid == pytest.approx(WAY.run_s.mid * many.factor)
    assert made.high / made.mid >= WAY.run_s.high / WAY.run_s.mid - 1e-9
    assert calibrated(WAY.run_s, None) == WAY.run_s
    assert corrections([error(1)], ()) == ()
    assert len(corrections([error(1, times=2), error(2, times=2, gpu="V100")], ())) == 2


def test_drift_is_what_chance_does_not_explain() -> None:
    inside = [error(number) for number in range(4)]
    outside = [error(number, times=3.0) for number in range(4, 7)]

    assert drifted(inside, since_s=0.0) == ""
    assert drifted([*inside, outside[0]], since_s=0.0) == ""
    assert drifted([*inside, *outside], since_s=0.0) == (
        "3 of its last 6 jobs ended outside their 90 % range"
    )
    assert drifted(outside, since_s=NOW) == ""
    assert drifted([*inside[:4], *outside[:2]], since_s=0.0) == ""


def test_drift_of_an_application_starts_a_small_campaign_once_in_a_while() -> None:
    runs = tuple(
        replace(job(run(state=RunState.COMPLETED), end=JobEnd.COMPLETED), id=f"p-{number}")
        for number in range(3)
    )
    runs = tuple(replace(each, campaign="md") for each in runs)
    errors = tuple(error(number, times=3.0) for number in range(3))
    known = Calibration.of(errors)
    seen = PlanningView(t_s=NOW + 1, jobs=runs, errors=errors, calibrations=(known,))

    [made] = FollowJobs().decide(seen)
    assert made.action == StartCampaign(application="md", budget_s=900.0, runs=12)
    assert "Measure md anew" in made.action.sentence
    assert FollowJobs().decide(replace(seen, campaigns={"md": NOW - 9 * HOUR})) == ()
    plain = tuple(replace(each, campaign="") for each in runs)
    assert FollowJobs().decide(replace(seen, jobs=plain)) == ()


MOVE = MoveJob(job="p-1", source="a/q", site="b", queue="q", endpoint="", way=WAY, run_s=WAY.run_s)
END = EndCopy(job="p-1", run=0, place="a/q")
CORRECT = Recalibrate(calibration=Calibration.of([error(1)]))
MEASURE = StartCampaign(application="md", budget_s=1.0, runs=2)


def test_actions_can_be_done_only_while_what_they_are_about_is_so() -> None:
    seen = view(job())
    over = view(job(end=JobEnd.FAILED))
    elsewhere = view(job(run("c")))

    assert seen.unmet(MOVE) == ""
    assert view(job(run(state=RunState.LOST))).unmet(MOVE) == ""
    assert over.unmet(MOVE) == "p-1 has ended: failed"
    assert elsewhere.unmet(MOVE) == "p-1 is at c/q now"
    assert replace(seen, jobs=()).unmet(MOVE) == "p-1 is not followed any more"
    assert seen.unmet(END) == ""
    assert seen.unmet(replace(END, run=3)) == "that run is not known"
    assert replace(seen, errors=(error(1),)).unmet(CORRECT) == ""
    assert "not known any more: p-1" in seen.unmet(CORRECT)
    assert seen.unmet(MEASURE) == "no followed job is a run of md"
    assert view(job(campaign="md")).unmet(MEASURE) == ""


def test_a_moment_shows_what_has_been_done() -> None:
    seen = view(job())

    assert not seen.may_be_done(MOVE)
    assert view(job(run("b"))).may_be_done(MOVE)
    assert not replace(seen, jobs=()).may_be_done(MOVE)
    assert not seen.may_be_done(END)
    assert not replace(seen, jobs=()).may_be_done(END)
    assert view(job(run(state=RunState.STOPPED))).may_be_done(END)
    assert not view(job(run(state=RunState.LOST))).may_be_done(END)
    assert not seen.may_be_done(CORRECT)
    assert replace(seen, calibrations=(CORRECT.calibration,)).may_be_done(CORRECT)
    assert not seen.may_be_done(MEASURE)
    assert replace(seen, campaigns={"md": NOW}).may_be_done(MEASURE)


def test_actions_of_this_domain_are_nothing_for_a_cluster_and_the_other_way_round() -> None:
    other = cluster_decision("d-1").action
    seen = view(job())

    for each in (MOVE, END, CORRECT, MEASURE):
        assert domain_of(each) == "planning"
        assert isinstance(each, PLANNING_ACTIONS)
        assert each.for_finding(None, None) is None  # type: ignore[arg-type]
        assert each.acts_on is None
        assert "this is a moment of a cluster" in each.unmet(object())  # type: ignore[arg-type]
        assert not each.may_be_done(object())  # type: ignore[arg-type]
        assert each.claims
    assert "not about followed jobs" in seen.unmet(other)
    assert not seen.may_be_done(other)
    assert MOVE.affects == JobId("p-1")
    assert [each.affects for each in (END, CORRECT, MEASURE)] == [None, None, None]
    assert MOVE.may_be_done(view(job(run("b"))))
    assert MOVE.unmet(seen) == ""


def test_a_moment_of_followed_jobs_is_a_view() -> None:
    seen = view(job())

    assert seen.lasting == {}
    assert not seen.is_lost(MOVE)
    assert seen.claims_of(JobId("p-1")) == {followed_claim("p-1")}
    assert seen.with_forecasts(()).forecasts == ()
    assert seen.with_findings(()).findings == ()
    assert seen.job("p-2") is None


def test_of_many_reports_the_newest_and_a_sample_are_kept() -> None:
    made = run()
    for number in range(300):
        made = made.with_mark(Mark(t_s=float(number), done_share=number / 300))
    same = made.with_mark(Mark(t_s=5.0, done_share=0.9))

    assert same == made
    assert len(made.marks) <= MOST_MARKS
    assert made.marks[-1].t_s == 299.0


def test_one_run_of_a_job_is_replaced_by_its_place() -> None:
    first, second = run(), run("b")
    followed = job(first, second)

    changed = followed.with_run(followed.number_of(second), replace(second, job="8"))

    assert [each.job for each in changed.runs] == ["7", "8"]


def test_a_run_costs_by_its_hours() -> None:
    ended = run(state=RunState.STOPPED, ended_s=NOW - HOUR)
    waiting = run("b", began_s=None)
    free = run("c", usd_per_h=None)

    assert job(ended, waiting, free).spent_usd(NOW) == pytest.approx(6.0)
