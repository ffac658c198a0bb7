"""A graph on a circle: what belongs together stands together, strong edges are thick."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import cos, pi, sin

from steward.documents.html import escaped
from steward.documents.palette import colour
from steward.documents.svg import picture, text

__all__ = ["network"]

_WIDTH, _HEIGHT, _RADIUS = 920.0, 640.0, 230.0
_NODE_PX = (4.0, 15.0)
_EDGE_PX = (0.6, 5.0)
_PULL = 0.35  # how far edges bend towards the centre, so that they do not cover one another


def network(
    names: Sequence[str],
    sizes: Sequence[float],
    edges: Sequence[tuple[int, int, float, str]],
    *,
    title: str,
    kinds: Sequence[int] = (),
) -> str:
    """Return the picture. An edge is (from, to, strength, what is written about it)."""
    places = [_place(i, len(names), _RADIUS) for i in range(len(names))]
    parts = [
        *_edges(edges, places),
        *_nodes(names, sizes, kinds, places),
    ]
    return picture(parts, width=_WIDTH, height=_HEIGHT, title=title)


def _place(i: int, count: int, radius: float) -> tuple[float, float]:
    angle = 2 * pi * i / max(1, count) - pi / 2
    return _WIDTH / 2 + radius * cos(angle), _HEIGHT / 2 + radius * sin(angle)


def _edges(
    edges: Sequence[tuple[int, int, float, str]], places: Sequence[tuple[float, float]]
) -> Iterator[str]:
    most = max((strength for _, _, strength, _ in edges), default=1.0) or 1.0
    for source, target, strength, said in sorted(edges, key=lambda each: each[2]):
        (x0, y0), (x1, y1) = places[source], places[target]
        x = _WIDTH / 2 + _PULL * ((x0 + x1) / 2 - _WIDTH / 2)
        y = _HEIGHT / 2 + _PULL * ((y0 + y1) / 2 - _HEIGHT / 2)
        share = max(0.0, strength / most)
        wide = _EDGE_PX[0] + (_EDGE_PX[1] - _EDGE_PX[0]) * share
        yield (
            f'<path class="edge" d="M{x0:.1f} {y0:.1f}Q{x:.1f} {y:.1f} {x1:.1f} {y1:.1f}" '
            f'stroke-width="{wide:.1f}" stroke-opacity="{0.25 + 0.6 * share:.2f}">'
            f"<title>{escaped(said)}</title></path>"
        )


def _nodes(
    names: Sequence[str],
    sizes: Sequence[float],
    kinds: Sequence[int],
    places: Sequence[tuple[float, float]],
) -> Iterator[str]:
    most = max(sizes, default=1.0) or 1.0
    for i, (name, (x, y)) in enumerate(zip(names, places, strict=True)):
        radius = _NODE_PX[0] + (_NODE_PX[1] - _NODE_PX[0]) * max(0.0, sizes[i] / most) ** 0.5
        kind = colour(kinds[i]) if kinds else 0
        yield f'<circle class="node c{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>'
        beside = x >= _WIDTH / 2
        outward = radius + 5 if beside else -radius - 5
        yield text(x + outward, y + 4, name, anchor="start" if beside else "end", kind="name")
