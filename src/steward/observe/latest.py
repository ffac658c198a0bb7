"""The newest value of everything, for `/metrics` and `observe top`.

A table per kind of entity, one row per entity, one column per metric, each value with its time;
and the phases that last.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.model.frame import ENTITY, T_S, Frame
from steward.model.metric import Metric
from steward.model.metrics import CANONICAL, aliases_from
from steward.model.span import Span

__all__ = ["Latest", "LatestColumn"]

Floats = NDArray[np.float64]
MOST_ENTITIES = 200_000  # of one kind
SILENT_S = 86_400.0  # entities without a sample for a day are dropped when room is needed


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestColumn:
    """One metric of all entities with a recent value."""

    metric: Metric
    entities: Sequence[str]
    values: Floats


class Latest:
    """Takes frames as they come, oldest first. Safe for one writer and many readers."""

    def __init__(self, *, most_entities: int = MOST_ENTITIES) -> None:
        self.dropped = 0  # rows of entities, and phases, for which there was no room
        self._most = most_entities
        self._grids: dict[str, _Grid] = {}
        self._phases: dict[str, Span] = {}
        self._lock = threading.Lock()

    def take(self, frames: Iterable[Frame]) -> None:
        """Store the newest values of these frames."""
        known = aliases_from(CANONICAL)
        with self._lock:
            for frame in frames:
                kinds: dict[str, list[str]] = {}
                for name in frame.columns:
                    if name in known:
                        kinds.setdefault(known[name][0].of, []).append(name)
                for kind, names in kinds.items():
                    grid = self._grids.setdefault(kind, _Grid(self._most))
                    self.dropped += grid.take(frame, names)

    def columns(self, *, since_s: float) -> Iterator[LatestColumn]:
        """Return every metric that has a value from `since_s` on, with its entities."""
        known = aliases_from(CANONICAL)
        with self._lock:
            found = [
                LatestColumn(metric=known[name][0], entities=entities, values=values)
                for grid in self._grids.values()
                for name, entities, values in grid.columns(since_s)
            ]
        return iter(sorted(found, key=lambda each: each.metric.name))

    def mark(self, spans: Iterable[Span], t_s: float) -> None:
        """Store open phases; one that has not ended within a day never will."""
        marked = {span.id: span for span in spans if span.kind == "phase"}
        with self._lock:
            self._phases = {
                id_: span
                for id_, span in (self._phases | marked).items()
                if (span.to_s is None or span.to_s > t_s) and span.from_s > t_s - SILENT_S
            }
            surplus = sorted(self._phases, key=lambda id_: self._phases[id_].from_s)[: -self._most]
            for id_ in surplus:
                del self._phases[id_]
            self.dropped += len(surplus)

    def phases(self) -> list[tuple[str, str]]:
        """Return the entities of each phase, without duplicates; `n01/*` is the same as `n01`."""
        with self._lock:
            found = {(span.entity, span.name) for span in self._phases.values()}
        return sorted(each for each in found if not each[0].endswith("/*"))


class _Grid:
    """All entities of one kind."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._values = np.full((8, 64), np.nan)  # metrics by entities
        self._times = np.full((8, 64), -np.inf)

    def take(self, frame: Frame, names: Sequence[str]) -> int:
        columns = {name: frame[name].to_numpy() for name in names}
        known = np.flatnonzero(np.any([np.isfinite(each) for each in columns.values()], axis=0))
        if not len(known):
            return 0
        times = frame[T_S].to_numpy()[known]
        if (np.diff(times) < 0).any():
            order = np.argsort(times, kind="stable")
            known, times = known[order], times[order]
        rows = self._numbers(frame[ENTITY].gather(known), float(times[-1]))
        placed = rows >= 0
        for name, column in columns.items():
            values = column[known]
            there = np.flatnonzero(placed & np.isfinite(values))
            line = self._names.setdefault(name, len(self._names))
            self._grow(line + 1, len(self._rows))
            newer = there[times[there] >= self._times[line, rows[there]]]
            self._values[line, rows[newer]] = values[newer]  # of equal places the last one counts
            self._times[line, rows[newer]] = times[newer]
        return int((~placed).sum())

    def columns(self, since_s: float) -> Iterator[tuple[str, list[str], Floats]]:
        entities = list(self._rows)
        for name, line in self._names.items():
            fresh = np.flatnonzero(self._times[line, : len(entities)] >= since_s)
            if len(fresh):
                chosen = [entities[row] for row in fresh.tolist()]
                yield name, chosen, self._values[line, fresh]

    def _numbers(self, entities: pl.Series, newest_s: float) -> NDArray[np.int64]:
        names = entities.to_list()
        found = np.array([self._rows.get(entity, -1) for entity in names], np.int64)
        if (found >= 0).all():
            return found  # as in most frames
        new = [entity for entity in dict.fromkeys(names) if entity not in self._rows]
        if len(self._rows) + len(new) > self._most:
            self._forget(newest_s - SILENT_S)
        for entity in new[: self._most - len(self._rows)]:
            self._rows[entity] = len(self._rows)
        self._grow(len(self._names), len(self._rows))
        return np.array([self._rows.get(entity, -1) for entity in names], np.int64)

    def _grow(self, lines: int, rows: int) -> None:
        have = self._values.shape
        if lines <= have[0] and rows <= have[1]:
            return
        shape = (max(have[0], 2 * lines), max(have[1], 2 * rows))
        for which, empty in (("_values", np.nan), ("_times", -np.inf)):
            bigger = np.full(shape, empty)
            bigger[: have[0], : have[1]] = getattr(self, which)
            setattr(self, which, bigger)

    def _forget(self, since_s: float) -> None:
        newest = self._times[:, : len(self._rows)].max(axis=0, initial=-np.inf)
        kept = np.flatnonzero(newest >= since_s)
        entities = list(self._rows)
        self._rows = {entities[row]: number for number, row in enumerate(kept.tolist())}
        for array, empty in ((self._values, np.nan), (self._times, -np.inf)):
            array[:, : len(kept)] = array[:, kept]
            array[:, len(kept) :] = empty
