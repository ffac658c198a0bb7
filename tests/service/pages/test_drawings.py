from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import decision, job, outcome, receipt, view
from service.bed import AND_CHECKED_S, LONG_ENOUGH_S, START_S, MakeBed, ServiceBed
from steward.learn.rules import rule_stats
from steward.model.actions import Start
from steward.model.cluster_snapshot import GpuState, cluster_snapshot
from steward.model.decision import Autonomy, Choice, DecisionState, StandingApproval
from steward.model.identity import DecisionId, GpuId, JobId, TenantId
from steward.model.outcome import Assumptions, Story
from steward.model.yardstick import ENERGY, RETURN_TIME, RUN
from steward.service.live_state import GpuUsage
from steward.service.pages.approvals import approval_text
from steward.service.pages.charts import savings_series, use_series
from steward.service.pages.cluster import key_figures, summary_text
from steward.service.pages.decisions import ListOrder, decision_line, question
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
from steward.service.pages.wording import STATE_WORDS, outcome_text, promises_text
from steward.store.journal_summary import TrackedStory

MANY = st.lists(st.one_of(st.none(), st.floats(0, 1e9)), max_size=60)


def test_the_queue_names_who_waits_and_counts_those_behind() -> None:
    shown = cluster_snapshot(view(jobs=[job(f"j{n}", submit_s=float(n)) for n in range(13)]))

    table = queue_table(shown)

    assert table.count("<tr>") == 11
    assert "and 3 more jobs behind them" in table


def test_an_empty_queue_says_what_would_stand_there() -> None:
    assert "No jobs wait" in queue_table(cluster_snapshot(view()))


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


def test_a_circuit_breaker_that_has_tripped_is_shown_with_what_that_means(
    approval_bed: ServiceBed,
) -> None:
    snapshot = approval_bed.live_state.refresh()
    status = replace(snapshot.status, breaker="open: the last 20 brought 3 %; closes in 60 s")

    figures = key_figures(replace(snapshot, status=status))

    assert "Circuit breaker" in figures
    assert ">tripped<" in figures
    assert "actions are paused: the last 20 brought 3 %; closes in 60 s" in figures


def test_the_key_figures_add_up(approval_bed: ServiceBed) -> None:
    figures = key_figures(approval_bed.live_state.refresh())

    for said in (
        "of 2",
        "for 1 GPU<",
        "approve",
        "not tripped",
        "steward may act",
        "jobs hold them, unused",
        "mean utilisation",
    ):
        assert said in figures


def test_the_newest_decisions_lead_to_their_explanation(approval_bed: ServiceBed) -> None:
    lines = news(approval_bed.live_state.refresh())

    assert f'href="/decisions/{approval_bed.only_decision()}"' in lines
    assert "Lend 1 GPU of job j1 to job j2" in lines


def test_a_fault_of_the_last_turn_is_shown_and_goes_when_it_is_over(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=50)
    bed.world.collect_fault = OSError("the driver is gone")
    bed.turn(10)
    during = faults(bed.live_state.refresh())

    bed.world.collect_fault = None
    bed.turn(10)
    after = faults(bed.live_state.refresh())

    assert "the driver is gone" in during
    assert after == ""


def test_the_summary_names_what_was_lent_and_that_it_is_simulated(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=AND_CHECKED_S, autonomy=Autonomy.AUTO, truth=lambda: 0.1)

    text = summary_text(bed.live_state.refresh(), simulated=True)

    assert text.startswith("So far steward on a simulated cluster lent 1 idle GPU in 1 loan")


def test_the_summary_of_a_steward_that_did_nothing_counts_what_waits(
    approval_bed: ServiceBed,
) -> None:
    text = summary_text(approval_bed.live_state.refresh(), simulated=False)

    assert text.endswith(
        "has changed nothing yet: it does what you approve. 1 decision waits for approval."
    )


def test_on_a_machine_without_gpus_the_summary_says_what_stands_in_their_place(
    approval_bed: ServiceBed,
) -> None:
    snapshot = approval_bed.live_state.refresh()
    nodes = [
        replace(node, gpus=tuple(replace(gpu, model="cpu-slot") for gpu in node.gpus))
        for node in snapshot.cluster.nodes
    ]
    slots = replace(snapshot, cluster=replace(snapshot.cluster, nodes=tuple(nodes)))

    assert "CPU slots stand in their place" in summary_text(slots, simulated=False)
    assert "CPU slots" not in summary_text(snapshot, simulated=False)


