from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import H200, call_back, cluster, decision, node, outcome, receipt
from steward.errors import StewardError
from steward.model.cluster import Cluster, Link, LinkKind, Node, Switch
from steward.model.decision import Autonomy, Choice, DecisionState, Ruling, Verdict
from steward.model.event import Fault
from steward.model.forecast import About, ForecastColumn
from steward.model.frame import (
    OTHER_SCHEMA,
    check_frame,
    check_other,
    empty_frame,
    path_named,
    path_part,
    steps_of,
)
from steward.model.identity import NodeId, TenantId, stable_id
from steward.model.job import JobState, Tenant
from steward.model.metric import MetricKind
from steward.model.metrics import METRICS, VOCABULARIES, aliases_from, metric
from steward.model.outcome import Assumptions, Change, Story, savings_of
from steward.model.yardstick import YARDSTICKS


def test_all_faults_of_a_cluster_are_named_at_once() -> None:
    with pytest.raises(StewardError) as caught:
        Cluster(
            id="broken",
            nodes=(node("n1"), node("n1"), Node(id=NodeId("n2"), switch="s9")),
            links=(Link(a="n1", b="n7", kind=LinkKind.ETHERNET, bytes_per_s=1e9),),
            switches=(Switch(id="s1", parent="s0"),),
        )

    for part in ("'n1' is there 2 times", "'s9'", "'n7'", "'s0'"):
        assert part in str(caught.value)


def test_a_cluster_lists_the_gpus_of_its_nodes_in_order() -> None:
    assert [gpu.id for gpu in cluster(node("a", 1), node("b", 2)).gpus] == [
        "a/gpu0",
        "b/gpu0",
        "b/gpu1",
    ]
    assert H200.generation == "hopper"


@pytest.mark.parametrize(("weight", "guaranteed"), [(0.0, 0), (1.0, -1)])
def test_a_tenant_without_weight_or_below_zero_is_refused(weight: float, guaranteed: int) -> None:
    with pytest.raises(StewardError, match="weight is"):
        Tenant(id=TenantId("x"), weight=weight, guaranteed_gpus=guaranteed)


def test_a_job_has_ended_when_it_cannot_run_again() -> None:
    assert [state.name for state in JobState if state.ended] == ["COMPLETED", "FAILED", "CANCELLED"]


def test_autonomy_levels_are_ordered() -> None:
    assert sorted(Autonomy, key=lambda level: level.rank) == [
        Autonomy.OBSERVE,
        Autonomy.ADVISE,
        Autonomy.APPROVE,
        Autonomy.AUTO,
    ]


@given(st.lists(st.text(), min_size=1, max_size=4), st.lists(st.text(), min_size=1, max_size=4))
def test_ids_are_equal_exactly_when_their_parts_are(a: list[str], b: list[str]) -> None:
    clean = [[part.replace("\x1f", "") for part in parts] for parts in (a, b)]

    assert (stable_id("x", *clean[0]) == stable_id("x", *clean[1])) == (clean[0] == clean[1])


def test_a_frame_with_wrong_columns_says_all_that_is_wrong() -> None:
    import polars as pl

    with pytest.raises(StewardError) as caught:
        check_frame(pl.DataFrame({"t_s": [1], "gpu.busy_share": ["x"]}), where="test")

    for part in ("'t_s' is Int64", "'entity' is missing", "'gpu.busy_share' is String"):
        assert part in str(caught.value)
    assert check_frame(empty_frame(), where="test").height == 0


def test_a_table_of_other_metrics_with_wrong_columns_is_told_the_right_ones() -> None:
    import polars as pl

    right = pl.DataFrame(schema=OTHER_SCHEMA)

    with pytest.raises(StewardError, match="other metrics") as caught:
        check_other(right.rename({"value": "worth"}), where="test")

    assert all(name in caught.value.hint for name in OTHER_SCHEMA)
    assert check_other(right, where="test") is right


@pytest.mark.parametrize(
    ("low", "mid", "high", "problem"),
    [
        ([1.0], [1.0, 2.0], [1.0], "1, 2, 1 rows"),
        ([2.0], [1.0], [3.0], "not ordered"),
        ([1.0], [3.0], [2.0], "not ordered"),
    ],
)
def test_forecasts_that_make_no_sense_are_refused(
    low: list[float], mid: list[float], high: list[float], problem: str
) -> None:
    with pytest.raises(StewardError, match=problem):
        ForecastColumn(
            about=About.GPUS,
            quantity="x",
            low=np.array(low),
            mid=np.array(mid),
            high=np.array(high),
            basis="test",
        )


