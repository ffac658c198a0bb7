from dataclasses import replace

import pytest

from steward.decide.planning.moves import MoveRules, moves
from steward.model.planning.followed import Expected, FollowedJob, JobEnd, Offer, RunState, SiteRun
from steward.model.planning.plan import Choice, PlanRequest, Range, Way
from steward.model.planning.view import PlanningView, SiteBudget
from steward.model.site import SiteHealth, SiteState

HOUR = 3600.0
NOW = 100 * HOUR
WAY = Way(
    gpu_model="A100", gpus=2, run_s=Range(low=1, mid=2, high=3), watts=Range(low=1, mid=2, high=3)
)


def exactly(value: float) -> Range:
    return Range(low=value, mid=value, high=value)


def choice(site: str, *, usd: float | None = 10.0, chance: float | None = 0.99) -> Choice:
    return Choice(
        site=site,
        queue="q",
        way=WAY,
        nodes=1,
        start_s=NOW,
        wait_s=exactly(0),
        run_s=exactly(HOUR),
        end_s=exactly(NOW + HOUR),
        links=1,
        interruptible=False,
        usd=None if usd is None else exactly(usd),
        units={},
        kwh=exactly(1),
        co2_kg=None,
        deadline_chance=chance,
    )


def offer(there: Choice) -> Offer:
    return Offer(choice=there, endpoint="", options={})


def request(**changed: object) -> PlanRequest:
    plain = PlanRequest(name="j", ways=(WAY,), now_s=0.0, deadline_s=NOW + 3 * HOUR, saves=True)
    return replace(plain, **changed)


def run(site: str = "a", **changed: object) -> SiteRun:
    plain = SiteRun(
        site=site,
        queue="q",
        way=WAY,
        expected_run_s=WAY.run_s,
        submitted_s=NOW - 5 * HOUR,
        job="7",
        state=RunState.RUNNING,
        began_s=NOW - 4 * HOUR,
        can_save=True,
    )
    return replace(plain, **changed)


def view(
    *,
    job: FollowedJob | None = None,
    there: tuple[Choice, ...] = (),
    chance: float | None = 0.99,
    usd_left: float | None = 10.0,
    health: SiteHealth | None = None,
) -> PlanningView:
    followed = job or FollowedJob(id="p-1", name="j", request=request(), runs=(run(),))
    here = Expected(
        end_s=exactly(NOW + 2 * HOUR),
        left_s=exactly(2 * HOUR),
        usd_left=None if usd_left is None else exactly(usd_left),
        deadline_chance=chance,
        basis="test",
    )
    return PlanningView(
        t_s=NOW,
        jobs=(followed,),
        expected={followed.id: here},
        offers={followed.id: tuple(offer(each) for each in there)},
        sites={"a": health or SiteHealth(name="a", state=SiteState.FINE)},
    )


def test_a_job_that_does_well_stays() -> None:
    assert moves(view(there=(choice("b"),))) == ()


def test_a_job_at_risk_goes_where_its_deadline_is_safest() -> None:
    [move] = moves(view(chance=0.4, there=(choice("b", chance=0.8), choice("c", chance=0.97))))

    assert move.to.choice.site == "c"
    assert move.because == ("the deadline is met with 40% here and 97% there; c/q with 2 x A100")
    assert not move.lost


def test_a_job_at_risk_stays_where_nothing_is_better() -> None:
    assert moves(view(chance=0.4, there=(choice("b", chance=0.42),))) == ()
    assert moves(view(chance=0.4)) == ()


def test_a_job_goes_where_the_rest_is_cheaper_by_a_tenth() -> None:
    [move] = moves(view(there=(choice("b", usd=8.0),)))

    assert move.to.choice.site == "b"
    assert "10.00 USD here and 8.00 there" in move.because
    assert moves(view(there=(choice("b", usd=9.5),))) == ()


def test_cheaper_is_no_reason_to_miss_the_deadline() -> None:
    assert moves(view(there=(choice("b", usd=1.0, chance=0.5),))) == ()


def test_without_a_deadline_cheaper_is_no_reason_to_be_later() -> None:
    job = FollowedJob(id="p-1", name="j", request=request(deadline_s=None), runs=(run(),))
    later = replace(choice("b", usd=1.0, chance=None), end_s=exactly(NOW + 9 * HOUR))

    assert moves(view(job=job, chance=None, there=(later,))) == ()


@pytest.mark.parametrize(("usd_left", "usd"), [(None, 1.0), (10.0, None), (0.0, 0.0)])
def test_what_has_no_price_is_not_cheaper(usd_left: float | None, usd: float | None) -> None:
    assert moves(view(usd_left=usd_left, there=(choice("b", usd=usd),))) == ()


def test_the_place_that_it_has_is_nowhere_else() -> None:
    assert moves(view(chance=0.1, there=(choice("a"),))) == ()


def test_a_job_moves_once_an_hour_at_most() -> None:
    runs = (run("z", state=RunState.STOPPED), run("a", submitted_s=NOW - 0.5 * HOUR))
    job = FollowedJob(id="p-1", name="j", request=request(), runs=runs)
    seen = view(job=job, chance=0.1, there=(choice("b"),))

    assert moves(seen) == ()
    assert len(moves(seen, MoveRules(between_s=1000.0))) == 1


