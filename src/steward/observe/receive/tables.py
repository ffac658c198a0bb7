"""Readings become tables: a wide one per kind of entity, a long one for what is not translated.

Readings of many messages become one table: making one per message would cost more than reading it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.model.event import Event, Observation
from steward.model.frame import ENTITY, T_S, Frame, empty_other
from steward.observe.receive.kernels import PENDING, assign_rows
from steward.observe.translate import SeriesMapping

__all__ = ["GrowingArray", "Readings", "Targets", "observation_of"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_CELLS = 2**21
MOST_EMPTY = 32  # cells per reading, in tables larger than that: then one table per metric


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Readings:
    """What one message held, in arrays that point into `targets`."""

    targets: Targets
    t_ms: Ints
    target: Ints
    values: Floats
    refused: int = 0  # samples of series that were too many
    events: tuple[Event, ...] = ()

    def __len__(self) -> int:
        return len(self.values)


def observation_of(readings: Sequence[Readings]) -> Observation:
    """Return what all these messages held together."""
    wide: list[Frame] = []
    long: list[Frame] = []
    for targets in {id(each.targets): each.targets for each in readings}.values():
        ours = [each for each in readings if each.targets is targets]
        tables = targets.tables(
            np.concatenate([each.t_ms for each in ours]),
            np.concatenate([each.target for each in ours]),
            np.concatenate([each.values for each in ours]),
        )
        wide += tables[0]
        long += tables[1]
    return Observation(
        frames=tuple(wide),
        other=pl.concat(long) if long else empty_other(),
        events=tuple(event for each in readings for event in each.events),
    )


class GrowingArray:
    """An array that grows. `array` is all of it, with room at its end."""

    def __init__(self, kind: type, *, width: int = 0) -> None:
        self.array: NDArray[Any] = np.zeros((1024, width) if width else 1024, kind)

    def put(self, row: int, value: float) -> None:
        if row >= len(self.array):
            bigger = np.zeros((2 * len(self.array), *self.array.shape[1:]), self.array.dtype)
            bigger[: len(self.array)] = self.array
            self.array = bigger
        self.array[row] = value


class Targets:
    """What series lead to: a metric of an entity, each with a number."""

    def __init__(self) -> None:
        self.parts = GrowingArray(np.int64, width=3 + 2 * PENDING)
        self.sums = GrowingArray(np.float64, width=PENDING)
        self._numbers: dict[tuple[str, str, bool], int] = {}
        self._entities = _Names()
        self._names = _Names()
        self._kinds = _Names()
        self._entity = GrowingArray(np.int64)
        self._name = GrowingArray(np.int64)
        self._kind = GrowingArray(np.int64)

    def find(self, place: SeriesMapping) -> int:
        key = (place.entity, place.name, place.metric is not None)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._entity.put(number, self._entities.number(place.entity))
            self._name.put(number, self._names.number(place.name))
            kind = place.metric.of if place.metric else ""
            self._kind.put(number, self._kinds.number(kind))
            self.parts.put(number, 0)
            self.sums.put(number, 0.0)
        return number

    def join(self, target: int, t_ms: int) -> None:
        """Add a series to a target; the moments until now are incomplete."""
        self.parts.array[target, 0] += 1
        self.parts.array[target, 1] = max(t_ms, self.parts.array[target, 1])

    def tables(self, t_ms: Ints, target: Ints, values: Floats) -> tuple[list[Frame], list[Frame]]:
        """Return a wide table per kind of entity, and a long one of untranslated metrics."""
        wide: list[Frame] = []
        long: list[Frame] = []
        kinds = self._kind.array[target]
        for kind in np.unique(kinds).tolist():
            chosen = np.flatnonzero(kinds == kind)
            ours = t_ms[chosen], target[chosen], values[chosen]
            if self._kinds.texts[kind]:
                wide += self._wide(*ours)
            else:
                long.append(self._long(*ours))
        return wide, long

    def _arranged(self, t_ms: Ints, target: Ints) -> tuple[Ints, Ints, int]:
        """Return the names that there are, the row of each reading, and how many rows."""
        row = np.empty(len(t_ms), np.int64)
        slots = np.full(1 << (2 * len(t_ms)).bit_length(), -1, np.int64)
        count = int(assign_rows(t_ms, self._entity.array[target], slots, row))
        return np.unique(self._name.array[target]), row, count

    def _long(self, t_ms: Ints, target: Ints, values: Floats) -> Frame:
        return pl.DataFrame(
            {
                T_S: t_ms / 1000.0,
                ENTITY: self._entities.series(self._entity.array[target]),
                "metric": self._names.series(self._name.array[target]),
                "value": values,
            }
        )

    def _wide(self, t_ms: Ints, target: Ints, values: Floats) -> list[Frame]:
        """Return one table, or one per metric where one would be almost empty."""
        names, row, count = self._arranged(t_ms, target)
        if count * len(names) <= max(MOST_CELLS, MOST_EMPTY * len(t_ms)):
            return [self._table(t_ms, target, values, (names, row, count))]
        tables = []
        for name in names.tolist():
            of_name = np.flatnonzero(self._name.array[target] == name)
            ours = t_ms[of_name], target[of_name]
            tables.append(self._table(*ours, values[of_name], self._arranged(*ours)))
        return tables

    def _table(
        self, t_ms: Ints, target: Ints, values: Floats, arranged: tuple[Ints, Ints, int]
    ) -> Frame:
        names, row, count = arranged
        cells = np.full((len(names), count), np.nan)
        cells[np.searchsorted(names, self._name.array[target]), row] = values
        times, owners = np.empty(count), np.empty(count, np.int64)
        times[row], owners[row] = t_ms / 1000.0, self._entity.array[target]
        texts = self._names.texts
        return pl.DataFrame(
            [
                pl.Series(T_S, times),
                self._entities.series(owners).alias(ENTITY),
                *(
                    pl.Series(texts[name], cells[i], nan_to_null=True)
                    for i, name in enumerate(names.tolist())
                ),
            ]
        )


class _Names:
    """Texts with numbers, and columns of texts made from columns of numbers."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._column = pl.Series(dtype=pl.String)

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found

    def series(self, numbers: NDArray[np.int64]) -> pl.Series:
        if len(self._column) != len(self.texts):
            self._column = pl.Series(self.texts, dtype=pl.String)
        return self._column.gather(numbers)
