"""SVG chart of a series, with the stretch in which a rule fired."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from steward.cli.views.chart import time_labels
from steward.cli.words import short_number
from steward.documents import Axis, escaped
from steward.documents.svg import line, picture, text, y_axis

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from steward.inspection.series.curves import EvidenceCurve

__all__ = ["drawing"]

_WIDTH, _HEIGHT = 720, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 22, 24
_GAP_STEPS = 5.0  # multiples of the usual sample interval beyond which the line is broken


def drawing(curve: EvidenceCurve) -> str:
    """Return an SVG, or a sentence for a series without numbers."""
    t_s, values = np.asarray(curve.t_s, np.float64), np.asarray(curve.values, np.float64)
    known = np.isfinite(t_s) & np.isfinite(values)
    points = list(zip(t_s[known].tolist(), values[known].tolist(), strict=True))
    title = f"{curve.metric} of {curve.entity}"
    if not points:
        return f"<p>There is nothing to draw of {escaped(title)}.</p>"
    x, y = _axes(points)
    left, right = (float(x.at(each)) for each in (curve.from_s, curve.to_s))
    ticks = [(value, short_number(value)) for value in y.ticks(about=3)]
    parts = [
        _box(left, max(right - left, 1.5)),
        *y_axis(y, ticks, left=_LEFT, right=_WIDTH - _RIGHT),
        *time_labels(x, y=_HEIGHT - 6, count=3, seconds=True),
        *(line(*_placed(part, x, y), kind="line") for part in _unbroken(points)),
        text(_LEFT, 14, f"{title} (shaded: what fired)"),
    ]
    return picture(parts, width=_WIDTH, height=_HEIGHT, title=title)


def _box(left: float, width: float) -> str:
    height = _HEIGHT - _TOP - _BOTTOM
    place = f'x="{left:.1f}" y="{_TOP}" width="{width:.1f}" height="{height}"'
    return f'<rect class="fired" {place}/>'


def _axes(points: Sequence[tuple[float, float]]) -> tuple[Axis, Axis]:
    begin, end = points[0][0], points[-1][0]
    low, high = min(v for _, v in points), max(v for _, v in points)
    low = min(low, 0.0) if low < high / 2 or low == high else low
    return (
        Axis(
            low=begin, high=end if end > begin else begin + 1, from_px=_LEFT, to_px=_WIDTH - _RIGHT
        ),
        Axis(low=low, high=high if high > low else low + 1, from_px=_HEIGHT - _BOTTOM, to_px=_TOP),
    )


def _placed(
    part: Sequence[tuple[float, float]], x: Axis, y: Axis
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    t_s, values = np.array(part).T
    return x.at(t_s), y.at(values)


def _unbroken(points: Sequence[tuple[float, float]]) -> Iterator[list[tuple[float, float]]]:
    """Yield the parts of a series between gaps: a line across a gap would be misleading."""
    gaps = sorted(after[0] - before[0] for before, after in pairwise(points))
    usual_s = gaps[len(gaps) // 2] if gaps else 0.0
    part: list[tuple[float, float]] = []
    for point in points:
        if part and point[0] - part[-1][0] > usual_s * _GAP_STEPS:
            yield part
            part = []
        part.append(point)
    yield part
