"""Sorts samples of strangers into our tables, series by series.

A sender splits its samples into messages as it likes: one moment of a node may come in five, and
one message may hold five moments. So growth is worked out here, per series, and not from the
tables; a figure that several series make up together (all cores of a node) is given once all of
them have come.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.clients.wire.samples import WireSamples
from steward.clients.wire.series_table import SeriesTable
from steward.errors import StewardError
from steward.model.event import Event
from steward.observe.receive.kernels import (
    ADDS,
    BLANKS,
    LATE,
    PARTIAL,
    REFUSED,
    RISES,
    fold_samples,
)
from steward.observe.receive.tables import GrowingArray, Readings, Targets
from steward.observe.translate import SeriesMapping

__all__ = ["ConverterStats", "SampleConverter"]

LONGEST_S = 600.0  # growth over a longer silence says nothing about the moment that it is put at
LAST_MS = 253_402_300_800_000  # the year 10000
FORGET_AFTER_S = 3600.0
TRY_AGAIN_S = 60.0
Translate = Callable[[bytes], SeriesMapping]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConverterStats:
    """What came in since the start, and what of it was not kept."""

    series: int = 0
    samples: int = 0
    refused: int = 0  # samples of series that were too many
    late: int = 0  # older than what was known already
    partial: int = 0  # sums of which a part never came
    malformed: int = 0  # samples of series that cannot be read


class SampleConverter:
    """Remembers series and counters between messages, in bounded memory.

    `max_series` bounds what one sender may have; all together may have `max_all`.
    """

    def __init__(
        self,
        translate: Translate,
        *,
        source: str,
        max_series: int = 200_000,
        max_all: int = 1_000_000,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._translate = translate
        self._source = source
        self._max_series = max_series
        self._max_all = max_all
        self._now_s = now_s
        self._lock = threading.Lock()
        self._dropped = np.zeros(3, np.int64)
        self._samples = self._malformed = 0
        self._cleaned_s = -np.inf
        self._clear()

    def _clear(self) -> None:
        self._table = SeriesTable()
        self._of_sender: Counter[str] = Counter()
        self._senders: list[str] = []  # of each series
        self._flags = GrowingArray(np.int64)
        self._scale = GrowingArray(np.float64)
        self._target = GrowingArray(np.int64)
        self._last_ms = GrowingArray(np.int64)
        self._last = GrowingArray(np.float64)
        self._seen_s = GrowingArray(np.float64)
        self._targets = Targets()

    @property
    def stats(self) -> ConverterStats:
        """What came in, and what was not kept."""
        return ConverterStats(
            series=len(self._table),
            samples=self._samples,
            refused=int(self._dropped[REFUSED]),
            late=int(self._dropped[LATE]),
            partial=int(self._dropped[PARTIAL]),
            malformed=self._malformed,
        )

    def sort(self, samples: WireSamples, *, sender: str = "") -> Readings:
        """Return what the samples are readings of; series that are too many are refused."""
        _check_times(samples.t_ms)
        with self._lock:
            known = self._table.find(samples)
            if len(known) and int(known.min()) < 0:
                known = self._meet(samples, known, sender)
            before = int(self._dropped[REFUSED])
            t_ms, target, values = self._pass_on(samples, known)
            refused = int(self._dropped[REFUSED]) - before
            self._samples += len(samples.values) - refused
            targets = self._targets
        targets.check_density(t_ms, target)
        return Readings(
            targets=targets,
            t_ms=t_ms,
            target=target,
            values=values,
            refused=refused,
            events=(self._refusal(sender, refused, samples),) if refused else (),
        )

    def _meet(
        self, samples: WireSamples, known: NDArray[np.int64], sender: str
    ) -> NDArray[np.int64]:
        """Get to know new series, as long as there is room for them."""
        first_ms = int(samples.t_ms.max()) if len(samples.t_ms) else 0
        for row in np.flatnonzero(known < 0).tolist():
            if not self._room(sender):
                break
            key = samples.key(row)
            place = self._read(key)
            self._add(key, place, sender, first_ms)
        return self._table.find(samples)

    def _room(self, sender: str) -> bool:
        if self._of_sender[sender] < self._max_series and len(self._table) < self._max_all:
            return True
        if self._now_s() - self._cleaned_s < TRY_AGAIN_S:
            return False
        self._forget()
        return self._of_sender[sender] < self._max_series and len(self._table) < self._max_all

    def _read(self, key: bytes) -> SeriesMapping:
        try:
            return self._translate(key)
        except StewardError:
            self._malformed += 1
            raise

    def _add(self, key: bytes, place: SeriesMapping, sender: str, t_ms: int) -> None:
        number = self._table.add(key)
        self._of_sender[sender] += 1
        self._senders.append(sender)
        bits = RISES * place.rises | ADDS * place.adds | BLANKS * place.blanks
        target = self._targets.find(place)
        if place.adds:
            self._targets.join(target, t_ms)
        for column, value in (
            (self._flags, bits),
            (self._scale, place.scale),
            (self._target, target),
            (self._last_ms, 0),
            (self._last, np.nan),
            (self._seen_s, self._now_s()),
        ):
            column.put(number, value)

    def _pass_on(
        self, samples: WireSamples, known: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        size = len(samples.values)
        t_ms, target, values = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)
        self._seen_s.array[known[known >= 0]] = self._now_s()
        count = fold_samples(
            known,
            samples.series,
            samples.t_ms,
            samples.values,
            int(LONGEST_S * 1000),
            self._flags.array,
            self._scale.array,
            self._target.array,
            self._last_ms.array,
            self._last.array,
            self._targets.parts.array,
            self._targets.sums.array,
            t_ms,
            target,
            values,
            self._dropped,
        )
        return t_ms[:count], target[:count], values[:count]

    def _refusal(self, sender: str, refused: int, samples: WireSamples) -> Event:
        who = sender or "a sender"
        text = (
            f"{refused} samples of new series from {who} are refused: it has "
            f"{self._of_sender[sender]} series of at most {self._max_series}"
        )
        t_s = float(samples.t_ms.max()) / 1000.0
        kind = "telemetry.series-refused"
        return Event(t_s=t_s, kind=kind, subject=who, text=text, source=self._source)

    def _forget(self) -> None:
        """Make room: series that have been silent for an hour are forgotten."""
        self._cleaned_s = self._now_s()
        count = len(self._table)
        fresh = self._seen_s.array[:count] >= self._now_s() - FORGET_AFTER_S
        if bool(fresh.all()):
            return
        kept = [
            (self._table.key(i), self._senders[i], self._last_ms.array[i], self._last.array[i])
            for i in np.flatnonzero(fresh).tolist()
        ]
        self._clear()
        for number, (key, sender, last_ms, last) in enumerate(kept):
            self._add(key, self._read(key), sender, int(last_ms))
            self._last_ms.put(number, last_ms)
            self._last.put(number, last)


def _check_times(t_ms: NDArray[np.int64]) -> None:
    if len(t_ms) and (int(t_ms.min()) < 0 or int(t_ms.max()) >= LAST_MS):
        bad = int(t_ms.min()) if int(t_ms.min()) < 0 else int(t_ms.max())
        raise StewardError(
            f"a sample is of the time {bad} ms, which no calendar has",
            hint="times are milliseconds since 1970",
        )