def test_a_steward_that_starts_what_is_submitted_does_not_say_that_it_changes_nothing(
    make_bed: MakeBed,
) -> None:
    snapshot = make_bed(run_s=50, autonomy=Autonomy.ADVISE).live_state.refresh()

    starting = key_figures(replace(snapshot, carried_out={"start": 4}))

    assert "advises, changes nothing" in key_figures(snapshot)
    assert "starts what is submitted" in starting
    assert "changes nothing" not in starting


def test_savings_and_rules_judge_promises_by_one_measure(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=AND_CHECKED_S, autonomy=Autonomy.AUTO)
    snapshot = bed.live_state.refresh()

    (rule,) = rule_stats(each.value for each in bed.loop.journal.read(limit=1000))

    text = promises_text(told.story for told in snapshot.stories)
    assert rule.met + rule.missed == 1
    assert text == f"{rule.met} of 1 promise kept"
    assert text in key_figures(snapshot)


def test_a_waiting_decision_shows_how_long_people_have_to_answer(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=LONG_ENOUGH_S)
    live_state, story = bed.live_state, bed.live_state.story(bed.only_decision())

    until_s = live_state.answer_before_s(story)

    assert until_s is not None
    assert until_s == pytest.approx(story.decision.t_s + 4 * 3600.0)
    assert live_state.real_s(until_s) == until_s - bed.loop.view.t_s
    assert "answer within 3 h" in decision_line(story, START_S, answer_s=3.9 * 3600)
    assert "answer within" not in decision_line(story, START_S)


def test_the_question_names_the_decision_by_sentence_and_id() -> None:
    asked = question(Story(decision=decision("d-7")), "approve")

    assert "Approve this decision?" in asked
    assert "Lend 1 GPU of job j1 to job j2" in asked
    assert "<code>d-7</code>" in asked


IDS = st.lists(st.integers(0, 400).map(lambda n: DecisionId(f"d-{n}")), unique=True)


@given(st.lists(IDS, min_size=1, max_size=6))
def test_rows_that_are_shown_never_move_by_themselves(turns: list[list[DecisionId]]) -> None:
    order = ListOrder()
    order.update(turns[0])
    before = list(order.shown)

    for fitting in turns[1:]:
        order.update(fitting)

    assert order.shown == before or not before


def test_new_decisions_are_counted_and_shown_when_somebody_asks() -> None:
    order = ListOrder()
    old = [DecisionId(f"d-{n}") for n in range(30)]
    order.update(old)
    order.update([DecisionId("d-new"), *old])

    assert (order.new, order.older, len(order.shown)) == (1, 5, 25)
    order.show_older()
    assert order.shown == old
    order.begin()
    assert (order.new, order.shown[0]) == (0, "d-new")


def test_a_standing_approval_shows_what_is_left_of_it() -> None:
    approval = StandingApproval(
        id="a-1", t_s=0.0, tenant=TenantId("bio"), action="lend", until_s=9e9, gpus=8, user="ann"
    )

    text = approval_text(approval, gpus_left=3, left_s=7200.0)

    assert "lend&#x27; of bio" in text
    assert "2 h 00 min more, 3 GPUs of 8 left · by ann" in text


def test_what_was_only_begun_is_told_too() -> None:
    made = decision("d-1")

    assert "Begun" in timeline(Story(decision=made, receipts=(receipt(made, result="begun"),)))


def test_an_outcome_is_written_in_the_unit_of_its_yardstick() -> None:
    assert outcome_text(outcome(gained=3600.0)) == "1.00 GPU-h"
    assert outcome_text(outcome(gained=90.0, yardstick=RETURN_TIME)) == "90.0 s"
    assert outcome_text(outcome(gained=3.6e6, yardstick=ENERGY)) == "1.00 kWh"


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


def test_what_a_started_job_brought_is_measured_though_it_saves_nothing() -> None:
    start = Start(job=JobId("j1"), gpus=(GpuId("n1/gpu0"),))
    made = decision("d-1", action=start)
    ran = outcome(made.id, yardstick=RUN, gained=612.0)

    shown = promised_and_measured(Story(decision=made, receipts=(receipt(made),), outcomes=(ran,)))

    assert "0.17 GPU-h" in shown.partition("Measured so far")[2]


