"""Draws a growing figure with its range as SVG that needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from math import ceil, floor, isfinite, log10

from steward.cli.words import number
from steward.store.journal_summary import CurvePoint

__all__ = ["chart", "ticks"]

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 28
DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    from_s: float
    to_s: float
    low: float
    high: float

    def x(self, t_s: float) -> float:
        share = (t_s - self.from_s) / (self.to_s - self.from_s)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def chart(points: Sequence[CurvePoint], *, title: str) -> str:
    """Return an SVG of points over time, or a sentence when there is nothing to draw yet."""
    good = [each for each in points if all(map(isfinite, (each.t_s, each.low, each.high)))]
    if not good:
        return "<p>There are no outcomes to draw yet.</p>"
    scale, last = _scale(good), good[-1]
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        *_grid(scale),
        *_times(scale),
        f'<polygon class="range" points="{_range(good, scale)}"/>',
        f'<polyline class="line" points="{_line(good, scale)}"/>',
        f'<circle r="4" cx="{scale.x(last.t_s):.1f}" cy="{scale.y(last.mid):.1f}"/>',
        "</svg>",
    ]
    return "\n".join(parts)


def ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Return round numbers that divide a range into about so many parts.

    >>> ticks(0.0, 9.3)
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    rough = (high - low) / about
    if not rough > 0:  # nothing between them, or less than a number can hold
        return [low]
    size = 10.0 ** floor(log10(rough))
    step = next(size * unit for unit in (1, 2, 5, 10) if size * unit >= rough)
    first, last = ceil(low / step), floor(high / step)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _scale(points: Sequence[CurvePoint]) -> _Scale:
    from_s, to_s = points[0].t_s, points[-1].t_s
    low = min(0.0, *(each.low for each in points))
    high = max(0.0, *(each.high for each in points))
    return _Scale(
        from_s=from_s if to_s > from_s else from_s - 1.0,
        to_s=to_s,
        low=low,
        high=high if high > low else low + 1.0,
    )


def _grid(scale: _Scale) -> Iterator[str]:
    for value in ticks(scale.low, scale.high):
        y = scale.y(value)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>'


def _times(scale: _Scale) -> Iterator[str]:
    form = "%H:%M" if scale.to_s - scale.from_s < 2 * DAY_S else "%d %b"
    for i in range(5):
        t_s = scale.from_s + i * (scale.to_s - scale.from_s) / 4
        words = datetime.fromtimestamp(t_s, tz=UTC).astimezone().strftime(form)
        anchor = "start" if i == 0 else "end" if i == 4 else "middle"
        x, y = scale.x(t_s), HEIGHT - 8
        yield f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def _line(points: Sequence[CurvePoint], scale: _Scale) -> str:
    return " ".join(f"{scale.x(each.t_s):.1f},{scale.y(each.mid):.1f}" for each in points)


def _range(points: Sequence[CurvePoint], scale: _Scale) -> str:
    there = [f"{scale.x(each.t_s):.1f},{scale.y(each.high):.1f}" for each in points]
    back = [f"{scale.x(each.t_s):.1f},{scale.y(each.low):.1f}" for each in reversed(points)]
    return " ".join((*there, *back))