# -- metrics -------------------------------------------------------------------------------------


def test_every_metric_is_named_once_and_ends_in_its_unit() -> None:
    endings = {
        "1": ("_share", "_bits", "_code", "_cores", "_1m", "_count", "_ratio"),
        "1/s": ("_per_s",),
        "By": ("_bytes",),
        "By/s": ("_bytes_per_s",),
        "W": ("_watts",),
        "J": ("_joules",),
        "Cel": ("_celsius",),
        "Hz": ("_hz",),
        "s": ("_seconds",),
    }
    assert len({each.name for each in METRICS}) == len(METRICS)
    for each in METRICS:
        assert each.name.endswith(endings[each.unit]), each.name


def test_every_counter_becomes_a_rate_that_exists() -> None:
    counters = [each for each in METRICS if each.kind is MetricKind.COUNTER]
    assert counters
    for each in counters:
        assert metric(each.rate).kind is MetricKind.GAUGE


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_each_foreign_name_means_one_metric_and_there_is_a_way_back(vocabulary: str) -> None:
    table = aliases_from(vocabulary)
    assert table
    for name, (meant, alias) in table.items():
        assert alias.name == name
        assert alias.vocabulary == vocabulary
        assert metric(meant.name) is meant
        assert alias.scale > 0


def test_both_spellings_of_a_dcgm_field_mean_the_same() -> None:
    table = aliases_from("dcgm")
    old, old_alias = table["DCGM_FI_DEV_GPU_UTIL"]
    new, new_alias = table["DCGM_FI_DEV_GPU_UTIL_RATIO"]

    assert old is new
    assert (old_alias.field_id, new_alias.field_id) == (203, 1613)  # another unit, another field
    assert (old_alias.scale, new_alias.scale) == (0.01, 1.0)


def test_unknown_names_are_answered_with_near_ones() -> None:
    with pytest.raises(StewardError) as unknown_metric:
        metric("gpu.bussy_share")
    with pytest.raises(StewardError) as unknown_vocabulary:
        aliases_from("dgcm")

    assert "gpu.busy_share" in unknown_metric.value.hint
    assert "dcgm" in unknown_vocabulary.value.hint


# -- stories and savings ---------------------------------------------------------------------------


def said(choice: str) -> Choice:
    return Choice(decision=decision().id, t_s=0.0, choice=choice, user="ada")  # type: ignore[arg-type]


def change(*, met: bool | None) -> Change:
    return Change(expr="x", before=None, after=None, by=None, met=met)


def ruled(ruling: Ruling) -> Verdict:
    return Verdict(decision=decision().id, t_s=0.0, ruling=ruling, why="")


