"""What follows what, as ribbons from the left to the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from steward.documents.html import escaped
from steward.documents.palette import colour
from steward.documents.svg import picture, text

__all__ = ["flow"]

Floats = NDArray[np.float64]
_WIDTH, _LEFT, _RIGHT, _TOP, _GAP, _BAR = 920.0, 230.0, 690.0, 10.0, 6.0, 10.0


def flow(counts: Floats, sources: Sequence[str], targets: Sequence[str], *, title: str) -> str:
    """Return the picture of `counts[source, target]`; a ribbon is as thick as its count."""
    total = float(counts.sum()) or 1.0
    rows = max(len(sources), len(targets), 1)
    height = max(180.0, 26.0 * rows)
    scale = (height - _GAP * rows) / total
    left = _tops(counts.sum(axis=1) * scale)
    right = _tops(counts.sum(axis=0) * scale)
    parts = [
        *_ribbons(counts, (left, right), scale, (sources, targets)),
        *_bars(sources, left, counts.sum(axis=1) * scale, at_left=True),
        *_bars(targets, right, counts.sum(axis=0) * scale, at_left=False),
    ]
    return picture(parts, width=_WIDTH, height=height + 2 * _TOP, title=title)


def _tops(heights: Floats) -> Floats:
    return _TOP + np.concatenate([[0.0], np.cumsum(heights + _GAP)[:-1]])


def _bars(names: Sequence[str], tops: Floats, heights: Floats, *, at_left: bool) -> Iterator[str]:
    for i, name in enumerate(names):
        x = _LEFT - _BAR if at_left else _RIGHT
        yield (
            f'<rect class="c{colour(i)}" x="{x:g}" y="{tops[i]:.1f}" width="{_BAR:g}" '
            f'height="{max(1.0, heights[i]):.1f}"/>'
        )
        beside = x - 5 if at_left else x + _BAR + 5
        anchor = "end" if at_left else "start"
        yield text(beside, tops[i] + heights[i] / 2 + 4, name, anchor=anchor, kind="name")


def _ribbons(
    counts: Floats,
    tops: tuple[Floats, Floats],
    scale: float,
    names: tuple[Sequence[str], Sequence[str]],
) -> Iterator[str]:
    left, right = tops[0].copy(), tops[1].copy()
    middle = (_LEFT + _RIGHT) / 2
    for i, j in zip(*np.nonzero(counts), strict=True):
        thick = float(counts[i, j]) * scale
        a, b = float(left[i]), float(right[j])
        left[i] += thick
        right[j] += thick
        share = counts[i, j] / counts[i].sum()
        said = f"{names[0][i]} then {names[1][j]}: {counts[i, j]:,.0f}, {share:.0%} of the first"
        yield (
            f'<path class="c{colour(int(i))}" fill-opacity=".35" d="M{_LEFT:g} {a:.1f}'
            f"C{middle:g} {a:.1f} {middle:g} {b:.1f} {_RIGHT:g} {b:.1f}v{thick:.1f}"
            f"C{middle:g} {b + thick:.1f} {middle:g} {a + thick:.1f} {_LEFT:g} {a + thick:.1f}z"
            f'"><title>{escaped(said)}</title></path>'
        )
