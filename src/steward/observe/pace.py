"""Reads a sampler at a steady pace, in a thread of its own: if it hangs, only its numbers miss.

A tick fills one row of a matrix. Names, units and rates come later, once for all ticks of a batch.
A tick that comes a period too late is missed: it is counted and leaves a gap, never a copy.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.event import Event
from steward.model.frame import ENTITY, T_S, Frame
from steward.model.layout import Layout
from steward.ports import Sampler

__all__ = ["Pace", "PaceStats"]

MOST_VALUES = 4_000_000  # of one sampler that nobody fetches: 32 MB
BATCH_S = 10.0
LATE_SHARE = 0.1  # of a period; a tick that starts later is late, though not missed


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceStats:
    """How well the pace was kept since it began."""

    ticks: int = 0
    missed: int = 0  # whole periods without a tick
    late: int = 0
    failed: int = 0  # ticks at which the sampler could not read
    dropped: int = 0  # ticks that nobody fetched in time
    worst_late_s: float = 0.0

    @property
    def missed_share(self) -> float:
        """The part of all ticks that should have been."""
        due = self.ticks + self.missed
        return self.missed / due if due else 0.0


class Pace:
    """One sampler, read every `every_s` seconds. Ticks are at multiples of it: nodes agree."""

    def __init__(self, sampler: Sampler, *, every_s: float) -> None:
        self.every_s = every_s
        self.stats = PaceStats()
        self._sampler = sampler
        self._stop = threading.Event()
        self._lock = threading.Lock()  # of what waits to be fetched
        self._batches: deque[_Batch] = deque()
        self._layout = Layout(blocks=())
        self._row = np.empty(0)
        self._events: list[Event] = []
        self._broken = ""  # the fault that was told last
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Take the first tick now and go on in the background. Once."""
        if self._thread is None:
            self.tick(time.time())
            name = f"sample-{self._sampler.name}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Take no more ticks; those that wait can still be fetched."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * self.every_s + 1.0)

    def tick(self, t_s: float) -> None:
        """Read once, for the time `t_s`."""
        fault = ""
        try:
            layout = self._sampler.layout()
            if layout is not self._layout:
                self._layout, self._row = layout, np.empty(layout.width)
            self._row.fill(np.nan)
            self._sampler.sample(self._row)
        except Exception as raised:  # noqa: BLE001 - a plug's fault is a gap in its own numbers
            fault = str(raised) if isinstance(raised, StewardError) else repr(raised)
        with self._lock:
            self._tell(fault, t_s)
            if not fault:
                self._keep(t_s)
            failed = self.stats.failed + bool(fault)
            self.stats = replace(self.stats, ticks=self.stats.ticks + 1, failed=failed)

    def drain(self) -> tuple[tuple[Frame, ...], tuple[Event, ...]]:
        """Return what was read since the last time, a table per set of columns, raw names."""
        with self._lock:
            batches = list(self._batches)
            self._batches.clear()
            events, self._events = tuple(self._events), []
        return tuple(frame for batch in batches for frame in batch.frames()), events

    def _keep(self, t_s: float) -> None:
        newest = self._batches[-1] if self._batches else None
        if newest is None or newest.layout is not self._layout or newest.is_full:
            ticks = max(8, math.ceil(BATCH_S / self.every_s))
            newest = _Batch(self._layout, ticks=ticks)
            self._batches.append(newest)
            self._make_room()
        newest.keep(t_s, self._row)

    def _make_room(self) -> None:
        """Give up the oldest ticks when nobody fetches them; memory stays bounded."""
        while len(self._batches) > 1 and sum(each.values for each in self._batches) > MOST_VALUES:
            lost = self._batches.popleft().count
            self.stats = replace(self.stats, dropped=self.stats.dropped + lost)

    def _tell(self, fault: str, t_s: float) -> None:
        """Say once that reading fails, and once that it works again."""
        if fault == self._broken:
            return
        name = self._sampler.name
        kind = "collector.failed" if fault else "collector.works-again"
        text = fault or f"it can be read again (was: {self._broken})"
        self._broken = fault
        self._events.append(Event(t_s=t_s, kind=kind, subject=name, text=text, source=name))

    def _run(self) -> None:
        # The beat follows the machine's clock, so that nodes sample together, but is kept by the
        # monotonic one: a clock that jumps must not bring a burst of ticks or a long silence.
        due_s = time.monotonic() + self.every_s - time.time() % self.every_s
        while not self._stop.wait(max(0.0, due_s - time.monotonic())):
            late_s = time.monotonic() - due_s
            periods = int(late_s / self.every_s)
            self.tick(time.time())
            self._count(late_s, periods)
            due_s += (periods + 1) * self.every_s

    def _count(self, late_s: float, periods: int) -> None:
        stats = self.stats
        self.stats = replace(
            stats,
            missed=stats.missed + periods,
            late=stats.late + (late_s > LATE_SHARE * self.every_s),
            worst_late_s=max(stats.worst_late_s, late_s),
        )


class _Batch:
    """Some ticks of one layout: a matrix that is filled row by row."""

    def __init__(self, layout: Layout, *, ticks: int) -> None:
        self.layout = layout
        self.count = 0
        self._t_s = np.empty(ticks)
        self._rows = np.empty((ticks, layout.width))

    @property
    def is_full(self) -> bool:
        return self.count == len(self._t_s)

    @property
    def values(self) -> int:
        return self._rows.size

    def keep(self, t_s: float, row: NDArray[np.float64]) -> None:
        self._t_s[self.count] = t_s
        self._rows[self.count] = row
        self.count += 1

    def frames(self) -> list[Frame]:
        """Return a table per set of columns: entities that are asked the same are in one."""
        places: dict[tuple[str, ...], list[tuple[str, int]]] = {}
        start = 0
        for block in self.layout.blocks:
            places.setdefault(block.names, []).append((block.entity, start))
            start += len(block.names)
        return [self._frame(names, at) for names, at in places.items() if names]

    def _frame(self, names: tuple[str, ...], at: list[tuple[str, int]]) -> Frame:
        ticks = self.count
        entities = pl.Series(ENTITY, [entity for entity, _ in at], dtype=pl.String)
        index = np.repeat(np.arange(len(at), dtype=np.uint32), ticks)
        rows = np.concatenate(
            [self._rows[:ticks, start : start + len(names)] for _, start in at], axis=0
        )
        columns = {name: np.ascontiguousarray(rows[:, i]) for i, name in enumerate(names)}
        times = np.tile(self._t_s[:ticks], len(at))
        return pl.DataFrame(
            {T_S: times, ENTITY: entities.gather(index), **columns}, nan_to_null=True
        )
