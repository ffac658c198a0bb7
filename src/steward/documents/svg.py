"""Pieces of SVG charts. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from steward.documents.axes import Axis
from steward.documents.html import escaped

__all__ = ["area", "line", "picture", "polygon", "stairs", "text", "x_axis", "y_axis"]

Floats = NDArray[np.float64]


def picture(parts: Iterable[str], *, width: float, height: float, title: str) -> str:
    """Return a whole picture, with a title for screen readers."""
    return "\n".join(
        [
            f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escaped(title)}">',
            f"<title>{escaped(title)}</title>",
            *parts,
            "</svg>",
        ]
    )


def text(x: float, y: float, said: object, *, anchor: str = "start", kind: str = "") -> str:
    """Return text at a place."""
    mark = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{mark}>{escaped(said)}</text>'


def line(x: Floats, y: Floats, *, kind: str) -> str:
    """Return a line through points."""
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return f'<polyline class="{kind}" points="{points}"/>'


def polygon(x: Floats, y: Floats, *, kind: str) -> str:
    """Return the area inside a line through points."""
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return f'<polygon class="{kind}" points="{points}"/>'


def stairs(x_edges: Floats, y: Floats, *, kind: str) -> str:
    """Return a line that holds each value from one edge to the next."""
    return line(np.repeat(x_edges, 2)[1:-1], np.repeat(y, 2), kind=kind)


def area(x_edges: Floats, y: Floats, floor_px: float, *, kind: str) -> str:
    """Return the area between a floor and values that hold from one edge to the next."""
    across = np.concatenate([x_edges[:1], np.repeat(x_edges, 2)[1:-1], x_edges[-1:]])
    up = np.concatenate([[floor_px], np.repeat(y, 2), [floor_px]])
    return polygon(across, up, kind=kind)


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
