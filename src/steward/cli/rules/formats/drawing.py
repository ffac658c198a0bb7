"""SVG chart of a series, with the stretch in which a rule fired."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING

from steward.cli.output import clean
from steward.cli.views.chart import ticks
from steward.cli.words import short_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steward.inspection.series.curves import EvidenceCurve

__all__ = ["drawing"]

_WIDTH, _HEIGHT = 720, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 22, 24
_DAY_S = 86400.0
_GAP_STEPS = 5.0  # multiples of the usual sample interval beyond which the line is broken

Place = Callable[[float], float]


def drawing(curve: EvidenceCurve) -> str:
    """Return an SVG, or a sentence for a series without numbers."""
    points = [
        (t, v) for t, v in zip(curve.t_s, curve.values, strict=True) if isfinite(v) and isfinite(t)
    ]
    title = escape(clean(f"{curve.metric} of {curve.entity}"))
    if not points:
        return f"<p>There is nothing to draw of {title}.</p>"
    x, y, levels = _scales(points)
    left, right = x(max(curve.from_s, points[0][0])), x(min(curve.to_s, points[-1][0]))
    lines = [
        f'<polyline class="line" points="{" ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in part)}"/>'
        for part in _unbroken(points)
    ]
    return "\n".join(
        [
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{title}">',
            f"<title>{title}</title>",
            _box(left, max(right - left, 1.5)),
            *_grid(levels, y),
            *_times(points, x),
            *lines,
            f'<text x="{_LEFT}" y="14">{title} (shaded: what fired)</text>',
            "</svg>",
        ]
    )


def _box(left: float, width: float) -> str:
    height = _HEIGHT - _TOP - _BOTTOM
    place = f'x="{left:.1f}" y="{_TOP}" width="{width:.1f}" height="{height}"'
    return f'<rect class="fired" {place}/>'


def _scales(points: Sequence[tuple[float, float]]) -> tuple[Place, Place, list[float]]:
    begin, end = points[0][0], points[-1][0]
    wide = end - begin or 1.0
    low, high = min(v for _, v in points), max(v for _, v in points)
    low = min(low, 0.0) if low < high / 2 or low == high else low
    tall = high - low or 1.0

    def x(t: float) -> float:
        return _LEFT + (t - begin) / wide * (_WIDTH - _LEFT - _RIGHT)

    def y(v: float) -> float:
        return _HEIGHT - _BOTTOM - (v - low) / tall * (_HEIGHT - _TOP - _BOTTOM)

    return x, y, ticks(low, low + tall, about=3)


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


def _grid(levels: Sequence[float], y: Place) -> Iterator[str]:
    for value in levels:
        at = y(value)
        ends = f'x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"'
        yield f'<line class="grid" {ends}/>'
        place = f'x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end"'
        yield f"<text {place}>{short_number(value)}</text>"


def _times(points: Sequence[tuple[float, float]], x: Place) -> Iterator[str]:
    begin, end = points[0][0], points[-1][0]
    form = "%H:%M:%S" if end - begin < _DAY_S else "%d %b %H:%M"
    for at, anchor in ((begin, "start"), ((begin + end) / 2, "middle"), (end, "end")):
        words = datetime.fromtimestamp(at, tz=UTC).astimezone().strftime(form)
        yield f'<text x="{x(at):.1f}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{words}</text>'
