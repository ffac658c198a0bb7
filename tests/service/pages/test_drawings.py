from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import decision, job, outcome, receipt, view
from service.house import AND_CHECKED_S, LONG_ENOUGH_S, House, MakeHouse
from steward.model.decision import Autonomy, Choice, DecisionState
from steward.model.outcome import Assumptions, Story
from steward.service.cluster_snapshot import cluster_snapshot
from steward.service.pages.charts import savings_series, use_series
from steward.service.pages.cluster import key_figures
from steward.service.pages.drawings import (
    faults,
    news,
    queue_table,
    sparkline,
    state_chip,
    tenant_bars,
)
from steward.service.pages.explanation import promised_and_measured, timeline
from steward.service.pages.heat_map import cells_of, gpu_detail, legend
from steward.service.pages.savings import assumption_table, saved_figures
from steward.service.pages.wording import STATE_WORDS

MANY = st.lists(st.one_of(st.none(), st.floats(0, 1e9)), max_size=60)


def test_the_queue_names_who_waits_and_counts_those_behind() -> None:
    shown = cluster_snapshot(view(jobs=[job(f"j{n}", submit_s=float(n)) for n in range(13)]))

    table = queue_table(shown)

    assert table.count("<tr>") == 11
    assert "and 3 more jobs behind them" in table


def test_an_empty_queue_says_what_would_stand_there() -> None:
    assert "Nobody waits" in queue_table(cluster_snapshot(view()))


def test_a_job_cannot_write_on_the_page_by_its_name() -> None:
    shown = cluster_snapshot(view(jobs=[job("<img src=x onerror=alert(1)>")]))

    assert "<img" not in queue_table(shown)


def test_a_tenants_bar_says_in_words_what_it_shows() -> None:
    bars = tenant_bars(cluster_snapshot(view(jobs=[job("j1", on=["n1/gpu0"])])))

    said = "a: 1 held, 0 borrowed, 0 waited for, 0 guaranteed, fair share 1.0"
    assert f'aria-label="{said}"' in bars


@given(MANY)
def test_a_curve_is_drawn_inside_its_frame_whatever_the_samples(values: list[float | None]) -> None:
    drawn = sparkline(tuple(values), "busy")

    assert "nan" not in drawn
    points = [part.split('"')[0] for part in drawn.split('points="')[1:]]
    for at in (pair.split(",") for line in points for pair in line.split()):
        assert 0 <= float(at[0]) <= 180
        assert 0 <= float(at[1]) <= 36


def test_gaps_in_the_samples_are_gaps_in_the_curve() -> None:
    drawn = sparkline((0.5, 0.6, None, 0.1, 0.2), "busy")

    assert drawn.count("<polyline") == 2


@pytest.mark.parametrize("state", DecisionState)
def test_every_state_has_a_word_of_its_own(state: DecisionState) -> None:
    assert STATE_WORDS[state] in state_chip(state)
    assert len(set(STATE_WORDS.values())) == len(DecisionState)


def test_the_key_figures_add_up(asking_house: House) -> None:
    figures = key_figures(asking_house.live_state.refresh())

    for said in ("of 2", "for 1 GPU<", "approve", "closed", "by jobs that rest"):
        assert said in figures


def test_the_newest_decisions_lead_to_their_explanation(asking_house: House) -> None:
    lines = news(asking_house.live_state.refresh())

    assert f'href="/decisions/{asking_house.only_decision()}"' in lines
    assert "Lend 1 GPU of job j1 to job j2" in lines


def test_a_fault_of_the_last_turn_is_shown_and_goes_when_it_is_over(make_house: MakeHouse) -> None:
    house = make_house(run_s=50)
    house.world.collect_fault = OSError("the driver is gone")
    house.turn(10)
    during = faults(house.live_state.refresh())

    house.world.collect_fault = None
    house.turn(10)
    after = faults(house.live_state.refresh())

    assert "the driver is gone" in during
    assert after == ""


def test_a_timeline_tells_everything_in_order() -> None:
    made = decision("d-1", t_s=10.0)
    story = Story(
        decision=made,
        choices=(Choice(decision=made.id, t_s=12.0, choice="approve", user="olga", note="go"),),
        receipts=(receipt(made, t_s=20.0),),
        outcomes=(outcome(made.id, t_s=620.0),),
    )

    told = timeline(story)

    order = [told.index(word) for word in ("Decided", "olga", "Carried out", "0.08 GPU-h gained")]
    assert order == sorted(order)


def test_what_was_promised_stands_beside_what_was_measured() -> None:
    made = decision("d-1")
    before = promised_and_measured(Story(decision=made))
    after = promised_and_measured(
        Story(decision=made, receipts=(receipt(made),), outcomes=(outcome(made.id),))
    )

    assert "First check 10 min" in before
    assert "Measured so far" in after


def test_a_cell_shows_state_heat_owner_and_borrower() -> None:
    shown = cluster_snapshot(
        view(jobs=[job("j1", on=["n1/gpu0"])], busy={"n1/gpu0": 0.41, "n1/gpu1": 0.0})
    )

    assert cells_of(shown.nodes[0], {"a": 0, "b": 1}) == [("busy", 3, 0, -1), ("free", 0, -1, -1)]


def test_the_legend_explains_every_mark_and_every_tenant() -> None:
    said = legend(["bio", "nlp"])

    for word in ("held but idle", "lent", "free", "unknown", "failed", "bio", "nlp"):
        assert word in said


def test_a_gpu_is_told_in_one_line(make_house: MakeHouse) -> None:
    house = make_house(run_s=LONG_ENOUGH_S, autonomy=Autonomy.AUTO)

    (lent, _) = house.live_state.refresh().cluster.gpus

    detail = gpu_detail(lent)
    assert "held by job j1 of a" in detail
    assert "lent to job j2" in detail
    assert f'href="/decisions/{house.only_decision()}"' in detail


def test_the_charts_end_now_and_hold_the_simulators_account(make_house: MakeHouse) -> None:
    house = make_house(run_s=AND_CHECKED_S, autonomy=Autonomy.AUTO, truth=lambda: 0.1)
    house.live_state.refresh()
    house.turn(60)

    snapshot = house.live_state.refresh()

    series = {each["name"]: each for each in savings_series(snapshot)}
    assert series["Measured"]["data"][-1][0] == 1000 * snapshot.cluster.t_s
    assert series["Simulator's own account"]["data"][-1][1] == 0.1
    layers = {each["name"]: each["data"][-1][1] for each in use_series(snapshot.history)}
    assert sum(layers.values()) == 2


def test_savings_say_what_they_rest_on_and_where_to_change_it(make_house: MakeHouse) -> None:
    house = make_house(run_s=AND_CHECKED_S, autonomy=Autonomy.AUTO)

    figures = saved_figures(house.live_state.refresh())
    table = assumption_table(Assumptions(price_per_gpu_hour=3.25))

    assert all(unit in figures for unit in ("GPU-h", "USD", "kWh", "kg CO₂", "95 %"))
    assert "3.25" in table
    assert "[savings]" in table
