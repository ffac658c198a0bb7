"""Rows of spans on one axis of time, coloured by what each span is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from steward.documents.axes import Axis
from steward.documents.html import escaped
from steward.documents.palette import colour
from steward.documents.svg import picture, text, x_axis

__all__ = ["Span", "legend", "timelines"]

Span = tuple[float, float, int]  # from and to in seconds, place of its kind
_WIDTH, _LEFT, _ROW, _TOP = 920.0, 180.0, 18.0, 8.0
_STEPS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 43_200, 86_400)
_MOST_TICKS = 10


def timelines(
    names: Sequence[str], spans: Sequence[Sequence[Span]], kinds: Sequence[str], *, title: str
) -> str:
    """Return the picture; every row begins at its own first moment."""
    long_s = max((span[1] for row in spans for span in row), default=1.0) or 1.0
    axis = Axis(low=0.0, high=long_s, from_px=_LEFT, to_px=_WIDTH - 12)
    bottom = _TOP + _ROW * len(names)
    parts = [
        *x_axis(axis, [(t, _moment(t)) for t in _ticks(long_s)], top=_TOP, bottom=bottom),
        *_rows(names, spans, kinds, axis),
    ]
    return picture(parts, width=_WIDTH, height=bottom + 24, title=title)


def legend(kinds: Sequence[str]) -> str:
    """Return what the colours are."""
    entries = (
        f'<span><i class="k{colour(i)}"></i>{escaped(name)}</span>' for i, name in enumerate(kinds)
    )
    return f'<div class="legend">{"".join(entries)}</div>'


def _rows(
    names: Sequence[str], spans: Sequence[Sequence[Span]], kinds: Sequence[str], axis: Axis
) -> Iterator[str]:
    for i, (name, row) in enumerate(zip(names, spans, strict=True)):
        y = _TOP + i * _ROW
        yield text(_LEFT - 6, y + 13, name if len(name) <= 26 else name[:25] + "…", anchor="end")
        for from_s, to_s, kind in row:
            a, b = float(axis.at(from_s)), float(axis.at(to_s))
            said = f"{name}: {kinds[kind]}, {_moment(from_s)} to {_moment(to_s)}"
            yield (
                f'<rect class="c{colour(kind)}" x="{a:.1f}" y="{y + 2:.1f}" '
                f'width="{max(0.5, b - a):.1f}" height="{_ROW - 4:g}">'
                f"<title>{escaped(said)}</title></rect>"
            )


def _ticks(long_s: float) -> list[float]:
    fits = (each for each in _STEPS_S if long_s / each <= _MOST_TICKS)
    step = float(next(fits, ceil(long_s / _MOST_TICKS / 86_400) * 86_400))
    return [i * step for i in range(int(long_s / step) + 1)]


def _moment(t_s: float) -> str:
    whole = round(t_s, 1)
    if whole >= 3600:
        return f"{whole / 3600:.3g} h"
    return f"{whole / 60:.3g} min" if whole >= 120 else f"{whole:g} s"
