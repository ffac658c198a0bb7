"""SVG charts over time: a growing figure with its range, and the axes that reports share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import isfinite

import numpy as np

from steward.cli.words import number
from steward.documents import Axis, axis_of
from steward.documents.svg import line, picture, polygon, text, y_axis
from steward.store.journal_summary import CurvePoint

__all__ = ["chart", "time_labels"]

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 28
DAY_S = 86400.0


def chart(points: Sequence[CurvePoint], *, title: str) -> str:
    """Return an SVG of points over time, or a sentence when there is nothing to draw yet."""
    good = [each for each in points if all(map(isfinite, (each.t_s, each.low, each.high)))]
    if not good:
        return "<p>There are no outcomes to draw yet.</p>"
    t_s, low, mid, high = np.array([(each.t_s, each.low, each.mid, each.high) for each in good]).T
    x = _time_axis(t_s[0], t_s[-1])
    y = axis_of(np.append([low, high], 0.0), px=(HEIGHT - BOTTOM, TOP))
    ticks = [(value, number(value)) for value in y.ticks()]
    there, back = x.at(t_s), x.at(t_s[::-1])
    parts = [
        *y_axis(y, ticks, left=LEFT, right=WIDTH - RIGHT),
        *time_labels(x, y=HEIGHT - 8, count=5),
        polygon(np.append(there, back), np.append(y.at(high), y.at(low[::-1])), kind="range"),
        line(there, y.at(mid), kind="line"),
        f'<circle r="4" cx="{there[-1]:.1f}" cy="{float(y.at(mid[-1])):.1f}"/>',
    ]
    return picture(parts, width=WIDTH, height=HEIGHT, title=title)


def _time_axis(from_s: float, to_s: float) -> Axis:
    begin_s = from_s if to_s > from_s else from_s - 1.0
    return Axis(low=begin_s, high=to_s, from_px=LEFT, to_px=WIDTH - RIGHT)


def time_labels(axis: Axis, *, y: float, count: int, seconds: bool = False) -> Iterator[str]:
    """Write times of day below a chart; days where it is long."""
    long = axis.high - axis.low >= (1 if seconds else 2) * DAY_S
    form = ("%d %b %H:%M" if seconds else "%d %b") if long else "%H:%M:%S" if seconds else "%H:%M"
    for i, t_s in enumerate(np.linspace(axis.low, axis.high, count).tolist()):
        label = datetime.fromtimestamp(t_s, tz=UTC).astimezone().strftime(form)
        anchor = "start" if i == 0 else "end" if i == count - 1 else "middle"
        yield text(float(axis.at(t_s)), y, label, anchor=anchor)
