"""Recorded answers of a real Prometheus about the same samples."""

from __future__ import annotations

import polars as pl
import pytest

from decide.rules.metric.made_up import EXPRESSIONS, comparable, made_up, ours, recorded

FRAME = made_up()
ANSWERS = recorded()


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_an_expression_is_worth_what_prometheus_said(expr: str) -> None:
    found = ours(expr, FRAME)

    expected = comparable(ANSWERS[expr], found, FRAME)
    assert expected
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("expr", EXPRESSIONS[::5])
def test_the_order_of_rows_does_not_matter(expr: str) -> None:
    shuffled = FRAME.sample(fraction=1.0, shuffle=True, seed=3)

    assert ours(expr, shuffled) == pytest.approx(ours(expr, FRAME))


def test_rows_without_a_name_or_a_time_change_nothing() -> None:
    broken = pl.concat(
        [
            FRAME,
            FRAME.head(3).with_columns(t_s=pl.lit(float("nan"))),
            FRAME.head(3).with_columns(t_s=pl.lit(float("inf"))),
            FRAME.head(2).with_columns(entity=pl.lit(None, pl.String)),
        ]
    )

    assert ours(EXPRESSIONS[0], broken) == ours(EXPRESSIONS[0], FRAME)
