"""Supported PromQL, and errors for the rest."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decide.rules.metric.frames import busy, watch
from steward.decide.rules.promql.expression import Selector
from steward.decide.rules.promql.parser import parse
from steward.errors import StewardError

B = "steward_gpu_busy_share"
WRONG = {
    "": ("where a metric, a number or '(' should be", "1 (its end)"),
    f"{B} <": ("the expression ends where a metric", ""),
    f"{B} < )": ("')' stands where a metric", ""),
    f"{B} < 0.3 for 5m": ("'for' stands where an operator or the end should be", "30 (for 5m)"),
    f"sum({B}": ("the expression ends where ',' or ')' should be", ""),
    f"sum({B} 3)": ("'3' stands where ',' or ')' should be", ""),
    f"({B}": ("the expression ends where ')' should be", ""),
    f"{B}{{node='n1'": ("where ',' or '}' should be", ""),
    f"{B}{{node 'n1'}}": ("", ""),
    f"{B}{{no": ("the expression ends where a text in quotes should be", "its end"),
    f"{B}{{node < 'n1'}}": ("'<' is none of =, !=, =~, !~", ""),
    f"{B}{{node=3}}": ("'3' stands where a text in quotes should be", ""),
    f"{B}{{'n1'}}": ("where the name of a label should be", ""),
    f"sum by node ({B})": ("'node' stands where '(' and names of labels should be", ""),
    f"{B} > $x": ("cannot be read as PromQL", "26 ($x)"),
    f"{B}{{node='n1}}": ("cannot be read as PromQL", ""),
    f"{B}[5x]": ("cannot be read as PromQL", ""),
    f"{B}[0s] > 1": ("between 1ms and 100 years", ""),
    f"avg_over_time({B}[9999y]) > 1": ("between 1ms and 100 years", ""),
    f"{B}[5]": ("'5' stands where a duration such as 5m should be", ""),
    f"{B}[5m]": ("a range is no condition", ""),
    f"{B}[5m] > 1": ("'>' takes no range", ""),
    f"sum({B}[5m])": ("'sum' takes series", ""),
    f"sum(1, {B})": ("'sum' takes one vector, and has 2 arguments", ""),
    f"topk({B})": ("'topk' takes a number and a vector, and has 1 arguments", ""),
    f"topk({B}, {B})": ("the first argument of 'topk' is a number", ""),
    f"rate({B}) > 1": ("'rate' takes a range such as x[5m], and has series", ""),
    f"round({B}, 1, 2)": ("'round' takes series or series, a number, and has", ""),
    f"time({B})": ("'time' takes nothing, and has series", ""),
    f"predict_linear({B}[5m], time())": ("takes numbers that do not change", ""),
    "3": ("no series is looked at", ""),
    "vector(3)": ("no series is looked at", ""),
    "1 > 2": ("two numbers are compared", ""),
    f"{B} and 3": ("'and' stands between series, not numbers", ""),
    f"{B} > on (node) 3": ("'on' and 'ignoring' stand between series", ""),
    f"{B} + bool {B}": ("'bool' goes with comparisons", ""),
    f"{B} > bool 3": ("with 'bool' this always holds", ""),
    f"{B} / group_left {B}": ("'group_left' needs 'on' or 'ignoring'", ""),
    f"{B} and on (node) group_right {B}": ("and no set operator", ""),
    "{node='n1'}": ("a selector needs a metric before '{'", ""),
    "'a'": ("a text as a value cannot be evaluated here", ""),
    f"absent(sum({B}))": ("'absent' takes one metric", ""),
    "steward_gpu_energy_joules > 1": ("is a counter, kept as a rate", ""),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER > 1": ("is a counter, kept as a rate", ""),
    "rate(node_cpu_seconds_total[5m]) > 1": ("needs one mode", ""),
    "steward_gpu_buzy_share > 1": ("there is no metric 'steward_gpu_buzy_share'", ""),
    "steward_zebra > 1": ("there is no metric 'steward_zebra'", ""),
    "gpu_buzy_share > 1": ("there is no metric 'gpu_buzy_share'", ""),
    f"{B}{{nod='n1'}} > 1": ("has a label 'nod'", ""),
    f"sum by (nod) ({B})": ("has a label 'nod'", ""),
    f"{B} and on (entity) {B}": ("has a label 'entity'", ""),
    f"{B}{{zebra='n1'}} > 1": ("has a label 'zebra'", ""),
    f"{B}{{node=~'('}} > 1": ("is no pattern (RE2", ""),
    f"{B}{{node=~'(?=x)'}} > 1": ("is no pattern (RE2", ""),
    f"summ({B})": ("there is no function 'summ'", ""),
    f"qwertzuiop({B})": ("there is no function 'qwertzuiop'", ""),
    "x" * 30_000: ("has 30000 characters", ""),
    "-" * 3_000 + B: ("has more than 300 words", ""),
    "(" * 290: ("more than 50 brackets are open", "character 51"),
    "(" * 50: ("the expression ends where a metric", ""),
}
ELSEWHERE = [
    f"histogram_quantile(0.9, {B})",
    f"avg_over_time({B}[5m:1m]) > 1",
    f"avg_over_time(({B} > 1)[5m:]) > 1",
    f"{B} @ 1000 > 1",
    f"{B} offset -5m > 1",
    f"sum({B}) offset 5m > 1",
    f"{B} + atan2 {B}",
    f"count_values('x', {B})",
    f"label_replace({B}, 'a', 'b', 'c', 'd')",
]


@pytest.mark.parametrize("expr", WRONG, ids=lambda expr: expr[:40])
def test_what_is_wrong_is_said_with_its_place(expr: str) -> None:
    problem, place = WRONG[expr]

    with pytest.raises(StewardError) as caught:
        watch(expr)

    assert problem in caught.value.problem
    assert place in caught.value.problem
    assert caught.value.where == "promql"


@pytest.mark.parametrize("expr", ELSEWHERE)
def test_what_only_a_prometheus_can_is_said_so(expr: str) -> None:
    with pytest.raises(StewardError, match="cannot be evaluated here") as caught:
        watch(expr)

    assert "--prometheus" in caught.value.hint


@pytest.mark.parametrize(
    ("expr", "hint"),
    [
        ("steward_gpu_buzy_share > 1", "did you mean 'steward_gpu_busy_share'?"),
        (f"summ({B})", "did you mean 'sum'?"),
        (f"{B}{{nod='n1'}} > 1", "did you mean 'node'?"),
        ("steward_gpu_energy_joules > 1", "write steward_gpu_energy_mean_watts, which is its rate"),
    ],
)
def test_a_slip_of_the_pen_has_a_hint(expr: str, hint: str) -> None:
    with pytest.raises(StewardError) as caught:
        watch(expr)

    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (f"{B} + 1 # why\n * 2", 2.5),
        (f"-{B} ^ 2", -0.25),
        (f"+{B} - -1", 1.5),
        (f"2 ^ 3 ^ 0 + 0 * {B}", 2.0),
        (f"{B} * 0x10 / 1e1", 0.8),
        (f"clamp({B}, 2, 1) or {B}", 0.5),
        (f"{B} + Inf > 0", float("inf")),
        (f"{B} + (1 > bool 2) + (2 > bool 1)", 1.5),
        (f"{B}{{node=`n1`, gpu=\"\\u0030\", entity='n\\x31/gpu\\060',}}", 0.5),
        (f'{B}{{node!="\\t\\q"}}', 0.5),
        (f'{B}{{node!="\\x1"}}', 0.5),
        (f"({B} unless host_swap_used_bytes) or (host_swap_used_bytes unless {B})", 0.5),
        (f"SUM BY (node,) ({B})", 0.5),
        (f"quantile(2, {B})", float("inf")),
        (f"quantile(-1, {B})", float("-inf")),
        (f"quantile_over_time(-1, {B}[1m])", float("-inf")),
        (f"topk(0, {B}) or {B}", 0.5),
        (f"{B} or {B}{{node='n2'}}", 0.5),
        (f"{B} or on (node) steward_gpu_power_watts", 0.5),
        (f"{B} * on () group_left () vector(time() - time() + 1)", 0.5),
    ],
)
def test_what_can_be_written_is_worth(expr: str, value: float) -> None:
    found = watch(expr).values(busy({"n1/gpu0": [0.5]}))

    assert found["value"].to_list() == [value]


def test_taken_labels_come_from_the_one_side() -> None:
    frame = pl.concat(
        [
            busy({"n1/gpu0": [0.5]}),
            busy({"n1@812": [4.0]}, metric="job.cpu.busy_cores"),
        ],
        how="diagonal",
    )

    found = watch(f"{B} * on (node) group_left (job_id) steward_job_cpu_busy_cores").add(frame)

    assert [(item.value, dict(item.extracted)) for item in found] == [
        (2.0, {"node": "n1", "gpu": "0", "job_id": "812"})
    ]
    assert found[0].entity == "n1/gpu0"


def test_results_that_agree_on_labels_are_one() -> None:
    frame = busy({"n1/gpu0": [0.5, None], "n1/gpu1": [None, 0.7]}, step_s=400.0)

    found = watch(f"{B} + on (node) {B}").values(frame)

    assert found.sort("t_s")["value"].to_list() == [1.0, 1.4]


@pytest.mark.parametrize("expr", [f"{B} / on (node) {B}", f"sum({B}) / on () {B}"])
def test_what_is_ambiguous_is_told_and_not_guessed(expr: str) -> None:
    both = watch(expr)
    frame = busy({"n1/gpu0": [0.5], "n1/gpu1": [0.5]})

    assert both.add(frame) == []
    assert both.counts.failed == 1
    assert "finds 2 series for" in both.counts.problem
    assert "group_left" in both.counts.problem


def test_nothing_to_aggregate_is_nothing() -> None:
    frame = busy({"n1/gpu0": [0.5]})

    assert watch(f"sum({B}{{node='n2'}}) > 0").add(frame) == []
    assert watch(f"topk(1, {B}{{node='n2'}}) > 0").add(frame) == []


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [B, "sum", "rate", "by", "(", ")", "[5m]", "{", "}", "node", "=", '"n1"', ",", "<",
             "0.3", "and", "on", "-", "^", "offset", "5m", "bool", "group_left", "absent", ":",
             "@", "'"]
        ),
        max_size=14,
    ).map(" ".join)
    | st.text(max_size=40)
)  # fmt: skip
def test_whatever_is_written_it_is_read_or_refused(expr: str) -> None:
    try:
        watch(expr)
    except StewardError as refused:
        assert refused.problem


def test_a_gpu_that_lags_behind_those_of_its_job_is_a_straggler() -> None:
    expr = f'{B}{{job_id!=""}} < on (job_id) group_left 0.7 * avg by (job_id) ({B})'
    frame = busy({f"n{i}/gpu0": [0.9] for i in range(4)} | {"n9/gpu0": [0.3], "n8/gpu0": [0.1]})
    jobs = pl.Series(["812"] * 5 + [None], dtype=pl.String)

    found = watch(expr).add(frame.with_columns(job_id=jobs))

    assert [(each.entity, each.extracted["job_id"]) for each in found] == [("n9/gpu0", "812")]


def test_a_deep_expression_is_read() -> None:
    assert parse("(" * 50 + B + ")" * 50) == Selector(name=B, at=50)
