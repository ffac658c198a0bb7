"""A matrix as a heat map: rows and columns have names, the stronger the more colour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from steward.documents.html import escaped
from steward.documents.svg import picture, text

__all__ = ["matrix"]

Floats = NDArray[np.float64]
_LETTER_PX = 7.2  # of 12 px text, at most
_MOST_NAME = 28  # letters
_FAINTEST = 0.004  # what has less colour cannot be seen: it is not drawn


def matrix(
    values: Floats,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    write: Callable[[float], str] = "{:.3g}".format,
) -> str:
    """Return the picture; values below 0 have a colour of their own, NaN stays empty."""
    names = [_short(name) for name in (*rows, *columns)]
    left = 12 + _LETTER_PX * max((len(name) for name in names[: len(rows)]), default=0)
    top = 12 + _LETTER_PX * max((len(name) for name in names[len(rows) :]), default=0)
    size = max(11.0, min(26.0, 800.0 / max(1, len(columns))))
    known = np.abs(values[np.isfinite(values)])
    most = float(known.max()) if known.size and known.max() > 0 else 1.0
    parts = [*_names(rows, columns, (left, top), size)]
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            value = float(values[i, j])
            strength = abs(value) / most
            if np.isfinite(value) and strength >= _FAINTEST:
                kind = "less" if value < 0 else "cell"
                place = f'x="{left + j * size:.1f}" y="{top + i * size:.1f}"'
                said = escaped(f"{row} with {column}: {write(value)}")
                parts.append(
                    f'<rect class="{kind}" {place} width="{size - 1:.1f}" height="{size - 1:.1f}" '
                    f'fill-opacity="{strength:.3f}"><title>{said}</title></rect>'
                )
    width, height = left + size * len(columns) + 8, top + size * len(rows) + 8
    return picture(parts, width=width, height=height, title=title)


def _names(
    rows: Sequence[str], columns: Sequence[str], corner: tuple[float, float], size: float
) -> Iterator[str]:
    left, top = corner
    for i, name in enumerate(rows):
        yield text(left - 5, top + (i + 0.5) * size + 4, _short(name), anchor="end")
    for j, name in enumerate(columns):
        x, y = left + (j + 0.5) * size + 4, top - 5
        yield (
            f'<text transform="translate({x:.1f} {y:.1f}) rotate(-90)">{escaped(_short(name))}'
            f"<title>{escaped(name)}</title></text>"
        )


def _short(name: str) -> str:
    return name if len(name) <= _MOST_NAME else name[: _MOST_NAME - 1] + "…"
