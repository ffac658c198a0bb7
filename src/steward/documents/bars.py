"""Named values as bars, one below the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from steward.documents.axes import axis_of
from steward.documents.palette import colour
from steward.documents.svg import picture, text

__all__ = ["bars"]

_WIDTH, _LEFT, _RIGHT, _ROW = 920.0, 260.0, 90.0, 18.0
_MOST_NAME = 40  # letters


def bars(
    names: Sequence[str],
    values: Sequence[float],
    *,
    title: str,
    kinds: Sequence[int] = (),
    write: Callable[[float], str] = "{:.3g}".format,
) -> str:
    """Return the picture; `kinds` are the places of the colours, one per bar."""
    axis = axis_of(np.array([0.0, *values]), px=(_LEFT, _WIDTH - _RIGHT))
    floor = float(axis.at(0.0))
    parts = []
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        y, end = 6 + i * _ROW, float(axis.at(value))
        kind = colour(kinds[i]) if kinds else 0
        bar = (
            f'<rect class="c{kind}" x="{min(floor, end):.1f}" y="{y:.1f}" '
            f'width="{max(0.5, abs(end - floor)):.1f}" height="{_ROW - 4:g}"/>'
        )
        short = name if len(name) <= _MOST_NAME else name[: _MOST_NAME - 1] + "…"
        parts += [
            text(_LEFT - 8, y + 12, short, anchor="end"),
            bar,
            text(max(end, floor) + 6, y + 12, write(value)),
        ]
    return picture(parts, width=_WIDTH, height=12 + len(names) * _ROW, title=title)
