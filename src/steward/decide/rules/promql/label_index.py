"""Interned label sets: the labels of rows as numbers.

Most series of an evaluation are those of the one before. So each set of labels has a number, values
derived from a set (its node, its group) are computed once for each, and joins are arithmetic on
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit

__all__ = ["DistinctLabels", "LabelColumn", "LabelIndex", "Labels"]

Labels = tuple[tuple[str, str], ...]  # by name
Longs = NDArray[np.int64]
_MOST_DERIVATIONS = 1000  # kinds of derived labels; phases have names of their own


class LabelIndex:
    """A number for each known set of labels, and the sets derived from it.

    It belongs to one engine and is not thread-safe.
    """

    def __init__(self) -> None:
        self.labels: list[Labels] = []
        self._number: dict[Labels, int] = {}
        self._made: dict[Hashable, Longs] = {}
        self._places = np.zeros(0, np.int64)
        self.nameless = self.names([()])  # one series without labels

    def number(self, labels: Labels) -> int:
        """Return the number of labels; new ones get the next."""
        found = self._number.setdefault(labels, len(self.labels))
        if found == len(self.labels):
            self.labels.append(labels)
        return found

    def names(self, labels: Iterable[Labels]) -> LabelColumn:
        """Return labels as numbers."""
        return LabelColumn(self, np.array([self.number(each) for each in labels], np.int64))

    def made(self, ids: Longs, what: Hashable, make: Callable[[Labels], Labels]) -> Longs:
        """Return the numbers of `make(labels)`, cached; `what` identifies `make`."""
        if len(self._made) > _MOST_DERIVATIONS:
            self._made.clear()
        known = self._made[what] = self._grown(self._made.get(what, self._places[:0]))
        for id_ in dict.fromkeys(ids[known[ids] < 0].tolist()):
            known[id_] = self.number(make(self.labels[id_]))
        return known[ids]

    def places(self) -> Longs:
        """Return a scratch array for all sets of labels: -1, to be restored by the caller."""
        self._places = self._grown(self._places)
        return self._places

    def _grown(self, known: Longs) -> Longs:
        """Grow an array to twice the count of numbers, so that it grows seldom."""
        if len(known) >= len(self.labels):
            return known
        return np.append(known, np.full(2 * len(self.labels) - len(known), -1))


class DistinctLabels(NamedTuple):
    """Distinct names in their order, and the index of each row's name."""

    names: LabelColumn
    rows: Longs
    first: Longs  # row of each


class LabelColumn:
    """Labels of each row."""

    __slots__ = ("_distinct_labels", "_made", "ids", "label_index")

    def __init__(self, label_index: LabelIndex, ids: Longs) -> None:
        self.label_index = label_index
        self.ids = ids
        self._distinct_labels: DistinctLabels | None = None
        self._made: dict[Hashable, LabelColumn] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Labels]:
        return map(self.label_index.labels.__getitem__, self.ids.tolist())

    def made(self, what: Hashable, make: Callable[[Labels], Labels]) -> LabelColumn:
        """Return `make(labels)` of each row; the same column each time for the same `what`."""
        found = self._made.get(what)
        if found is None:
            ids = self.label_index.made(self.ids, what, make)
            found = self._made[what] = LabelColumn(self.label_index, ids)
        return found

    def only(self, rows: Longs) -> LabelColumn:
        """Return the names of some rows."""
        return LabelColumn(self.label_index, self.ids[rows])

    def then(self, other: LabelColumn) -> LabelColumn:
        """Return these names followed by the others."""
        return LabelColumn(self.label_index, np.concatenate([self.ids, other.ids]))

    @property
    def distinct(self) -> DistinctLabels:
        """The distinct names."""
        if self._distinct_labels is None:
            rows, first = _numbered(self.ids, self.label_index.places())
            names = self if len(first) == len(rows) else self.only(first)
            self._distinct_labels = DistinctLabels(names, rows, first)
        return self._distinct_labels

    def rows_of(self, wanted: LabelColumn) -> Longs:
        """Return the row of each wanted name, or -1; names of this column must be distinct."""
        if wanted is self:
            return np.arange(len(self))
        return _rows_of(self.ids, wanted.ids, self.label_index.places())


@njit
def _numbered(ids: Longs, places: Longs) -> tuple[Longs, Longs]:
    rows = np.empty(len(ids), np.int64)
    first = np.empty(len(ids), np.int64)
    count = 0
    for row in range(len(ids)):
        if places[ids[row]] < 0:
            places[ids[row]] = count
            first[count] = row
            count += 1
        rows[row] = places[ids[row]]
    for id_ in ids:
        places[id_] = -1
    return rows, first[:count].copy()


@njit
def _rows_of(ids: Longs, wanted: Longs, places: Longs) -> Longs:
    for row in range(len(ids)):
        places[ids[row]] = row
    rows = places[wanted]
    for id_ in ids:
        places[id_] = -1
    return rows
