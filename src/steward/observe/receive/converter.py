"""Converts samples of other systems into readings of our metrics, series by series.

    parse: known series, names, times and limits checked; changes nothing     (before it is durable)
    convert: counters become rates, parts become sums; once per body          (in the loop)

A sender splits its samples into messages as it likes: one moment of a node may come in five, and
one message may hold five moments. So growth is worked out here, per series, and not from the
tables; a figure that several series make up together (all cores of a node) is given once all of
them have come.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

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

__all__ = ["AHEAD_S", "ConverterStats", "PushedSamples", "SampleConverter"]

LONGEST_S = 600.0  # growth over a longer gap is no rate at one moment
AHEAD_S = 600.0  # samples that are further ahead of this machine's clock are refused
SKEW_S = 5.0  # clocks differ by so much; further ahead, a later sample of the present is believed
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
    out_of_time: int = 0  # before 1970, or ahead of this machine's clock


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PushedSamples:
    """The samples of one body, parsed and checked. `convert` moves counters: call it once."""

    converter: SampleConverter
    samples: WireSamples
    sender: str
    mappings: Mapping[bytes, SeriesMapping]  # of series that were not known when it was parsed
    out_of_time: int = 0
    refused: int = 0  # samples that will not be kept, as far as is known now
    why: str = ""

    def convert(self) -> Readings:
        """Return what the samples are readings of."""
        return self.converter.convert(self)

    @property
    def nbytes(self) -> int:
        """How much memory this takes."""
        return int(self.samples.buffer.nbytes) + 24 * len(self.samples.values)


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
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._translate = translate
        self._source = source
        self._max_series = max_series
        self._max_all = max_all
        self._now_s = now_s
        self._wall_s = wall_s
        self._lock = threading.Lock()
        self._dropped = np.zeros(3, np.int64)
        self._samples = self._malformed = self._out_of_time = 0
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
        """Counts of received and of dropped samples."""
        return ConverterStats(
            series=len(self._table),
            samples=self._samples,
            refused=int(self._dropped[REFUSED]),
            late=int(self._dropped[LATE]),
            partial=int(self._dropped[PARTIAL]),
            malformed=self._malformed,
            out_of_time=self._out_of_time,
        )

    def parse(self, samples: WireSamples, *, sender: str = "") -> PushedSamples:
        """Check samples and look up new series; counters and sums stay as they are.

        Raises `StewardError` for a series that is malformed, or when no sample has a usable time.
        """
        usable, out_of_time = _within_time(samples, self._wall_s())
        if out_of_time and not len(usable.values):
            self._out_of_time += out_of_time
            raise _no_usable_time(samples.t_ms, self._wall_s())
        with self._lock:
            new = _new_series(usable, self._table.find(usable))
            room = self._room(sender, len(new))
        beyond = {row for rows in [*new.values()][room:] for row in rows}
        mappings = {key: self._read(key) for key in [*new][:room]}
        too_many = int(np.isin(usable.series, [*beyond]).sum()) if beyond else 0
        return PushedSamples(
            converter=self,
            samples=usable,
            sender=sender,
            mappings=mappings,
            out_of_time=out_of_time,
            refused=too_many + out_of_time,
            why=self._why(sender, too_many, out_of_time),
        )

    def convert(self, pushed: PushedSamples) -> Readings:
        """Return what the samples are readings of; series that are too many are refused."""
        samples = pushed.samples
        with self._lock:
            known = self._table.find(samples)
            if len(known) and int(known.min()) < 0:
                known = self._add_new(pushed, known)
            before = int(self._dropped[REFUSED])
            t_ms, target, values = self._fold(samples, known)
            refused = int(self._dropped[REFUSED]) - before
            self._samples += len(samples.values) - refused
            self._out_of_time += pushed.out_of_time
            targets = self._targets
        return Readings(
            targets=targets,
            t_ms=t_ms,
            target=target,
            values=values,
            refused=refused,
            events=self._refusals(pushed, refused),
        )

    def read(self, samples: WireSamples, *, sender: str = "") -> Readings:
        """Parse and convert at once, for sources that are polled and need not be durable."""
        return self.parse(samples, sender=sender).convert()

    def _add_new(self, pushed: PushedSamples, known: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add new series, as long as there is room for them."""
        samples = pushed.samples
        newest_ms = int(samples.t_ms.max(initial=0))
        new = _new_series(samples, known)
        for key in [*new][: self._room(pushed.sender, len(new))]:
            mapping = pushed.mappings.get(key) or self._read(key)
            self._add(key, mapping, pushed.sender, newest_ms)
        return self._table.find(samples)

    def _room(self, sender: str, wanted: int) -> int:
        """Return how many series a sender may add, after forgetting silent ones if need be."""
        free = self._free(sender)
        if free < wanted and self._now_s() - self._cleaned_s >= TRY_AGAIN_S:
            self._forget()
            free = self._free(sender)
        return free

    def _free(self, sender: str) -> int:
        of_sender = self._max_series - self._of_sender[sender]
        return max(0, min(of_sender, self._max_all - len(self._table)))

    def _read(self, key: bytes) -> SeriesMapping:
        """Translate a series that is new; counts those that cannot be."""
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

    def _fold(
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
            int((self._wall_s() + SKEW_S) * 1000),
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

    def _refusals(self, pushed: PushedSamples, too_many: int) -> tuple[Event, ...]:
        origin = pushed.sender or "a sender"
        t_s = min(float(pushed.samples.t_ms.max(initial=0)) / 1000.0, self._wall_s())
        found = (
            ("telemetry.series-refused", self._why(pushed.sender, too_many, 0)),
            ("telemetry.time-refused", self._why(pushed.sender, 0, pushed.out_of_time)),
        )
        return tuple(
            Event(t_s=t_s, kind=kind, subject=origin, text=text, source=self._source)
            for kind, text in found
            if text
        )

    def _why(self, sender: str, too_many: int, out_of_time: int) -> str:
        """Return why samples are refused, or an empty text when none are."""
        origin, found = sender or "a sender", []
        if too_many:
            found.append(
                f"{too_many} samples of new series from {origin} are refused: at most "
                f"{self._max_series} series of one sender are kept"
            )
        if out_of_time:
            found.append(
                f"{out_of_time} samples from {origin} are refused: their times are before 1970 or "
                f"more than {AHEAD_S:.0f} s ahead of this machine's clock"
            )
        return "; ".join(found)

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


def _new_series(samples: WireSamples, known: NDArray[np.int64]) -> dict[bytes, list[int]]:
    """Return the keys of unknown series that have samples, each once, with their rows."""
    used = np.zeros(len(known), np.bool_)
    used[samples.series] = True
    new: dict[bytes, list[int]] = {}
    for row in np.flatnonzero(used & (known < 0)).tolist():
        new.setdefault(samples.key(row), []).append(row)
    return new


def _within_time(samples: WireSamples, now_s: float) -> tuple[WireSamples, int]:
    """Return the samples whose time can be true, and how many others there are."""
    usable = (samples.t_ms >= 0) & (samples.t_ms <= int((now_s + AHEAD_S) * 1000.0))
    if bool(usable.all()):
        return samples, 0
    kept = replace(
        samples,
        series=samples.series[usable],
        t_ms=samples.t_ms[usable],
        values=samples.values[usable],
    )
    return kept, int((~usable).sum())


def _no_usable_time(t_ms: NDArray[np.int64], now_s: float) -> StewardError:
    ahead_s = float(t_ms.max()) / 1000.0 - now_s
    problem = (
        f"a sample is {ahead_s:.0f} s ahead of this machine's clock"
        if ahead_s > AHEAD_S
        else f"a sample is of the time {int(t_ms.min())} ms, before 1970"
    )
    return StewardError(
        problem,
        where="pushed samples",
        hint="times are milliseconds since 1970; look at the time synchronisation of both machines",
    )
