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
from steward.observe.sampling.batch import BatchTranslator, TickBatch
from steward.ports import Sampler

__all__ = ["Pace", "PaceStats", "Track"]

MOST_VALUES = 4_000_000  # of one sampler that are not fetched: 32 MB
BATCH_S = 30.0
LATE_SHARE = 0.1  # of a period; a tick that starts later is late, though not missed
HANGS_S = 1.0  # a reading that takes longer, and longer than three periods, hangs
STOP_S = 1.0  # how long the end waits for a reading that is under way
REPORT_AGAIN_S = 60.0  # a fault whose text changes at every tick is reported no more often


@dataclass(slots=True)
class PaceStats:
    """How well the pace was kept since it began."""

    ticks: int = 0
    missed: int = 0  # whole periods without a tick
    late: int = 0
    failed: int = 0  # ticks at which the sampler could not read
    dropped: int = 0  # ticks that were not fetched in time
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
        self.gap_after_s = max(gap_after_s, 3 * every_s)  # a slow pace is not silence
        self.every_s = every_s
        self.runner: _Runner | None = None  # the thread that reads it
        self.begun = threading.Event()  # the first tick is there
        self._stats = PaceStats()
        self._sampler = sampler
        self._lock = threading.Lock()  # of what waits to be fetched
        self._batches: deque[TickBatch] = deque()
        self._turn = threading.Lock()  # held while reading
        self._translator = BatchTranslator(sampler.vocabulary, gap_after_s=self.gap_after_s)
        self._fetched_s: float | None = None  # the time of the last tick that was fetched
        self._unknown: frozenset[str] = frozenset()  # names that were reported
        self._layout = Layout(blocks=())
        self._row = np.empty(0)
        self._events: list[Event] = []
        self._broken = ""  # what is wrong now
        self._reported_s = -math.inf  # when a fault was reported last
        self._reading = (0.0, 0.0)  # when the newest reading began: monotonic, and wall clock
        self._dropped = 0  # dropped ticks that are not reported yet

    @property
    def stats(self) -> PaceStats:
        """A copy of the figures as they are now."""
        with self._lock:
            return replace(self._stats)

    @property
    def is_reading(self) -> bool:
        """Whether a reading is under way: its source must not be taken away now."""
        return self._turn.locked()

    @property
    def columns(self) -> int:
        """How many numbers a tick has."""
        return self._layout.width

    def tick(self, t_s: float, *, late_s: float = 0.0) -> None:
        """Read once, for the time `t_s`; the beat was `late_s` ago."""
        if not self._turn.acquire(blocking=False):
            return  # it was given to another thread in the very moment that it came back
        self._reading = (time.monotonic(), t_s)
        try:
            fault = self._read()
            with self._lock:
                self._take(fault, t_s)
                self._count(late_s)
        finally:
            self._turn.release()
        self.begun.set()

    def _read(self) -> str:
        """Fill the row; return what went wrong, or nothing."""
        try:
            layout = self._sampler.layout()
            if layout is not self._layout:
                self._layout, self._row = layout, np.empty(layout.width)
            self._row.fill(np.nan)
            self._sampler.sample(self._row)
        except Exception as raised:  # noqa: BLE001 - a plug's fault is a gap in its own numbers
            return str(raised) if isinstance(raised, StewardError) else repr(raised)
        return ""

    def _take(self, fault: str, t_s: float) -> None:
        changed = bool(fault) != bool(self._broken)
        if changed or (fault != self._broken and abs(t_s - self._reported_s) >= REPORT_AGAIN_S):
            self._report(fault, t_s)
        if fault:
            self._stats.failed += 1
        else:
            self._keep(t_s)

    def drain(self) -> tuple[tuple[Frame, ...], tuple[Event, ...]]:
        """Return what was read since the last call, translated, a table per set of columns."""
        with self._lock:
            self._notice_hanging()
            batches = list(self._batches)
            self._batches.clear()
            events, self._events = self._events, []
            dropped, self._dropped = self._dropped, 0
        if dropped and batches:
            text = f"{dropped} ticks were dropped: they were not fetched in time"
            events.append(self._event(float(batches[0].t_s[0]), "telemetry.lost", self.name, text))
        frames = []
        for batch in batches:
            frames += self._translator.frames(batch)
            events += [*self._gaps(batch), *self._unknown_metrics(batch)]
        return tuple(frames), tuple(events)

    def _notice_hanging(self) -> None:
        since_s, t_s = self._reading
        if self.is_reading and not self._broken and _hangs(since_s, self.every_s):
            self._report("a reading does not end; its samples are missing until it does", t_s)

    def _gaps(self, batch: TickBatch) -> list[Event]:
        """Return a gap event for each entity but jobs without values for too long."""
        before_s = self._fetched_s if self._fetched_s is not None else batch.t_s[0]
        self._fetched_s = float(batch.t_s[-1])
        silent_s = np.diff(batch.t_s, prepend=before_s)
        worst = int(np.argmax(silent_s))
        if silent_s[worst] <= self.gap_after_s:
            return []
        text = f"no samples for {silent_s[worst]:.0f} s"
        return [
            self._event(float(batch.t_s[worst]), "telemetry.gap", block.entity, text)
            for block in batch.layout.blocks
            if "@" not in block.entity and not block.entity.startswith("job:")
        ]

    def _unknown_metrics(self, batch: TickBatch) -> list[Event]:
        """Report metrics that are not in the table, once each."""
        new = self._translator.unknown - self._unknown
        self._unknown |= new
        t_s = float(batch.t_s[0])
        text = "it is not in the table of metrics and is left out"
        return [self._event(t_s, "telemetry.unknown-metric", name, text) for name in sorted(new)]

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
            newest = TickBatch(self._layout, ticks=self._batch_ticks())
            self._batches.append(newest)
            self._make_room()
        newest.keep(t_s, self._row)

    def _batch_ticks(self) -> int:
        """Return how many ticks share a matrix: few where rows are wide, so that few go at once."""
        ticks = max(8, math.ceil(BATCH_S / self.every_s))
        return max(1, min(ticks, MOST_VALUES // 16 // max(1, self._layout.width)))

    def _make_room(self) -> None:
        """Drop the oldest ticks when they are not fetched; memory stays bounded."""
        while len(self._batches) > 1 and sum(each.size for each in self._batches) > MOST_VALUES:
            gone = self._batches.popleft().count
            self._stats.dropped += gone
            self._dropped += gone

    def _report(self, fault: str, t_s: float) -> None:
        """Report once that reading fails, and once that it works again."""
        kind = "collector.failed" if fault else "collector.works-again"
        text = fault or f"it can be read again (was: {self._broken})"
        self._broken, self._reported_s = fault, t_s
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
        """Start; a sampler that hangs must not block the others."""
        with self._lock:
            if self._stopped:
                return
            if not self._runners and self.tracks:
                self._give_runner(list(self.tracks.values()))
            for runner in list(self._runners):
                others = runner.waiting()
                if others:
                    self._give_runner(others)

    def await_first(self, track: Track) -> None:
        """Wait for the first tick of a sampler, but not behind one that hangs."""
        while not track.begun.wait(HANGS_S):
            self.start()

    def stop(self) -> None:
        """Take no more ticks; those that wait can still be fetched."""
        with self._lock:
            self._stopped = True
            for runner in self._runners:
                runner.stop()
            until_s = time.monotonic() + STOP_S
            for runner in self._runners:
                runner.join(timeout=max(0.0, until_s - time.monotonic()))
        for track in self.tracks.values():
            track.begun.set()  # no tick will come any more; release waiting threads

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
        self._ends = False
        self._held = threading.Lock()  # waiting for it with a timeout is the cheapest alarm clock
        self._held.acquire()

    def stop(self) -> None:
        """End after the reading that is under way."""
        if not self._ends:
            self._ends = True
            self._held.release()

    def waiting(self) -> list[Track]:
        """Return the tracks that wait for one that hangs; they may be given to another runner."""
        reading = self._reading
        if reading is None or not _hangs(reading[1], self._every_s):
            return []
        return [each for each in self.tracks if each is not reading[0] and each.runner is self]

    def run(self) -> None:
        # The beat follows the machine's clock, so that nodes sample together, but is kept by the
        # monotonic one: a clock that jumps must not bring a burst of ticks or a long silence.
        every_s = self._every_s
        self._beat(time.monotonic(), 0.0)  # the first one may take long: programs are loaded
        due_s = time.monotonic() + every_s - time.time() % every_s
        while not self._held.acquire(timeout=max(0.0, due_s - time.monotonic())):
            now_s = time.monotonic()
            self._beat(now_s, now_s - due_s)
            due_s += (int((now_s - due_s) / every_s) + 1) * every_s

    def _beat(self, now_s: float, late_s: float) -> None:
        for track in self.tracks:
            if track.runner is self and not self._ends:
                self._reading = (track, now_s)
                track.tick(time.time(), late_s=late_s)
                now_s = time.monotonic()
        self._reading = None


def _hangs(since_s: float, every_s: float) -> bool:
    return time.monotonic() - since_s > max(HANGS_S, 3 * every_s)
