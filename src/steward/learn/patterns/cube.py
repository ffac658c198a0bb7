"""Counts of every itemset at once: a dense cube with one cell for each combination of levels.

A window holds at most one level of a group, so each itemset is one cell: per group a level, or
"any". One histogram over the windows and one sum along each axis give all counts exactly. Cubes of
parts add up to the cube of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.errors import StewardError
from steward.learn.patterns.baskets import ABSENT, Baskets

__all__ = ["Cube", "add_cubes", "count_cube", "cube_cells"]

Counts = NDArray[np.int32] | NDArray[np.int64]
_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cube:
    """The number of windows that hold each itemset.

    The last digit of an axis stands for "any level, or none": its place is the number of levels.
    """

    sizes: tuple[int, ...]  # levels of each group
    windows: int
    cells: Counts

    def frequent(
        self, least: int, *, longest: int | None = None
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the itemsets in at least `least` windows, and in how many; not the empty one."""
        places = np.flatnonzero(self.cells >= least)
        places = places[places != len(self.cells) - 1]
        codes, counts = self._codes(places), self.cells[places].astype(np.int64)
        if longest is None:
            return codes, counts
        short = np.count_nonzero(codes != ABSENT, axis=1) <= longest
        return codes[short], counts[short]

    def _codes(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        codes = np.empty((len(places), len(self.sizes)), np.uint8)
        for group in reversed(range(len(self.sizes))):
            places, digit = np.divmod(places, self.sizes[group] + 1)
            codes[:, group] = np.where(digit == self.sizes[group], ABSENT, digit)
        return codes


def cube_cells(sizes: tuple[int, ...]) -> int:
    """Return how many cells a cube has; each takes 4 bytes.

    >>> cube_cells((3,) * 11)
    4194304
    """
    return prod(size + 1 for size in sizes)


def count_cube(baskets: Baskets) -> Cube:
    """Return the counts of all itemsets."""
    sizes = tuple(len(names) for names in baskets.level_names)
    many = cube_cells(sizes)
    cells: Counts = np.zeros(many, np.int32)
    if len(baskets) > _LARGEST:
        cells = np.zeros(many, np.int64)
    widths = np.array(sizes, np.int64)
    if not _fill(cells, np.ascontiguousarray(baskets.levels), widths):
        raise unnamed_level(baskets)
    _sum_axes(cells, widths)
    return Cube(sizes=sizes, windows=len(baskets), cells=cells)


def add_cubes(one: Cube, other: Cube) -> Cube:
    """Return the cube of the windows of both."""
    if one.sizes != other.sizes:
        problem = f"cubes of {one.sizes} and {other.sizes} levels do not add up"
        raise StewardError(problem, where="baskets", hint="make all parts with the same cuts")
    windows = one.windows + other.windows
    cells: Counts = one.cells
    if windows > _LARGEST:
        cells = cells.astype(np.int64)
    return Cube(sizes=one.sizes, windows=windows, cells=cells + other.cells)


def unnamed_level(baskets: Baskets) -> StewardError:
    """Return what is wrong with baskets that hold a level without a name."""
    levels = baskets.levels
    for group, names in enumerate(baskets.level_names):
        column = levels[:, group]
        wrong = column[(column >= len(names)) & (column != ABSENT)]
        if len(wrong):
            problem = f"group {baskets.groups[group]} has level {wrong[0]} of {len(names)}"
            hint = f"levels count from 0; {ABSENT} means that none was measured"
            return StewardError(problem, where="baskets", hint=hint)
    return StewardError("the levels do not fit their names", where="baskets")


@njit
def _fill(cells: Counts, levels: NDArray[np.uint8], widths: NDArray[np.int64]) -> bool:
    """Count each window in `cells`; return False if a level has no name."""
    fine = True
    for w in range(levels.shape[0]):
        place = 0
        for g in range(levels.shape[1]):
            level, size = np.int64(levels[w, g]), widths[g]
            fine &= (level < size) | (level == 255)
            place = place * (size + 1) + min(level, size)
        cells[place] += 1
    return fine


@njit
def _sum_axes(cells: Counts, widths: NDArray[np.int64]) -> None:
    """Add in `cells` the levels of each axis to its "any"."""
    stride = 1
    for g in range(len(widths) - 1, -1, -1):
        size = widths[g]
        block = stride * (size + 1)
        for start in range(0, len(cells), block):
            total = cells[start + size * stride : start + block]
            for level in range(size):
                part = cells[start + level * stride : start + (level + 1) * stride]
                for i in range(stride):
                    total[i] += part[i]
        stride = block
