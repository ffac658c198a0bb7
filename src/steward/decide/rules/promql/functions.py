"""Table of functions and their parameters: `v` is a series, `r` a range, `n` a number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ABSENCE", "AGGREGATIONS", "ARGUMENTS", "ELSEWHERE", "OVER_RANGE", "OVER_VALUES", "PARAMETRIC",
]  # fmt: skip

Floats = NDArray[np.float64]

# How each is computed is in `kernels.py`, by this number.
OVER_RANGE: dict[str, int] = {
    name: number
    for number, name in enumerate(
        (
            "rate", "increase", "delta", "irate", "idelta", "deriv", "predict_linear", "changes",
            "resets", "avg_over_time", "min_over_time", "max_over_time", "sum_over_time",
            "count_over_time", "last_over_time", "present_over_time", "stddev_over_time",
            "stdvar_over_time", "quantile_over_time", "absent_over_time",
        )
    )
}  # fmt: skip
ABSENCE = ("absent", "absent_over_time")
AGGREGATIONS: dict[str, int] = {
    name: number
    for number, name in enumerate(
        ("sum", "avg", "min", "max", "count", "group", "stddev", "stdvar",
         "quantile", "topk", "bottomk")
    )
}  # fmt: skip
PARAMETRIC = ("quantile", "topk", "bottomk")


def _round(values: Floats, to: float = 1.0) -> Floats:
    inverse = 1.0 / to
    return np.asarray(np.floor(values * inverse + 0.5) / inverse)


def _clamp(values: Floats, low: float, high: float) -> Floats:
    return np.clip(values, low, high) if low <= high else np.full_like(values, np.nan)


OVER_VALUES: dict[str, Callable[..., Floats]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "sgn": np.sign,
    "exp": np.exp,
    "ln": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "round": _round,
    "clamp": _clamp,
    "clamp_min": np.maximum,
    "clamp_max": np.minimum,
}

ARGUMENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(OVER_RANGE, ("r",)),
    **dict.fromkeys(OVER_VALUES, ("v",)),
    "quantile_over_time": ("nr",),
    "predict_linear": ("rn",),
    "round": ("v", "vn"),
    "clamp": ("vnn",),
    "clamp_min": ("vn",),
    "clamp_max": ("vn",),
    "absent": ("v",),
    "vector": ("n",),
    "time": ("",),
}

# Functions of PromQL that are not supported.
ELSEWHERE = frozenset(
    [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cos",
        "cosh",
        "sin",
        "sinh",
        "tan",
        "tanh",
        "deg",
        "rad",
        "pi",
        "day_of_month",
        "day_of_week",
        "day_of_year",
        "days_in_month",
        "hour",
        "minute",
        "month",
        "year",
        "histogram_avg",
        "histogram_count",
        "histogram_fraction",
        "histogram_quantile",
        "histogram_sum",
        "holt_winters",
        "double_exponential_smoothing",
        "label_join",
        "label_replace",
        "mad_over_time",
        "scalar",
        "sort",
        "sort_desc",
        "sort_by_label",
        "timestamp",
        "count_values",
        "limitk",
        "limit_ratio",
        "info",
        "ts_of_max_over_time",
        "ts_of_min_over_time",
    ]
)
