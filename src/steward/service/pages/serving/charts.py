"""Charts of a gateway: predicted against observed waits, and promises kept over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steward.model.serving.gateway_snapshot import WaitFigures
from steward.service.pages.charts import GREY, HUES, line_chart
from steward.service.serving_state import KeptPoint, kept_shares

__all__ = ["class_colours", "kept_chart", "kept_series", "wait_chart", "wait_series"]

LEAST_S = 0.001  # logarithmic axes have no 0
BEYOND = "beyond the bound"
BOUND = "90 % bound"
RED = "#c9433a"


def class_colours(names: Sequence[str]) -> dict[str, str]:
    """Give each class one colour, by the order in which the gateway lists them."""
    return {name: HUES[at % len(HUES)] for at, name in enumerate(dict.fromkeys(names))}


def kept_chart() -> dict[str, Any]:
    """Return the chart of promises kept, without figures yet."""
    options = line_chart()
    options["yAxis"] |= {"min": 0, "max": 1}
    return options


def kept_series(points: Sequence[KeptPoint], colours: dict[str, str]) -> list[dict[str, Any]]:
    """Return one line per class; where nothing ended there is a gap."""
    return [
        {
            "type": "line",
            "name": name,
            "symbol": "circle",
            "symbolSize": 3,
            "color": colours.get(name, GREY),
            "lineStyle": {"width": 2},
            "data": [
                [1000 * t_s, None if share is None else round(share, 4)] for t_s, share in shares
            ],
        }
        for name, shares in kept_shares(points).items()
        if any(share is not None for _, share in shares)
    ]


def wait_chart() -> dict[str, Any]:
    """Return the chart of predicted against observed waits, without figures yet."""
    options = line_chart()
    options["tooltip"] = {"trigger": "item", "confine": True, "renderMode": "richText"}
    options["grid"] |= {"bottom": 26, "left": 26}
    for key, name, gap in (("xAxis", "predicted (s)", 26), ("yAxis", "observed (s)", 40)):
        axis = {**options[key], "type": "log", "name": name, "nameLocation": "middle"}
        axis["nameTextStyle"] = {"color": GREY, "fontSize": 12}
        axis["nameGap"] = gap
        axis["splitLine"] = options["yAxis"]["splitLine"]
        options[key] = axis
    return options


def wait_series(waits: Sequence[WaitFigures], colours: dict[str, str]) -> list[dict[str, Any]]:
    """Return a cloud of points per class, their bounds, and the line where both are equal."""
    if not waits:
        return []
    names = dict.fromkeys(each.deadline_class for each in waits)
    within = [each for each in waits if not _beyond(each)]
    clouds = [
        _cloud(name, [each for each in within if each.deadline_class == name], colours)
        for name in names
    ]
    bounds = [[_log(each.expected_s), _log(each.bound_s)] for each in waits if each.bound_s]
    beyond = [_point(each) for each in waits if _beyond(each)]
    return [
        _equal_line(waits),
        {
            "type": "scatter",
            "name": BOUND,
            "data": bounds,
            "symbol": "rect",
            "symbolSize": [9, 2],
            "color": GREY,
            "itemStyle": {"opacity": 0.7},
            "silent": True,
        },
        *(each for each in clouds if each["data"]),
        {
            "type": "scatter",
            "name": BEYOND,
            "data": beyond,
            "symbol": "diamond",
            "symbolSize": 9,
            "color": RED,
        },
    ]


def _cloud(name: str, waits: Sequence[WaitFigures], colours: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": name or "no class",
        "data": [_point(each) for each in waits],
        "symbolSize": 6,
        "color": colours.get(name, GREY),
        "itemStyle": {"opacity": 0.75},
    }


def _equal_line(waits: Sequence[WaitFigures]) -> dict[str, Any]:
    every = [_log(each.expected_s) for each in waits] + [_log(each.observed_s) for each in waits]
    ends = (min(every), max(every))
    return {
        "type": "line",
        "name": "",  # the legend leaves it out
        "data": [[each, each] for each in ends],
        "symbol": "none",
        "color": GREY,
        "lineStyle": {"type": "dashed", "width": 1},
        "silent": True,
    }


def _beyond(each: WaitFigures) -> bool:
    return each.bound_s is not None and each.observed_s > each.bound_s


def _point(each: WaitFigures) -> list[float]:
    return [_log(each.expected_s), _log(each.observed_s)]


def _log(value_s: float | None) -> float:
    return round(max(LEAST_S, value_s or 0.0), 4)
