"""When a condition is looked at: at the samples of each entity, or at the same times for all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.metric.arranging import Arranged
from steward.decide.rules.metric.intake import Intake
from steward.decide.rules.metric.kernels import (
    NEVER_NS,
    Floats,
    Longs,
    Points,
    Samples,
    Stretches,
    expire,
)
from steward.decide.rules.metric.looking import Apart, Together
from steward.decide.rules.metric.promql.evaluating import evaluate
from steward.decide.rules.metric.promql.expression import Expression
from steward.decide.rules.metric.promql.vectors import Labels, Rows
from steward.decide.rules.metric.series import entity_named
from steward.errors import StewardError

__all__ = ["ApartWay", "Seen", "Silence", "TogetherWay", "Way"]

_STEP_NS = 10**9  # how often what compares entities is looked at, unless the rule says
_MOST_CELLS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """What a condition was worth: the points of each series, and the values at them."""

    points: Points
    values: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Which columns are missed when they say nothing for how long."""

    column: str
    after_ns: int


class Way(Protocol):
    """How one term looks at telemetry."""

    state: Stretches
    due_ns: int

    def take(self, rows: Arranged | None, clock_ns: int, *, last: bool = False) -> Iterator[Seen]:
        """Look at all that can be looked at until now; `last` says that nothing more will come."""
        ...

    def whose(self, series: int) -> tuple[str, Labels]:
        """Return the entity and the labels of a series."""
        ...


def _widened(state: Stretches, size: int) -> Stretches:
    more = size - len(state.since)
    return Stretches(
        np.append(state.since, np.full(more, -1)),
        np.append(state.told, np.zeros(more, bool)),
        np.append(state.last, np.full(more, -NEVER_NS)),
        np.append(state.step, np.zeros(more, np.int64)),
    )


def _only(state: Stretches, kept: NDArray[np.bool_] | Longs) -> Stretches:
    return Stretches(state.since[kept], state.told[kept], state.last[kept], state.step[kept])


def _nothing() -> Stretches:
    none = np.zeros(0, np.int64)
    return Stretches(none, np.zeros(0, bool), none, none)


class _Silences:
    """When series that should speak have been silent for too long."""

    def __init__(self, intake: Intake, silences: tuple[Silence, ...], for_ns: int) -> None:
        self._intake = intake
        self._silences = silences
        self._for_ns = for_ns

    def until(self, clock_ns: int, begin: Longs) -> list[Points]:
        return [
            Points(*expire(self._samples(each), each.after_ns, self._for_ns, begin, clock_ns))
            for each in self._silences
        ]

    def next_ns(self, clock_ns: int) -> int:
        """Return when the next silence becomes too long, if nothing comes."""
        found = NEVER_NS
        for each in self._silences:
            samples = self._samples(each)
            some = np.diff(samples.off) > 0
            last = samples.t[samples.off[1:][some] - 1] + each.after_ns + 1
            for due in (last, last + self._for_ns):
                ahead = due[due > clock_ns]
                found = min(found, int(ahead.min())) if len(ahead) else found
        return found

    def _samples(self, silence: Silence) -> Samples:
        return self._intake.stores[silence.column].samples


class ApartWay:
    """Each entity by itself, at each of its samples, or at the first in each interval."""

    def __init__(
        self,
        expression: Expression,
        intake: Intake,
        *,
        silences: tuple[Silence, ...],
        interval_ns: int,
        for_ns: int,
    ) -> None:
        self._expression = expression
        self._intake = intake
        self._silences = _Silences(intake, silences, for_ns) if silences else None
        self._interval_ns = 0 if silences else interval_ns  # a silence has no samples to wait for
        self.state = _nothing()
        self.due_ns = NEVER_NS

    def whose(self, series: int) -> tuple[str, Labels]:
        known = self._intake.known
        return known.keys[series][0], known.labels[series]

    def take(self, rows: Arranged | None, clock_ns: int, *, last: bool = False) -> Iterator[Seen]:
        del last  # there is never anything that waits
        points = Points(np.zeros(len(self._intake.known) + 1, np.int64), np.zeros(0, np.int64))
        if rows is not None:
            points = self._intake.add(rows, self.state.last)
        self.state = _widened(self.state, len(self._intake.known))
        if self._silences is not None:
            points = _united([points, *self._silences.until(clock_ns, self.state.last)])
        points = self._due(points)
        look = Apart(
            known=self._intake.known,
            wanted=self._intake.wanted,
            stores=self._intake.stores,
            points=points,
        )
        if len(points.t):
            found = evaluate(self._expression, look)
            yield Seen(points=points, values=found.values[0])
        kept = self._intake.forget()
        if kept is not None:
            self.state = _only(self.state, kept)
        if self._silences is not None:
            self.due_ns = self._silences.next_ns(clock_ns)

    def _due(self, points: Points) -> Points:
        """Return the points that are new, each once, and only the first of each interval."""
        number = np.repeat(np.arange(len(points.off) - 1), np.diff(points.off))
        before = np.append(0, points.t[:-1]) if len(points.t) else points.t
        first = np.diff(number, prepend=-1) > 0
        before = np.where(first, self.state.last[number], before)
        new = points.t > np.maximum(before, self.state.last[number])
        if self._interval_ns:
            new &= points.t // self._interval_ns > before // self._interval_ns
        off = np.append(0, np.cumsum(np.bincount(number[new], minlength=len(points.off) - 1)))
        return Points(off, points.t[new])


