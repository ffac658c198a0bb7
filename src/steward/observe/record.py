"""Looks for a while and keeps what it sees: the heart of `steward observe record`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from steward.clock import Clock
from steward.errors import StewardError
from steward.model.event import Event, Fault, Observation
from steward.observe.watch import Watch

__all__ = ["Recorded", "record"]

LOOK_S = 30.0  # from one look to the next; ticks wait in memory no longer than that
LONGEST_S = 60.0  # between two reads; a longer or negative time means that the clock has jumped


@dataclass(slots=True)
class Recorded:
    """What came of it: samples are single values that are known."""

    from_s: float
    to_s: float
    rows: int = 0
    samples: int = 0
    events: list[Event] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def add(self, seen: Observation, faults: tuple[Fault, ...], t_s: float) -> None:
        """Count one look."""
        self.to_s = t_s
        self.events += seen.events
        self.faults += faults
        for table in seen.tables:
            self.rows += table.height
            unknown = sum(table.null_count().row(0)) if table.width else 0
            self.samples += table.height * (table.width - 2) - unknown
        self.samples += seen.other.height


def record(
    watch: Watch,
    keep: Callable[[Observation], None],
    *,
    clock: Clock,
    for_s: float,
    stop: threading.Event,
) -> Recorded:
    """Look every few seconds until the time is over or `stop` is set; the last ticks count too.

    What cannot be kept now (a full disk) is a fault and no end: there may be room again.
    """
    before_s = clock.now_s()
    done = Recorded(from_s=before_s, to_s=before_s)
    left_s = for_s
    while True:
        t_s = clock.now_s()
        left_s -= min(max(t_s - before_s, 0.0), LONGEST_S)
        before_s = t_s
        over = left_s <= 0 or stop.is_set()
        if over:
            watch.stop()
        seen, faults = watch.look(t_s)
        done.add(seen, (*faults, *_kept(keep, seen, t_s)), t_s)
        if over:
            watch.close()
            return done
        clock.wait(min(LOOK_S, left_s), stop)


def _kept(keep: Callable[[Observation], None], seen: Observation, t_s: float) -> list[Fault]:
    try:
        keep(seen)
    except StewardError as fault:
        return [Fault(t_s=t_s, where=fault.where, problem=fault.problem, hint=fault.hint)]
    return []
