"""Small pieces of SVG. All text is escaped here, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

import numpy as np
from numpy.typing import NDArray

from steward.sim.lab.report.axis import Axis

__all__ = ["area", "line", "picture", "stairs", "text", "words", "x_axis", "y_axis"]

Floats = NDArray[np.float64]
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def words(value: object) -> str:
    """Make text from elsewhere safe to show."""
    return escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value)))


def picture(parts: Iterable[str], *, width: float, height: float, title: str) -> str:
    """Return a whole picture with words for those who do not see it."""
    return "\n".join(
        [
            f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{words(title)}">',
            f"<title>{words(title)}</title>",
            *parts,
            "</svg>",
        ]
    )


def text(x: float, y: float, said: object, *, anchor: str = "start", kind: str = "") -> str:
    """Return text at a place."""
    mark = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{mark}>{words(said)}</text>'


def line(x: Floats, y: Floats, *, kind: str) -> str:
    """Return a line through points."""
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return f'<polyline class="{kind}" points="{points}"/>'


def stairs(x_edges: Floats, y: Floats, *, kind: str) -> str:
    """Return a line that holds each value from one edge to the next."""
    return line(np.repeat(x_edges, 2)[1:-1], np.repeat(y, 2), kind=kind)


def area(x_edges: Floats, y: Floats, floor_px: float, *, kind: str) -> str:
    """Return the area between a floor and values that hold from one edge to the next."""
    across, up = np.repeat(x_edges, 2)[1:-1], np.repeat(y, 2)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))
    ends = f"{x_edges[0]:.1f},{floor_px:.1f}", f"{x_edges[-1]:.1f},{floor_px:.1f}"
    return f'<polygon class="{kind}" points="{ends[0]} {points} {ends[1]}"/>'


def x_axis(
    axis: Axis, ticks: Iterable[tuple[float, str]], *, top: float, bottom: float
) -> Iterator[str]:
    """Draw values along the bottom, and thin lines up from them."""
    for value, said in ticks:
        x = float(axis.at(value))
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top:g}" y2="{bottom:g}"/>'
        last = x > axis.to_px - 24
        yield text(min(x, axis.to_px), bottom + 15, said, anchor="end" if last else "middle")


def y_axis(
    axis: Axis, ticks: Iterable[tuple[float, str]], *, left: float, right: float
) -> Iterator[str]:
    """Draw values at the left, and thin lines across from them."""
    for value, said in ticks:
        y = float(axis.at(value))
        yield f'<line class="grid" x1="{left:g}" x2="{right:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield text(left - 5, y + 4, said, anchor="end")