def test_a_running_job_that_cannot_save_is_not_moved_and_a_waiting_one_is() -> None:
    asked = request(saves=False)
    running = FollowedJob(id="p-1", name="j", request=asked, runs=(run(),))
    waiting = replace(running, runs=(run(state=RunState.WAITING, began_s=None),))

    assert moves(view(job=running, chance=0.1, there=(choice("b"),))) == ()
    assert len(moves(view(job=waiting, chance=0.1, there=(choice("b"),)))) == 1


def test_a_job_of_a_site_that_is_gone_goes_on_elsewhere_also_if_it_cannot_save() -> None:
    gone = SiteHealth(name="a", state=SiteState.UNREACHABLE, since_s=NOW - HOUR)
    job = FollowedJob(id="p-1", name="j", request=request(saves=False), runs=(run(),))
    same_site = replace(choice("a"), queue="other")

    [move] = moves(view(job=job, health=gone, there=(same_site, choice("b"))))

    assert (move.to.choice.site, move.lost) == ("b", True)
    assert "has not answered for 60 min" in move.because
    assert moves(view(job=job, health=gone, there=(same_site,))) == ()


@pytest.mark.parametrize("since_s", [NOW - 60.0, None])
def test_a_site_that_was_just_lost_is_waited_for(since_s: float | None) -> None:
    gone = SiteHealth(name="a", state=SiteState.FAILING, since_s=since_s)

    assert moves(view(health=gone, chance=0.1, there=(choice("b"),))) == ()


@pytest.mark.parametrize("runs", [(), (run(state=RunState.ASKED),)])
def test_a_job_that_no_site_has_yet_has_no_place_to_leave(runs: tuple[SiteRun, ...]) -> None:
    job = FollowedJob(id="p-1", name="j", request=request(), runs=runs)

    assert moves(view(job=job, chance=0.1, there=(choice("b"),))) == ()


def test_a_job_that_is_over_stays_over() -> None:
    over = FollowedJob(id="p-1", name="j", request=request(), runs=(run(),), end=JobEnd.COMPLETED)

    assert moves(view(job=over, chance=0.1, there=(choice("b"),))) == ()


def test_a_job_that_was_lost_and_then_refused_is_tried_elsewhere() -> None:
    runs = (run(state=RunState.LOST), run("b", state=RunState.FAILED, job=""))
    job = FollowedJob(id="p-1", name="j", request=request(), runs=runs)

    [move] = moves(view(job=job, there=(choice("c"),)))

    assert (move.to.choice.site, move.lost, move.because) == (
        "c",
        True,
        "p-1 is at no site; c/q with 2 x A100",
    )
    assert moves(view(job=job)) == ()


def test_a_job_that_is_on_its_way_is_left_alone() -> None:
    runs = (run(state=RunState.STOPPED), run("b", state=RunState.HELD, held=True))
    job = FollowedJob(id="p-1", name="j", request=request(), runs=runs)

    assert moves(view(job=job, there=(choice("c"),))) == ()


def test_files_of_a_job_that_are_written_show_that_it_is_not_lost() -> None:
    gone = SiteHealth(name="a", state=SiteState.UNREACHABLE, since_s=NOW - HOUR)
    alive = FollowedJob(id="p-1", name="j", request=request(), runs=(run(seen_s=NOW - 60.0),))
    silent = FollowedJob(id="p-1", name="j", request=request(), runs=(run(seen_s=NOW - HOUR),))

    assert moves(view(job=alive, health=gone, there=(choice("b"),))) == ()
    assert len(moves(view(job=silent, health=gone, there=(choice("b"),)))) == 1


def test_a_job_goes_to_no_site_whose_budget_or_answer_is_missing() -> None:
    seen = view(chance=0.4, there=(choice("b", usd=10.0), choice("c", chance=0.8)))
    spent = {"b": SiteBudget(limit_usd=50.0, used_usd=45.0)}
    silent = SiteHealth(name="b", state=SiteState.STOPPED, since_s=NOW)

    assert [each.to.choice.site for each in moves(seen)] == ["b"]
    for less in (replace(seen, budgets=spent), replace(seen, sites={"b": silent})):
        assert [each.to.choice.site for each in moves(less)] == ["c"]
    enough = replace(seen, budgets={"b": SiteBudget(limit_usd=50.0, used_usd=30.0)})
    assert [each.to.choice.site for each in moves(enough)] == ["b"]


def test_a_job_without_a_plan_or_an_expectation_stays() -> None:
    seen = view(chance=0.1, there=(choice("b"),))

    assert moves(replace(seen, offers={})) == ()
    assert moves(replace(seen, expected={})) == ()


def test_a_site_that_nobody_watches_counts_as_there() -> None:
    assert moves(replace(view(there=(choice("b"),)), sites={})) == ()


def test_a_place_without_gpus_is_named_so() -> None:
    there = replace(choice("b"), way=replace(WAY, gpus=0, gpu_model=""))

    [move] = moves(view(chance=0.1, there=(there,)))

    assert move.because.endswith("b/q with no GPU")
