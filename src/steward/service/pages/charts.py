"""Options for the charts. Their colours are seen well on light and on dark ground."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from steward.model.cluster_snapshot import GpuState
from steward.model.frame import T_S, Frame
from steward.service.live_state import GpuUsage, StateSnapshot
from steward.service.pages.wording import GPU_WORDS
from steward.store.journal_summary import CurvePoint

__all__ = [
    "GREY",
    "HUES",
    "line_chart",
    "sample_chart",
    "savings_chart",
    "savings_series",
    "use_chart",
    "use_series",
]

GREY = "#8492a6"
GAP_STEPS = 5.0  # of the usual time between two points, beyond which a line is broken
GRID = "rgba(132, 146, 166, 0.22)"
TEAL = "#14a394"
BLUE = "#4f86f7"
HUES = (TEAL, BLUE, "#d98e1f", "#b07be0", "#e0709a", "#6aa84f", "#5bb7d6", "#c0843f")
LAYERS = (
    (GpuState.BUSY, TEAL, 0.85),
    (GpuState.LENT, BLUE, 0.8),
    (GpuState.IDLE, "#d98e1f", 0.75),
    (GpuState.FREE, GREY, 0.2),
    (GpuState.UNKNOWN, GREY, 0.5),
    (GpuState.FAILED, "#c9433a", 0.8),
)
BAND = "95 % interval"
MEASURED = "Measured"
TRUTH = "Simulator's own account"
# The band is drawn as an invisible line and the height above it, useless in a tooltip.
TOOLTIP = f"""(items) => items.filter((item) => item.seriesName && item.seriesName !== '{BAND}')
  .map((item) => `${{item.marker}} ${{item.seriesName}}: <b>${{item.value[1]}}</b>`).join('<br>')"""


def savings_chart() -> dict[str, Any]:
    """Return the chart of GPU-hours without any figures yet."""
    options = line_chart()
    options["legend"]["data"] = [MEASURED, TRUTH]
    options["tooltip"][":formatter"] = TOOLTIP
    return options


def savings_series(snapshot: StateSnapshot) -> list[dict[str, Any]]:
    """Return the measured line with its band, and in a demo the simulator's own line."""
    curve = snapshot.curve
    height = [[1000 * each.t_s, round(each.high - each.low, 3)] for each in curve]
    band: dict[str, Any] = {"type": "line", "stack": "band", "symbol": "none"}
    band["lineStyle"] = {"opacity": 0}
    shade = {"color": TEAL, "opacity": 0.18}
    series: list[dict[str, Any]] = [
        {**band, "name": "", "data": _points(curve, "low")},
        {**band, "name": BAND, "data": height, "areaStyle": shade, "color": TEAL},
        _line(MEASURED, _points(curve, "mid"), color=TEAL),
    ]
    if snapshot.truth_curve:
        own = _line(TRUTH, _points(snapshot.truth_curve, "mid"), color=BLUE)
        own["lineStyle"] = {"type": "dashed", "width": 2}
        series.append(own)
    return series


def use_chart() -> dict[str, Any]:
    """Return the chart of what GPUs are used for, without any figures yet."""
    return line_chart()


def use_series(history: tuple[GpuUsage, ...]) -> list[dict[str, Any]]:
    """Return one layer per state, so that all layers together are the cluster; gaps stay gaps."""
    gaps = _gaps([use.t_s for use in history])
    return [
        {
            "type": "line",
            "name": GPU_WORDS[state],
            "stack": "gpus",
            "symbol": "none",
            "color": color,
            "lineStyle": {"width": 1},
            "areaStyle": {"opacity": opacity},
            "data": sorted(
                [*([1000 * use.t_s, use.states.get(state, 0)] for use in history), *gaps],
                key=lambda point: point[0],
            ),
        }
        for state, color, opacity in LAYERS
        if any(state in use.states for use in history)
    ]


def _gaps(times_s: Sequence[float]) -> list[list[float | None]]:
    """Return a point without a value for each gap: a chart breaks its lines there."""
    steps = [after - before for before, after in pairwise(times_s)]
    if not steps:
        return []
    longest_s = GAP_STEPS * median(steps)
    return [
        [1000 * (before + step / 2), None]
        for before, step in zip(times_s, steps, strict=False)
        if step > longest_s
    ]


def sample_chart(metric: str, series: Mapping[str, Frame], *, decided_s: float) -> dict[str, Any]:
    """Return the chart of what a decision rests on, with the moment it was made."""
    options = line_chart()
    options["series"] = [
        _line(entity, _rows(frame, metric), color=HUES[at % len(HUES)])
        for at, (entity, frame) in enumerate(series.items())
    ]
    if metric.endswith("_share"):
        options["yAxis"]["max"] = 1
    for first in options["series"][:1]:
        first["markLine"] = {
            "symbol": "none",
            "silent": True,
            "label": {"formatter": "decided", "color": GREY, "position": "insideEndTop"},
            "lineStyle": {"color": GREY},
            "data": [{"xAxis": 1000 * decided_s}],
        }
    return options


def line_chart() -> dict[str, Any]:
    """Return a chart over time without any series yet."""
    text = {"color": GREY, "fontSize": 12}
    return {
        "animation": False,
        "useUTC": True,
        "textStyle": {"fontFamily": "Roboto, system-ui, sans-serif"},
        "grid": {"left": 8, "right": 20, "top": 38, "bottom": 8, "containLabel": True},
        "tooltip": {"trigger": "axis", "confine": True},
        "legend": {
            "type": "scroll",
            "top": 0,
            "left": 0,
            "itemWidth": 14,
            "itemHeight": 8,
            "textStyle": text,
            "icon": "roundRect",
        },
        "xAxis": {
            "type": "time",
            "axisLabel": {**text, "hideOverlap": True},
            "axisLine": {"lineStyle": {"color": GRID}},
        },
        "yAxis": {
            "type": "value",
            "axisLabel": text,
            "splitLine": {"lineStyle": {"color": GRID}},
        },
        "series": [],
    }


def _line(name: str, data: list[list[float | None]], *, color: str) -> dict[str, Any]:
    return {
        "type": "line",
        "name": name,
        "data": data,
        "symbol": "none",
        "color": color,
        "lineStyle": {"width": 2},
    }


def _points(points: tuple[CurvePoint, ...], bound: str) -> list[list[float | None]]:
    return [[1000 * point.t_s, round(getattr(point, bound), 3)] for point in points]


def _rows(frame: Frame, metric: str) -> list[list[float | None]]:
    if metric not in frame.columns:
        return []
    pairs = zip(frame[T_S].to_list(), frame[metric].to_list(), strict=True)
    return [[1000 * t_s, value] for t_s, value in pairs]