def _united(parts: list[Points]) -> Points:
    """Return the points of all, sorted, by series."""
    number = np.concatenate([np.repeat(np.arange(len(p.off) - 1), np.diff(p.off)) for p in parts])
    t = np.concatenate([each.t for each in parts])
    order = np.lexsort((t, number))
    off = np.append(0, np.cumsum(np.bincount(number, minlength=len(parts[0].off) - 1)))
    return Points(off, t[order])


class TogetherWay:
    """All entities at the same times: whole steps in which there was a sample of any."""

    def __init__(
        self,
        expression: Expression,
        intake: Intake,
        *,
        silences: tuple[Silence, ...],
        interval_ns: int,
        for_ns: int,
    ) -> None:
        self._expression = expression
        self._intake = intake
        self._step_ns = interval_ns or _STEP_NS
        steps_ns = -(-for_ns // self._step_ns) * self._step_ns
        self._silences = _Silences(intake, silences, steps_ns) if silences else None
        self._done_ns = -NEVER_NS
        self._waiting = np.zeros(0, np.int64)
        self._results: dict[Labels, int] = {}
        self._labels: list[Labels] = []
        self._entities: dict[Labels, str] = {}
        self._named = 0
        self.state = _nothing()
        self.due_ns = NEVER_NS

    def whose(self, series: int) -> tuple[str, Labels]:
        labels = self._labels[series]
        return self._entities.get(labels) or entity_named(labels), labels

    def take(self, rows: Arranged | None, clock_ns: int, *, last: bool = False) -> Iterator[Seen]:
        looked = np.full(len(self._intake.known), self._done_ns)
        times = [self._waiting]
        if rows is not None:
            times.append(self._intake.add(rows, looked).t)
            self._name_entities()
        if self._silences is not None:
            begin = np.full(len(self._intake.known), self._done_ns)
            times += [each.t for each in self._silences.until(clock_ns, begin)]
        steps = -(-np.unique(np.concatenate(times)) // self._step_ns) * self._step_ns
        steps = np.unique(steps[steps > self._done_ns])
        ready = steps if last else steps[steps <= clock_ns]
        self._waiting = steps[len(ready) :]
        yield from self._looks(ready)
        self._forget()
        self.due_ns = int(self._waiting[0]) if len(self._waiting) else NEVER_NS
        if self._silences is not None:
            self.due_ns = min(self.due_ns, self._silences.next_ns(clock_ns))

    def _looks(self, times: Longs) -> Iterator[Seen]:
        size = max(1, _MOST_CELLS // max(1, len(self._intake.known)))
        for begin in range(0, len(times), size):
            part = times[begin : begin + size]
            self._done_ns = int(part[-1])
            look = Together(
                known=self._intake.known,
                wanted=self._intake.wanted,
                stores=self._intake.stores,
                times=part,
            )
            try:
                found = evaluate(self._expression, look)
            except StewardError as wrong:  # it depends on the series, and others may come
                self._intake.counts.failed += 1
                self._intake.counts.problem = f"{wrong.problem}; {wrong.hint}"
                continue
            yield self._laid_out(found, part)

    def _laid_out(self, found: Rows, times: Longs) -> Seen:
        """Give each result that was ever seen its row: those not found now do not hold."""
        for labels in found.labels:
            if labels not in self._results:
                self._results[labels] = len(self._labels)
                self._labels.append(labels)
        self.state = _widened(self.state, len(self._labels))
        values = np.full((len(self._labels), len(times)), np.nan)
        values[[self._results[labels] for labels in found.labels]] = found.values
        off = np.arange(len(self._labels) + 1) * len(times)
        points = Points(off, np.tile(times, len(self._labels)))
        return Seen(points=points, values=values.ravel())

    def _name_entities(self) -> None:
        known = self._intake.known
        for row in range(self._named, len(known)):
            self._entities.setdefault(known.labels[row], known.keys[row][0])
        self._named = len(known)

    def _forget(self) -> None:
        if self._intake.forget() is not None:
            self._entities, self._named = {}, 0
            self._name_entities()
        if len(self._labels) > self._intake.most_series:
            kept = np.flatnonzero(self.state.since >= 0)[-self._intake.most_series :]
            self._intake.counts.evicted += len(self._labels) - len(kept)
            self._labels = [self._labels[row] for row in kept.tolist()]
            self._results = {labels: row for row, labels in enumerate(self._labels)}
            self.state = _only(self.state, kept)
