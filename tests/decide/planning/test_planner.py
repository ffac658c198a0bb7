"""A job planned over sites: the front, why others lost, and what to change where nothing fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plans import (
    HOUR_S,
    NOW_S,
    about,
    accelerator,
    catalog_of,
    exactly,
    per_gpu,
    per_node,
    queue,
    request,
    site,
    way,
)
from steward.decide.planning.front import beaten
from steward.decide.planning.planner import plan
from steward.errors import StewardError
from steward.model.planning.catalog import (
    Basis,
    Catalog,
    CatalogSite,
    Charging,
    Engine,
    Source,
)
from steward.model.planning.outlook import Outlook
from steward.model.planning.plan import Plan, PlanRequest, Range, Way, Weights

CPU = way(gpu_model="", gpus=0, run_s=exactly(9.2 * HOUR_S), watts=exactly(0.0))
UNITS = Charging(basis=Basis.NODE_S, rate=4.0, unit="SU", usd_per_unit=None)


def why(found: Plan, place: str) -> str:
    (reason,) = (each.why for each in found.rejected if f"{each.site}/{each.queue}" == place)
    return reason


def places(found: Plan) -> list[str]:
    return [f"{each.site}/{each.queue}" for each in found.front]


def test_a_node_that_is_free_now_beats_the_ideal_one_behind_a_long_queue() -> None:
    # ResNet50 on 20,000 images for 50 epochs: 2.4 h on a GPU of Pitzer, 9.2 h on its cores.
    osc = Charging(basis=Basis.CORE_S, rate=0.003, gpu_rate=0.09)
    nodes = {"cores_per_node": 28, "charging": osc}
    pitzer = site(
        "pitzer",
        queue("gpu", gpu_model="V100", gpus_per_node=1, **nodes),
        queue("cpu", gpu_model="", gpus_per_node=0, **nodes),
        engine=Engine.SLURM,
    )
    asked = request(way(gpu_model="V100", run_s=exactly(2.4 * HOUR_S)), CPU, cores=28)
    waits = {"pitzer/gpu": exactly(26 * HOUR_S), "pitzer/cpu": exactly(0.0)}

    found = plan(asked, catalog_of(pitzer), Outlook(waits=waits))

    available, ideal = found.front
    assert (available.queue, ideal.queue) == ("cpu", "gpu")
    assert available.end_s.mid - NOW_S == pytest.approx(9.2 * HOUR_S)
    assert ideal.end_s.mid - NOW_S == pytest.approx(28.4 * HOUR_S)
    assert available.usd is not None
    assert ideal.usd is not None
    assert available.usd.mid == pytest.approx(0.7728)
    assert ideal.usd.mid == pytest.approx(0.4176)
    assert "an hour counted as $1.00" in found.why


def test_every_loser_is_told_who_beat_it_and_by_how_much() -> None:
    here, dear = site("here"), site("dear", queue(charging=per_gpu(3.0)), grams_per_kwh=800.0)

    found = plan(request(), catalog_of(here, dear))

    assert places(found) == ["here/gpu"]
    (loser,) = found.rejected
    assert loser.beaten_by == found.front[0]
    assert loser.why.startswith("here/gpu (1 x A100) costs $4.00 less and emits ")
    assert "less CO2" in loser.why
    assert "only one" in found.why


def test_a_later_end_is_a_reason_and_so_is_a_later_name() -> None:
    waits = {"slow": exactly(1800.0)}

    found = plan(request(), catalog_of(site("a"), site("b"), site("slow")), Outlook(waits=waits))

    assert "ends 30 min earlier" in why(found, "slow/gpu")
    assert why(found, "b/gpu").endswith("is as good in time, money and carbon, and comes first")


def test_free_nodes_beat_units_and_known_carbon_beats_unknown() -> None:
    free = site("free", queue(charging=Charging()))
    units = site("units", queue(charging=UNITS), grams_per_kwh=None)
    more = site("more", queue(charging=replace(UNITS, rate=5.0)), grams_per_kwh=None)

    found = plan(request(), catalog_of(free, units))
    units_only = plan(request(), catalog_of(units, more))

    assert "costs nothing and emits a known amount of CO2" in why(found, "units/gpu")
    assert "costs 2 SU less" in why(units_only, "more/gpu")
    assert units_only.front[0].usd is None
    assert units_only.front[0].units == {"SU": 8.0}
    assert any("no price in money" in note for note in units_only.front[0].notes)
    assert "its 8 SU have no price and count as nothing" in units_only.why


def test_only_queues_with_such_gpus_and_enough_of_all_are_feasible() -> None:
    names = {
        "no-gpus": queue("q", gpus_per_node=0, gpu_model=""),
        "others": queue("q", gpu_model="T4"),
        "unknown": queue("q", gpu_model=""),
        "cores": queue("q", cores_per_node=2),
        "spread": queue("q", gpus_per_node=1),
        "fits": queue("q", gpu_model="a100-80GB"),
    }
    asked = request(way(gpus=2, most_nodes=1, gpu_memory_bytes=70 * 10**9), cores=4)

    found = plan(asked, catalog_of(*(site(name, each) for name, each in names.items())))

    assert places(found) == ["fits/q"]
    assert why(found, "no-gpus/q") == "it has no GPUs, and the run time is known for A100"
    assert "it has T4 GPUs" in why(found, "others/q")
    assert "it has unknown GPUs" in why(found, "unknown/q")
    assert "2 cores" in why(found, "cores/q")
    assert "spread over 2 nodes" in why(found, "spread/q")


def test_a_gpu_without_enough_memory_is_none() -> None:
    found = plan(request(way(gpu_memory_bytes=90 * 10**9)), catalog_of(site("here")))

    assert not found.front
    assert "80 GB" in found.relax[0]


def test_a_job_without_gpus_runs_beside_gpus_but_does_not_take_whole_nodes_of_them() -> None:
    shared, whole = site("shared"), site("whole", queue(shared_nodes=False))

    found = plan(request(CPU), catalog_of(shared, whole))

    assert places(found) == ["shared/gpu"]
    assert "the run time is known for no GPUs" in why(found, "whole/gpu")


def test_a_job_past_the_limit_is_a_chain_if_it_saves_and_impossible_if_not() -> None:
    limited = catalog_of(site("here", queue(max_s=4 * HOUR_S)))
    asked = request(way(run_s=exactly(10 * HOUR_S)))

    chained = plan(replace(asked, saves=True), limited)
    refused = plan(asked, limited)

    assert chained.front[0].links == 3
    assert not refused.front
    assert "saves no checkpoints" in refused.rejected[0].why
    assert refused.relax[0] == (
        "checkpoints: with them it can run as a chain of 3 jobs at here/gpu (1 x A100)"
    )


def test_where_jobs_are_stopped_for_others_is_cheaper_later_and_less_certain() -> None:
    spot = site("spot", queue(interruptible=True, charging=per_gpu(0.3), start_s=120.0))
    asked = request(way(run_s=exactly(10 * HOUR_S)), saves=True, save_s=60.0)
    known = Outlook(interrupted_every_s={"spot": 2 * HOUR_S})

    found = plan(asked, catalog_of(site("here"), spot), known)
    guessed = plan(asked, catalog_of(spot))
    unsaved = plan(replace(asked, saves=False), catalog_of(spot))

    by_name = {each.site: each for each in found.front}
    assert by_name["spot"].interruptible
    assert by_name["spot"].end_s.high - by_name["spot"].end_s.low > 0.5 * HOUR_S
    assert by_name["spot"].end_s.mid > by_name["here"].end_s.mid
    assert "every 8 h is assumed" in guessed.front[0].notes[0]
    assert "saves no checkpoints" in unsaved.rejected[0].why
    assert unsaved.relax[0] == "checkpoints: with them it can run at spot/gpu (1 x A100)"


def test_a_job_on_several_nodes_is_stopped_more_often() -> None:
    spot = site("spot", queue(interruptible=True))
    alone, spread = (way(gpus=n, run_s=exactly(10 * HOUR_S)) for n in (4, 16))

    def end_s(one: Way) -> float:
        return plan(request(one, saves=True, save_s=60.0), catalog_of(spot)).front[0].end_s.mid

    assert end_s(spread) > end_s(alone) + 60


def test_a_job_that_would_be_stopped_all_the_time_is_not_feasible() -> None:
    spot = site("spot", queue(interruptible=True))
    outlook = Outlook(interrupted_every_s={"spot/gpu": 30.0})

    found = plan(request(saves=True), catalog_of(spot), outlook)

    assert "begin anew more than" in found.rejected[0].why


def test_waits_that_nobody_knows_are_wide_and_said_to_be_unknown() -> None:
    slurm, cloud = (site(each.value, engine=each) for each in (Engine.SLURM, Engine.CLOUD))

    unknown = plan(request(), catalog_of(slurm)).front[0]
    rented = plan(request(), catalog_of(cloud)).front[0]

    assert unknown.wait_s.high > 40 * HOUR_S
    assert unknown.notes == ("nobody knows how long jobs wait there: up to 2 d is assumed",)
    assert rented.wait_s.high < HOUR_S
    assert not rented.notes


def test_prices_of_last_year_are_named_and_less_certain() -> None:
    old = site("old", queue(source=Source(text="a page", as_of="2025-05-28")))

    found = plan(request(), catalog_of(old)).front[0]

    assert found.usd is not None
    assert found.usd.low == pytest.approx(2.0 * 0.86, rel=0.01)
    assert found.usd.high == pytest.approx(2.0 * 1.14, rel=0.01)
    assert "2025-05-28" in found.notes[0]


def test_each_link_of_a_chain_pays_the_least_that_a_job_costs() -> None:
    rule = replace(per_node(1.0), minimum_s=6 * HOUR_S)
    here = site("here", queue(max_s=4 * HOUR_S, charging=rule))

    found = plan(request(way(run_s=exactly(7 * HOUR_S)), saves=True), catalog_of(here)).front[0]

    assert found.links == 2
    assert found.usd == exactly(12.0)


def test_a_start_in_greener_hours_is_a_choice_of_its_own_within_the_deadline() -> None:
    hours = {"de": [500.0] * 6 + [100.0] * 6 + [500.0] * 12}
    here = catalog_of(site("here", region="de"))
    outlook = Outlook(grams_by_hour=hours, hours_from_s=NOW_S)

    free = plan(request(), here, outlook)
    bound = plan(request(deadline_s=NOW_S + 4 * HOUR_S), here, outlook)
    never = plan(request(may_start_later=False), here, outlook)

    now, later = free.front
    assert now.start_s == NOW_S
    assert later.start_s == NOW_S + 6 * HOUR_S
    assert now.co2_kg is not None
    assert later.co2_kg is not None
    assert later.co2_kg.mid == pytest.approx(now.co2_kg.mid / 5)
    assert [each.start_s for each in bound.front] == [NOW_S]
    assert [each.start_s for each in never.front] == [NOW_S]


def test_a_start_in_cheaper_hours_is_a_choice_and_a_greener_one_beside_it() -> None:
    here = catalog_of(site("here", region="de"))
    outlook = Outlook(
        grams_by_hour={"here": [500.0] * 4 + [400.0] * 4 + [500.0] * 16},
        price_by_hour={"de": [1.0] * 8 + [0.5] * 4 + [1.0] * 12},
        hours_from_s=NOW_S,
    )

    found = plan(request(), here, outlook)

    later = {(each.start_s - NOW_S) / HOUR_S: each for each in found.front}
    assert sorted(later) == [0.0, 4.0, 8.0]
    cheap = later[8.0].usd
    assert cheap is not None
    assert cheap.mid == pytest.approx(1.0)


def test_queues_of_one_site_share_its_hours() -> None:
    twins = site("here", queue("a"), queue("b", charging=per_gpu(0.9)), region="de")
    hours = {"de": [500.0] * 6 + [100.0] * 18}
    outlook = Outlook(grams_by_hour=hours, price_by_hour=hours, hours_from_s=NOW_S)

    found = plan(request(), catalog_of(twins), outlook)

    assert {each.queue for each in found.front} == {"b"}
    assert "costs $" in why(found, "here/a")


def test_a_start_that_is_beaten_is_not_named_where_another_start_is_on_the_front() -> None:
    here = site("here", region="de", grams_per_kwh=300.0)
    hydro = site("hydro", queue(charging=per_gpu(1.5)), grams_per_kwh=1.0)
    hours = {"de": [500.0] * 4 + [490.0] * 8}
    outlook = Outlook(grams_by_hour=hours, hours_from_s=NOW_S)
    cheaper = Outlook(
        grams_by_hour=hours, price_by_hour={"de": [1.0] * 4 + [3.0] * 8}, hours_from_s=NOW_S
    )

    found = plan(request(), catalog_of(here, hydro), outlook)
    dearer_later = plan(request(), catalog_of(here, hydro), cheaper)

    assert len([each for each in found.front if each.site == "here"]) == 2
    assert places(dearer_later).count("here/gpu") == 1
    assert not [each for each in dearer_later.rejected if each.site == "here"]


def test_the_deadline_is_kept_with_the_chance_that_was_asked() -> None:
    run_s = Range(low=HOUR_S, mid=2 * HOUR_S, high=6 * HOUR_S)
    asked = request(way(run_s=run_s), deadline_s=NOW_S + 4 * HOUR_S)

    strict = plan(asked, catalog_of(site("here")))
    lenient = plan(replace(asked, deadline_chance=0.7), catalog_of(site("here")))

    assert not strict.front
    assert "90% are asked" in strict.rejected[0].why
    assert 0.7 < (lenient.front[0].deadline_chance or 0.0) < 0.9
    later, surer = strict.relax
    assert later.startswith("a deadline ")
    assert "a chance of 8" in surer
    assert "instead of 90%" in surer


def test_with_a_deadline_the_cheapest_that_is_safe_enough_is_recommended() -> None:
    quick = site("quick", queue(charging=per_gpu(9.0)))
    cheap = site("cheap", queue(charging=per_gpu(0.5)))
    outlook = Outlook(waits={"cheap": exactly(HOUR_S)})

    found = plan(request(deadline_s=NOW_S + 4 * HOUR_S), catalog_of(quick, cheap), outlook)
    hurried = plan(request(weights=Weights(usd_per_h=100.0)), catalog_of(quick, cheap), outlook)

    assert places(found) == ["cheap/gpu", "quick/gpu"]
    assert "chance of 100%" in found.why
    assert places(hurried) == ["quick/gpu", "cheap/gpu"]


def test_what_is_over_the_budget_is_not_feasible_and_the_missing_amount_is_named() -> None:
    found = plan(request(budget_usd=1.5), catalog_of(site("here")))

    assert not found.front
    assert why(found, "here/gpu") == "it may cost $2.00, and the budget is $1.50"
    assert found.relax == (
        "$0.50 more budget, $2.00 in all: here/gpu (1 x A100) then is within it",
    )


def test_where_no_single_change_is_enough_the_least_of_two_is_named() -> None:
    asked = request(deadline_s=NOW_S + HOUR_S, budget_usd=1.0)

    found = plan(asked, catalog_of(site("here")))
    units = plan(replace(asked, budget_usd=1.0), catalog_of(site("units", queue(charging=UNITS))))

    assert found.rejected[0].why.count(" and ") >= 1
    (both,) = found.relax
    assert both.startswith("a deadline 1 h later together with $1.00 more budget: here/gpu")
    assert units.relax[0].startswith("a deadline 1 h later: units/gpu")


def test_a_deadline_that_is_past_says_how_much_later_it_has_to_be() -> None:
    found = plan(request(deadline_s=NOW_S - HOUR_S), catalog_of(site("here")))

    assert not found.front
    assert found.relax == (
        "a deadline 3 h later: here/gpu (1 x A100) then meets it with a chance of 90%",
    )


def test_another_site_is_named_where_those_that_are_allowed_do_not_do() -> None:
    slow = site("slow", queue(gpu_model="T4"))
    asked = request(sites=("slow",), deadline_s=NOW_S + 3 * HOUR_S)

    found = plan(asked, catalog_of(slow, site("here")))
    allowed = plan(replace(asked, sites=("here",)), catalog_of(slow, site("here")))

    assert found.relax[0] == "other sites: here/gpu (1 x A100) is feasible"
    assert "it has T4 GPUs" in found.relax[1]
    assert places(allowed) == ["here/gpu"]


def test_other_sites_are_not_named_where_they_would_not_do_either() -> None:
    found = plan(request(sites=("a",), budget_usd=1.0), catalog_of(site("a"), site("b")))

    assert [each.partition(",")[0] for each in found.relax] == ["$1.00 more budget"]


def test_units_without_a_price_are_within_every_budget_and_only_their_time_is_too_long() -> None:
    units = site("units", queue(charging=UNITS))
    asked = request(budget_usd=0.0, deadline_s=NOW_S + HOUR_S)

    found = plan(asked, catalog_of(units))

    assert [each.partition(":")[0] for each in found.relax] == ["a deadline 1 h later"]


def test_the_commonest_reasons_are_given_where_nothing_would_help() -> None:
    none = plan(request(), Catalog())
    many = plan(request(), catalog_of(*(site(f"s{i}", queue(gpu_model="T4")) for i in range(2))))

    assert none.relax == ("a catalogue with sites: this one has no queue",)
    assert many.relax == (
        "2 queues would do but for this: it has T4 GPUs, and the run time is known for A100",
    )


def test_a_site_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(StewardError, match="no site 'hear'") as raised:
        plan(request(sites=("hear",)), catalog_of(site("here")))

    assert raised.value.hint == "did you mean 'here'?"


HOURS = st.floats(0.2, 40.0)


@st.composite
def sites(draw: st.DrawFn) -> CatalogSite:
    rule = draw(st.sampled_from([per_gpu(1.0), per_node(3.0), UNITS, Charging()]))
    return site(
        draw(st.sampled_from("abcdef")),
        queue(
            gpu_model=draw(st.sampled_from(["A100", "T4"])),
            gpus_per_node=draw(st.sampled_from([1, 4])),
            max_s=draw(st.none() | HOURS.map(lambda each: each * HOUR_S)),
            interruptible=draw(st.booleans()),
            shared_nodes=draw(st.booleans()),
            charging=replace(rule, rate=rule.rate * draw(st.floats(0.1, 5.0))),
        ),
        engine=draw(st.sampled_from(Engine)),
        grams_per_kwh=draw(st.none() | st.floats(1.0, 900.0)),
        region=draw(st.sampled_from(["de", "fr", ""])),
    )


@st.composite
def problems(draw: st.DrawFn) -> tuple[PlanRequest, Catalog, Outlook]:
    ways = [
        way(gpu_model=model, gpus=gpus, run_s=about(draw(HOURS), factor=draw(st.floats(1.0, 3.0))))
        for model in ("A100", "T4")
        for gpus in (1, 4)
    ]
    deadline_h = draw(st.none() | HOURS)
    asked = request(
        *ways,
        deadline_s=None if deadline_h is None else NOW_S + deadline_h * HOUR_S,
        budget_usd=draw(st.none() | st.floats(0.0, 50.0)),
        saves=draw(st.booleans()),
        save_s=draw(st.floats(0.0, 300.0)),
    )
    named = draw(st.lists(sites(), max_size=4, unique_by=lambda each: each.name))
    grams = draw(st.lists(st.floats(0.0, 900.0), min_size=24, max_size=24))
    outlook = Outlook(grams_by_hour={"de": grams}, hours_from_s=NOW_S - 600.0)
    return asked, Catalog(sites=tuple(named), accelerators=(accelerator(),)), outlook


@given(problems())
def test_the_front_is_feasible_and_unbeaten_and_each_other_has_a_reason(
    problem: tuple[PlanRequest, Catalog, Outlook],
) -> None:
    asked, catalog, outlook = problem

    found = plan(asked, catalog, outlook)

    assert found == plan(asked, catalog, outlook)
    for each in found.front:
        assert not any(beaten(other, each) for other in found.front if other is not each)
        assert each.deadline_chance is None or each.deadline_chance >= asked.deadline_chance
        assert asked.budget_usd is None or each.usd is None or each.usd.high <= asked.budget_usd
        assert each.end_s.low >= each.start_s >= NOW_S
        assert each.interruptible <= asked.saves
        assert (each.links > 1) <= asked.saves
    for lost in found.rejected:
        assert lost.why
        if lost.beaten_by is not None:
            assert lost.choice is not None
            assert lost.beaten_by in found.front
            assert beaten(lost.beaten_by, lost.choice)
    assert bool(found.relax) != bool(found.front)


@given(problems(), st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_more_budget_or_more_time_never_makes_fewer_feasible(
    problem: tuple[PlanRequest, Catalog, Outlook], usd: float, more_h: float
) -> None:
    asked, catalog, outlook = problem
    budget = None if asked.budget_usd is None else asked.budget_usd + usd
    deadline = None if asked.deadline_s is None else asked.deadline_s + more_h * HOUR_S

    def feasible(one: PlanRequest) -> set[tuple[str, str, int]]:
        found = plan(one, catalog, outlook)
        kept = [*found.front, *(each.choice for each in found.rejected if each.beaten_by)]
        return {(each.site, each.way.gpu_model, each.way.gpus) for each in kept if each}

    assert feasible(asked) <= feasible(replace(asked, budget_usd=budget))
    assert feasible(asked) <= feasible(replace(asked, deadline_s=deadline))
