"""Reads samplers at a steady pace. A tick fills a row of a matrix; names and rates come in batches.

One thread reads all of them, since every thread that wakes up costs as much as a sampler. One that
hangs keeps the thread to itself, and the others go on in a new one. A tick that comes a period too
late is missed: it is counted and leaves a gap, never a copy.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from steward.errors import StewardError
from steward.model.event import Event
from steward.model.frame import Frame
from steward.model.layout import Layout
from steward.observe.batch import Batch, Words
from steward.ports import Sampler

__all__ = ["Pace", "PaceStats", "Track"]

MOST_VALUES = 4_000_000  # of one sampler that nobody fetches: 32 MB
BATCH_S = 10.0
LATE_SHARE = 0.1  # of a period; a tick that starts later is late, though not missed
HANGS_S = 1.0  # a reading that takes longer, and longer than three periods, hangs


@dataclass(slots=True)
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


class Track:
    """One sampler and its ticks that wait to be fetched."""

    def __init__(self, sampler: Sampler, *, every_s: float, gap_after_s: float = 120.0) -> None:
        self.name = sampler.name
        self.gap_after_s = gap_after_s
        self.every_s = every_s
        self.runner: _Runner | None = None  # who reads it
        self.begun = threading.Event()  # the first tick is there
        self._stats = PaceStats()
        self._sampler = sampler
        self._lock = threading.Lock()  # of what waits to be fetched
        self._batches: deque[Batch] = deque()
        self._words = Words(sampler.vocabulary, gap_after_s=gap_after_s)
        self._fetched_s: float | None = None  # the time of the last tick that was fetched
        self._unknown: frozenset[str] = frozenset()  # words that were told of
        self._layout = Layout(blocks=())
        self._row = np.empty(0)
        self._events: list[Event] = []
        self._broken = ""  # the fault that was told last

    @property
    def stats(self) -> PaceStats:
        """A copy of the figures as they are now."""
        with self._lock:
            return replace(self._stats)

    def tick(self, t_s: float, *, late_s: float = 0.0) -> None:
        """Read once, for the time `t_s`; the beat was `late_s` ago."""
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
            if fault != self._broken:
                self._tell(fault, t_s)
            if fault:
                self._stats.failed += 1
            else:
                self._keep(t_s)
            self._count(late_s)
        self.begun.set()

    def drain(self) -> tuple[tuple[Frame, ...], tuple[Event, ...]]:
        """Return what was read since the last time, in our words, a table per set of columns."""
        with self._lock:
            batches = list(self._batches)
            self._batches.clear()
            events, self._events = self._events, []
        frames = []
        for batch in batches:
            frames += self._words.frames(batch)
            events += [*self._gaps(batch), *self._strangers(batch)]
        return tuple(frames), tuple(events)

    def _gaps(self, batch: Batch) -> list[Event]:
        """Say of each entity but jobs that it was silent for too long before or within a batch."""
        before_s = self._fetched_s if self._fetched_s is not None else batch.t_s[0]
        self._fetched_s = float(batch.t_s[-1])
        silent_s = np.diff(batch.t_s, prepend=before_s)
        worst = int(np.argmax(silent_s))
        if silent_s[worst] <= self.gap_after_s:
            return []
        text = f"said nothing for {silent_s[worst]:.0f} s"
        return [
            self._event(float(batch.t_s[worst]), "telemetry.gap", block.entity, text)
            for block in batch.layout.blocks
            if "@" not in block.entity and not block.entity.startswith("job:")
        ]

    def _strangers(self, batch: Batch) -> list[Event]:
        """Name words that nobody knows: once each, and never dropped in silence."""
        new = self._words.unknown - self._unknown
        self._unknown |= new
        t_s = float(batch.t_s[0])
        text = "it is not in the table of metrics and is left out"
        return [self._event(t_s, "telemetry.unknown-metric", word, text) for word in sorted(new)]

    def _event(self, t_s: float, kind: str, subject: str, text: str) -> Event:
        return Event(t_s=t_s, kind=kind, subject=subject, text=text, source=self.name)

    def _count(self, late_s: float) -> None:
        stats = self._stats
        stats.ticks += 1
        if late_s > LATE_SHARE * self.every_s:
            stats.late += 1
            stats.missed += int(late_s / self.every_s)
        stats.worst_late_s = max(stats.worst_late_s, late_s)

    def _keep(self, t_s: float) -> None:
        newest = self._batches[-1] if self._batches else None
        if newest is None or newest.layout is not self._layout or newest.is_full:
            newest = Batch(self._layout, ticks=max(8, math.ceil(BATCH_S / self.every_s)))
            self._batches.append(newest)
            self._make_room()
        newest.keep(t_s, self._row)

    def _make_room(self) -> None:
        """Give up the oldest ticks when nobody fetches them; memory stays bounded."""
        while len(self._batches) > 1 and sum(each.size for each in self._batches) > MOST_VALUES:
            self._stats.dropped += self._batches.popleft().count

    def _tell(self, fault: str, t_s: float) -> None:
        """Say once that reading fails, and once that it works again."""
        kind = "collector.failed" if fault else "collector.works-again"
        text = fault or f"it can be read again (was: {self._broken})"
        self._broken = fault
        self._events.append(self._event(t_s, kind, self.name, text))


class Pace:
    """Samplers, read every `every_s` seconds. Beats are at multiples of it: nodes agree on them."""

    def __init__(
        self, samplers: Iterable[Sampler], *, every_s: float, gap_after_s: float = 120.0
    ) -> None:
        self.every_s = every_s
        self.tracks: Mapping[str, Track] = {
            each.name: Track(each, every_s=every_s, gap_after_s=gap_after_s) for each in samplers
        }
        self._lock = threading.Lock()
        self._runners: list[_Runner] = []
        self._stopped = False

    def start(self) -> None:
        """Begin, or see to it that nobody waits for a sampler that hangs."""
        with self._lock:
            if self._stopped:
                return
            if not self._runners and self.tracks:
                self._give_runner(list(self.tracks.values()))
            for runner in list(self._runners):
                others = runner.waiting()
                if others:
                    self._give_runner(others)

    def stop(self) -> None:
        """Take no more ticks; those that wait can still be fetched."""
        with self._lock:
            self._stopped = True
            for runner in self._runners:
                runner.stop()

    def _give_runner(self, tracks: list[Track]) -> None:
        runner = _Runner(self.every_s)
        for track in tracks:
            track.runner = runner
        runner.tracks = tuple(tracks)
        self._runners.append(runner)
        runner.start()


class _Runner(threading.Thread):
    """Keeps the beat. A track that was given to another runner is not read by this one."""

    def __init__(self, every_s: float) -> None:
        super().__init__(name="sample", daemon=True)
        self.tracks: tuple[Track, ...] = ()
        self._every_s = every_s
        self._reading: tuple[Track, float] | None = None  # which one, since when
        self._held = threading.Lock()  # waiting for it with a timeout is the cheapest alarm clock
        self._held.acquire()

    def stop(self) -> None:
        """End after the reading that is under way."""
        if self._held.locked():
            self._held.release()
        if self.is_alive():
            self.join(timeout=2 * self._every_s + HANGS_S)

    def waiting(self) -> list[Track]:
        """Return the tracks that wait for one that hangs; they may be given to another runner."""
        reading = self._reading
        if reading is None or time.monotonic() - reading[1] <= max(HANGS_S, 3 * self._every_s):
            return []
        return [each for each in self.tracks if each is not reading[0] and each.runner is self]

    def run(self) -> None:
        # The beat follows the machine's clock, so that nodes sample together, but is kept by the
        # monotonic one: a clock that jumps must not bring a burst of ticks or a long silence.
        every_s = self._every_s
        due_s = time.monotonic()
        self._beat(due_s, 0.0)
        due_s += every_s - time.time() % every_s
        while not self._held.acquire(timeout=max(0.0, due_s - time.monotonic())):
            now_s = time.monotonic()
            self._beat(now_s, now_s - due_s)
            due_s += (int((now_s - due_s) / every_s) + 1) * every_s

    def _beat(self, now_s: float, late_s: float) -> None:
        for track in self.tracks:
            if track.runner is self:
                self._reading = (track, now_s)
                track.tick(time.time(), late_s=late_s)
                now_s = time.monotonic()
        self._reading = None
