"""Evaluate an expression at many times at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

import numpy as np

from steward.decide.rules.metric.kernels import Floats
from steward.decide.rules.promql.expression import (
    Aggregate,
    Binary,
    Expression,
    FunctionCall,
    Number,
    Selector,
)
from steward.decide.rules.promql.functions import OVER_RANGE, OVER_VALUES
from steward.decide.rules.promql.label_index import LabelColumn
from steward.decide.rules.promql.vectors import LabelledRows, aggregated, combined, compared

__all__ = ["LOOKBACK_NS", "SeriesSource", "evaluate"]

LOOKBACK_NS = 300 * 10**9  # lookback time, as in Prometheus

Value = LabelledRows | Floats  # numbers are of each time, or the same at all


class SeriesSource(Protocol):
    """Source of samples for the evaluator."""

    @property
    def t_s(self) -> Floats:
        """The evaluation times."""
        ...

    @property
    def nameless(self) -> LabelColumn:
        """One series without labels."""
        ...

    def newest(self, selector: Selector) -> LabelledRows:
        """Return the newest values of series at each time."""
        ...

    def past(self, selector: Selector, function: str, parameter: float) -> LabelledRows:
        """Return a function over the range before each time."""
        ...


def evaluate(expression: Expression, series: SeriesSource) -> LabelledRows:
    """Return the values of a condition at each of the times of `series`."""
    return _rows(_value(expression, series))


def _value(expression: Expression, series: SeriesSource) -> Value:
    match expression:
        case Number(value=value):
            return np.asarray(value)
        case Selector():
            return series.newest(expression)
        case Aggregate(of=of):
            return aggregated(expression, _rows(_value(of, series)))
        case FunctionCall():
            return _called(expression, series)
    return _combined(expression, series)


def _called(call: FunctionCall, series: SeriesSource) -> Value:
    if call.name in OVER_RANGE or call.name == "absent":
        return _over_range(call, series)
    if call.name == "time":
        return series.t_s
    if call.name == "vector":
        number = _numbers(_value(call.args[0], series))
        return LabelledRows(
            labels=series.nameless, values=np.broadcast_to(number, (1, len(series.t_s)))
        )
    rows = _rows(_value(call.args[0], series))
    more = [_numbers(_value(each, series)) for each in call.args[1:]]
    function: Callable[..., Floats] = OVER_VALUES[call.name]
    return rows.with_values(function(rows.values, *more))


def _over_range(call: FunctionCall, series: SeriesSource) -> LabelledRows:
    selector = next(each for each in call.args if isinstance(each, Selector))
    numbers = [each for each in call.args if not isinstance(each, Selector)]
    parameter = float(_numbers(_value(numbers[0], series))) if numbers else 0.0
    return series.past(selector, call.name, parameter)


def _combined(how: Binary, series: SeriesSource) -> Value:
    left = _value(how.left, series)
    if how.op in ("and", "unless") and np.isnan(_rows(left).values).all():
        return left  # whatever the other side is: most conditions hold nowhere
    right = _value(how.right, series)
    if isinstance(left, LabelledRows) and isinstance(right, LabelledRows):
        return combined(how, left, right)
    if isinstance(left, LabelledRows):
        number = _numbers(right)
        return left.with_values(compared(how, left.values, number, kept=left.values))
    if isinstance(right, LabelledRows):
        return right.with_values(compared(how, left, right.values, kept=right.values))
    return compared(how, left, right, kept=left)


# The types were checked when the expression was compiled.


def _rows(value: Value) -> LabelledRows:
    return cast("LabelledRows", value)


def _numbers(value: Value) -> Floats:
    return cast("Floats", value)
