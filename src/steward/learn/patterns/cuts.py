"""Where the values of a metric are cut into levels, and why there.

Terciles are cut between different values, never through ties: a value that a large share of all
windows has exactly (0, or the greatest) becomes a level of its own, and the rest is divided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.learn.patterns.sketches import Sketch

__all__ = ["LEVELS", "Cuts", "cut", "levels_of"]

LEVELS = (
    "falling",
    "zero",
    "low",
    "constant",
    "typical",
    "medium",
    "high",
    "full",
)  # in rising order
_TIE_SHARE = 1 / 3  # so many windows of one value would swallow a tercile
_LEAST_SHARE = 0.05  # of windows in a level; a rarer one is joined to its neighbour


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """A value at or above `bounds[i]` is in a level after `names[i]`."""

    names: tuple[str, ...]
    bounds: tuple[float, ...]
    shares: tuple[float, ...]  # of the windows that the cuts were learnt from
    windows: int
    why: str

    def as_record(self) -> dict[str, Any]:
        """Return what a report says."""
        return {
            "levels": list(self.names),
            "bounds": list(self.bounds),
            "shares": [round(each, 4) for each in self.shares],
            "windows": self.windows,
            "why": self.why,
        }


def cut(sketch: Sketch) -> Cuts:
    """Return where to cut a metric: three levels where ties let them, and one per large tie."""
    total = sketch.total
    if not total:
        return Cuts(names=(), bounds=(), shares=(), windows=0, why="no window has a value")
    if sketch.same:
        zero = sketch.least[0] == 0.0
        why = f"always {float(sketch.least[0]):g}: it says nothing"
        name = "zero" if zero else "constant"
        return Cuts(names=(name,), bounds=(), shares=(1.0,), windows=total, why=why)
    pieces, reasons = _ties_apart(sketch)
    found: list[tuple[str, float, int]] = []  # name, from, windows
    for name, piece in pieces:
        if name:
            found.append((name, float(piece.least[0]), piece.total))
        else:
            alone = "low" if pieces[-1][0] == "full" else "high"
            levels = 3 if len(pieces) < 3 else 2
            found += _divided(piece, parts=levels, smallest=_LEAST_SHARE * total, alone=alone)
    if len(found) == 1:
        why = f"nearly always {sketch.quantile(0.5):g}: it says nothing"
        return Cuts(names=("constant",), bounds=(), shares=(1.0,), windows=total, why=why)
    return Cuts(
        names=tuple(name for name, _, _ in found),
        bounds=tuple(start for _, start, _ in found[1:]),
        shares=tuple(count / total for _, _, count in found),
        windows=total,
        why="; ".join(reasons) or "parts of equal size",
    )


def levels_of(values: NDArray[np.float32], cuts: Cuts) -> NDArray[np.intp]:
    """Return the place of each value's level; what NaN gets means nothing."""
    bounds = np.asarray(cuts.bounds, np.float32)
    return np.searchsorted(bounds, values, side="right")


def _ties_apart(sketch: Sketch) -> tuple[list[tuple[str, Sketch]], list[str]]:
    """Split off values that very many windows have; the rest has the name ""."""
    total, reasons = sketch.total, []
    pieces: list[tuple[str, Sketch]] = []
    rest = sketch
    zero = _zero(sketch)
    if zero is not None and sketch.counts[zero] >= _TIE_SHARE * total:
        below, at = _slice(sketch, 0, zero), _slice(sketch, zero, zero + 1)
        rest = _slice(sketch, zero + 1, len(sketch.counts))
        reasons.append(f"{at.total / total:.1%} of windows are exactly 0")
        few = below.total < _LEAST_SHARE * total
        pieces += [("zero", _slice(sketch, 0, zero + 1))] if few else []
        pieces += [] if few else [("falling", below), ("zero", at)]
    tie = _tie(rest, _TIE_SHARE * total)
    if tie is None:
        return [*pieces, *([("", rest)] if len(rest.counts) else [])], reasons
    share, value = rest.counts[tie] / total, float(rest.least[tie])
    if tie == len(rest.counts) - 1:
        reasons.append(f"{share:.1%} of windows are exactly the greatest value, {value:g}")
        return [*pieces, ("", _slice(rest, 0, tie)), ("full", _slice(rest, tie, tie + 1))], reasons
    reasons.append(f"{share:.1%} of windows are exactly {value:g}")
    return [*pieces, *_around(rest, tie, _LEAST_SHARE * total)], reasons


def _around(rest: Sketch, tie: int, smallest: float) -> list[tuple[str, Sketch]]:
    """Return what is below a tie, the tie, and what is above; few on a side are joined to it."""
    start, end = tie, tie + 1
    if rest.counts[:tie].sum() < smallest:
        start = 0
    if rest.counts[end:].sum() < smallest:
        end = len(rest.counts)
    sides = [("low", 0, start), ("typical", start, end), ("high", end, len(rest.counts))]
    return [(name, _slice(rest, a, b)) for name, a, b in sides if b > a]


def _tie(sketch: Sketch, least: float) -> int | None:
    """Return where the largest tie is, unless dividing between values takes care of it."""
    if len(sketch.counts) <= 2:
        return None
    ties = np.where(sketch.least == sketch.greatest, sketch.counts, 0)
    place = int(ties.argmax())
    return place if place > 0 and ties[place] >= least else None


def _zero(sketch: Sketch) -> int | None:
    """Return the place of the bucket of exactly zero."""
    place = int(np.searchsorted(sketch.least, np.float32(0.0)))
    if place < len(sketch.least) and sketch.least[place] == sketch.greatest[place] == 0.0:
        return place
    return None


def _slice(sketch: Sketch, start: int, end: int) -> Sketch:
    return replace(
        sketch,
        counts=sketch.counts[start:end],
        least=sketch.least[start:end],
        greatest=sketch.greatest[start:end],
    )


def _divided(
    piece: Sketch, *, parts: int, smallest: float, alone: str
) -> list[tuple[str, float, int]]:
    """Divide between buckets, as evenly as ties let, into `parts` levels or fewer."""
    running = np.cumsum(piece.counts)
    total = int(running[-1])
    for count in range(parts, 1, -1):
        ideal = total * np.arange(1, count) / count
        ends = [int(np.argmin(np.abs(running - each))) for each in ideal]
        starts = sorted({0, *(end + 1 for end in ends)} - {len(running)})
        sizes = np.add.reduceat(piece.counts, starts)
        if len(starts) == count and sizes.min() >= smallest:
            names = ("low", "medium", "high") if count == 3 else ("low", "high")
            lows = [float(piece.least[start]) for start in starts]
            return list(zip(names, lows, [int(size) for size in sizes], strict=True))
    return [(alone, float(piece.least[0]), total)]