def test_the_news_of_a_started_job_claim_no_gain(make_bed: MakeBed) -> None:
    snapshot = make_bed().live_state.refresh()
    made = decision("d-1", action=Start(job=JobId("j1"), gpus=(GpuId("n1/gpu0"),)))
    story = Story(
        decision=made, receipts=(receipt(made),), outcomes=(outcome("d-1", yardstick=RUN),)
    )

    shown = news(replace(snapshot, stories=(TrackedStory.of(story, seq=1),)))

    assert "Start job j1" in shown
    assert "gained" not in shown


def test_the_chart_of_use_is_broken_where_nothing_was_seen() -> None:
    times = [0.0, 10.0, 20.0, 500.0, 510.0]
    history = tuple(GpuUsage(t_s=t_s, states={GpuState.BUSY: 2}) for t_s in times)

    (layer,) = use_series(history)

    assert [point[1] for point in layer["data"]] == [2, 2, 2, None, 2, 2]
    assert [point[0] for point in layer["data"]] == [0, 10e3, 20e3, 260e3, 500e3, 510e3]


def test_a_cell_shows_state_heat_owner_and_borrower() -> None:
    shown = cluster_snapshot(
        view(jobs=[job("j1", on=["n1/gpu0"])], busy={"n1/gpu0": 0.41, "n1/gpu1": 0.0})
    )

    assert cells_of(shown.nodes[0], {"a": 0, "b": 1}) == [("busy", 3, 0, -1), ("free", 0, -1, -1)]


def test_the_legend_explains_every_mark_and_every_tenant() -> None:
    said = legend(["bio", "nlp"])

    for word in ("held but idle", "lent", "free", "unknown", "failed", "bio", "nlp"):
        assert word in said


def test_a_gpu_is_told_in_one_line(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=LONG_ENOUGH_S, autonomy=Autonomy.AUTO)

    (lent, _) = bed.live_state.refresh().cluster.gpus

    detail = gpu_detail(lent)
    assert "held by job j1 of a" in detail
    assert "lent to job j2" in detail
    assert f'href="/decisions/{bed.only_decision()}"' in detail


def test_a_line_about_a_gpu_is_not_sent_again_each_second(make_bed: MakeBed) -> None:
    """A link that is replaced while somebody presses it leads nowhere."""
    bed = make_bed(run_s=LONG_ENOUGH_S, autonomy=Autonomy.AUTO)
    (lent, _) = bed.live_state.refresh().cluster.gpus

    said = {gpu_detail(replace(lent, idle_s=300.0 + each)) for each in range(60)}

    assert len(said) == 1


def test_the_charts_end_now_and_hold_the_simulators_account(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=AND_CHECKED_S, autonomy=Autonomy.AUTO, truth=lambda: 0.1)
    bed.live_state.refresh()
    bed.turn(60)

    snapshot = bed.live_state.refresh()

    series = {each["name"]: each for each in savings_series(snapshot)}
    assert series["Measured"]["data"][-1][0] == 1000 * snapshot.cluster.t_s
    assert series["Simulator's own account"]["data"][-1][1] == 0.1
    layers = {each["name"]: each["data"][-1][1] for each in use_series(snapshot.history)}
    assert sum(layers.values()) == 2


def test_savings_say_what_they_rest_on_and_where_to_change_it(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=AND_CHECKED_S, autonomy=Autonomy.AUTO)

    figures = saved_figures(bed.live_state.refresh())
    table = assumption_table(Assumptions(price_per_gpu_hour=3.25))

    assert all(unit in figures for unit in ("GPU-h", "USD", "kWh", "kg CO₂", "95 %"))
    assert "3.25" in table
    assert "[savings]" in table


def test_what_stopping_jobs_cost_stands_beside_what_was_saved(approval_bed: ServiceBed) -> None:
    snapshot = approval_bed.live_state.refresh()

    assert "stopping jobs cost 40.5" in key_figures(replace(snapshot, stop_cost_gpu_hours=40.5))
    assert "stopping jobs" not in key_figures(snapshot)
