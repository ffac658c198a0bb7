"""Terms without samples of a metric that they need are not evaluated, and nothing else differs."""

from __future__ import annotations

import polars as pl
import pytest

from decide.rules.metric.frames import busy, reports, watch
from steward.decide.rules.promql.parser import parse
from steward.decide.rules.promql.required_selectors import required_selectors

POWER = "gpu.power_watts"
PER_ENTITY = "steward_gpu_busy_share < 0.3 and steward_gpu_power_watts > 100"
BY_NODE = "steward_gpu_busy_share < 0.3 and on (node) steward_gpu_power_watts > 100"


@pytest.mark.parametrize(
    ("expr", "names"),
    [
        ("a > 1", "a"),
        ("a > 1 and b", "a b"),
        ("a / on (node) group_left max by (node) (b) > 0.5", "a b"),
        ("a unless b", "a"),
        ("a or b", ""),
        ("(a and c) or (b and c)", "c"),
        ("avg_over_time(a[5m]) + clamp_min(b, 1) > 1", "a b"),
        ("absent(a)", ""),
        ("absent_over_time(a[5m]) and b", "b"),
        ("vector(1) > time()", ""),
    ],
)
def test_what_an_expression_cannot_do_without_is_found(expr: str, names: str) -> None:
    found = required_selectors(parse(expr))

    assert {each.name for each in found} == set(names.split())


@pytest.mark.parametrize("expr", [PER_ENTITY, BY_NODE])
def test_a_metric_that_comes_later_counts_from_then_on(expr: str) -> None:
    term = watch(expr)
    before = term.add(busy({"n1/gpu0": [0.1] * 3}))
    both = busy({"n1/gpu0": [0.1]}, from_s=1030.0).with_columns(pl.lit(300.0).alias(POWER))

    found = term.add(both)

    assert before == []
    assert reports(found) == [("n1/gpu0", 1030.0, 1030.0)]


@pytest.mark.parametrize("expr", [PER_ENTITY, BY_NODE])
def test_samples_of_a_term_that_cannot_hold_do_not_pile_up(expr: str) -> None:
    term = watch(expr)

    for turn in range(100):
        term.add(busy({"n1/gpu0": [0.1]}, from_s=1000.0 + 10.0 * turn))

    kept = term._evaluation._buffer.columns_kept["gpu.busy_share"]  # type: ignore[attr-defined]
    assert len(kept.samples.t) < 5


def test_what_held_is_over_once_a_metric_is_gone_for_good() -> None:
    term = watch("max by (node) (steward_gpu_busy_share) < 0.3 and on () steward_host_load_1m > 1")
    term.add(busy({"n1/gpu0": [0.1]}))
    began = term.add(busy({"n2": [5.0]}, from_s=1001.0, metric="host.load_1m"))
    ended = []

    for minute in range(1, 130):  # ended series are dropped after an hour
        term.add(busy({"n1/gpu0": [0.1]}, from_s=1000.0 + 60.0 * minute))
        ended += term.ended

    assert [item.entity for item in began] == ["n1"]
    assert [each.item.entity for each in ended] == ["n1"]
    assert not term.holding()