@pytest.mark.parametrize(
    ("story", "state"),
    [
        (Story(decision=decision()), DecisionState.HELD),
        (Story(decision=decision(), verdicts=(ruled(Ruling.ADVISE),)), DecisionState.ADVISED),
        (Story(decision=decision(), verdicts=(ruled(Ruling.ASK),)), DecisionState.WAITING),
        (Story(decision=decision(), verdicts=(ruled(Ruling.GO),)), DecisionState.APPROVED),
        (Story(decision=decision(), verdicts=(ruled(Ruling.HOLD),)), DecisionState.HELD),
        (Story(decision=decision(), verdicts=(ruled(Ruling.EXPIRE),)), DecisionState.EXPIRED),
        (Story(decision=decision(), choices=(said("approve"),)), DecisionState.APPROVED),
        (Story(decision=decision(), choices=(said("reject"),)), DecisionState.REJECTED),
        (Story(decision=decision(), receipts=(receipt(decision()),)), DecisionState.ACTIVE),
        (
            Story(decision=decision(), receipts=(receipt(decision(), result="failed"),)),
            DecisionState.FAILED,
        ),
        (
            Story(decision=call_back(decision()), receipts=(receipt(call_back(decision())),)),
            DecisionState.DONE,
        ),
        (
            Story(
                decision=decision(),
                receipts=(receipt(decision()),),
                outcomes=(outcome(final=True),),
            ),
            DecisionState.DONE,
        ),
        (
            Story(
                decision=decision(),
                receipts=(receipt(decision()),),
                choices=(said("undo"),),
                outcomes=(outcome(final=True),),
                undo_state=DecisionState.DONE,
            ),
            DecisionState.UNDONE,
        ),
        *(
            (
                Story(
                    decision=decision(),
                    receipts=(receipt(decision()),),
                    choices=(said("undo"),),
                    outcomes=(outcome(final=True),),
                    undo_state=undo_state,
                ),
                DecisionState.DONE,
            )
            for undo_state in (None, DecisionState.EXPIRED, DecisionState.REJECTED)
        ),
    ],
)
def test_the_state_of_a_decision_follows_from_its_story(story: Story, state: DecisionState) -> None:
    assert story.state is state


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"gained": 150.0}, 0.5),
        ({"gained": 900.0}, 1.0),
        ({"gained": -50.0}, 0.0),
        ({"expected": 0.0}, None),
        ({"effect": change(met=True)}, 1.0),
        ({"effect": change(met=False)}, 0.0),
        ({"effect": change(met=None)}, None),
    ],
    ids=[
        "half of what was promised",
        "more than was promised",
        "worse than doing nothing",
        "nothing was promised",
        "a rule's promise was met",
        "a rule's promise was not met",
        "it is not known whether a rule's promise was met",
    ],
)
def test_how_much_of_a_promise_was_kept(changes: dict[str, Any], kept: float | None) -> None:
    assert outcome(**changes).kept_share == kept


@pytest.mark.parametrize("name", YARDSTICKS)
def test_an_outcome_is_compared_as_its_yardstick_says(name: str) -> None:
    assert outcome(yardstick=name).comparison is YARDSTICKS[name].comparison


def test_what_a_story_gained_is_the_sum_of_its_outcomes() -> None:
    story = Story(decision=decision(), outcomes=(outcome(gained=100.0), outcome(gained=-30.0)))

    assert story.gained == 70.0


def test_savings_are_hours_times_price_and_the_idle_floor_of_power() -> None:
    assumed = Assumptions(
        price_per_gpu_hour=2.0,
        host_watts_per_gpu=120.0,
        power_usage_effectiveness=1.5,
        co2_kg_per_kwh=0.5,
    )

    saved = savings_of([outcome(gained=3600.0, idle_watts=80.0)], assumed)

    assert saved.gpu_hours.mid == pytest.approx(1.0)
    assert saved.cost.mid == pytest.approx(2.0)
    assert saved.energy_kwh.mid == pytest.approx((80 + 120) * 1.5 / 1000)
    assert saved.co2_kg.mid == pytest.approx(0.15)
    assert saved.gpu_hours.low == pytest.approx(1 - 30 / 3600)


@given(st.lists(st.floats(-1e6, 1e6), max_size=20))
def test_savings_lie_inside_their_interval_and_errors_add_as_squares(gains: list[float]) -> None:
    outcomes = [outcome(f"d-{i}", gained=gain) for i, gain in enumerate(gains)]

    saved = savings_of(outcomes, Assumptions())

    assert saved.gpu_hours.low <= saved.gpu_hours.mid <= saved.gpu_hours.high
    half = (saved.gpu_hours.high - saved.gpu_hours.low) / 2 * 3600
    assert half == pytest.approx(30 * len(gains) ** 0.5, abs=1e-6)
    assert saved.decisions == saved.outcomes == len(gains)


def test_a_fault_is_kept_with_its_hint() -> None:
    assert Fault(t_s=1.0, where="x", problem="p", hint="h").event().text == "p (h)"
    assert Fault(t_s=1.0, where="x", problem="p").event().text == "p"


@given(st.text(), st.sampled_from(["", "@812"]))
def test_a_part_named_by_a_path_is_one_step_below_its_node(name: str, job: str) -> None:
    part = path_part("fs", f"/{name}")

    assert steps_of(f"n01/{part}{job}") == ["n01", part]
    assert path_named(part.removeprefix("fs:")) == f"/{name}"


def test_a_path_that_is_no_text_can_still_be_part_of_a_name() -> None:
    assert path_part("fs", "/caf\udce9") == "fs:/caf%E9"
