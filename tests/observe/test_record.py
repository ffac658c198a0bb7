from __future__ import annotations

import threading

import polars as pl
import pytest

from factories import gpu_row, samples
from patience import LONG_S
from steward.clock import ManualClock
from steward.errors import StewardError
from steward.model.event import Availability, Observation
from steward.observe.record import LOOK_S, record
from steward.observe.watch import Watch


class Eye:
    """A collector that sees one GPU, and once nothing but trouble."""

    name = "eye"
    vocabulary = "canonical"

    def __init__(self, broken_at_s: float = -1.0) -> None:
        self.looks_s: list[float] = []
        self._broken_at_s = broken_at_s

    def available(self) -> Availability:
        return Availability(status="ok", reason="always")

    def collect(self, t_s: float) -> Observation:
        self.looks_s.append(t_s)
        if t_s == self._broken_at_s:
            raise RuntimeError("sensor gone")
        return Observation(frame=samples(t_s, {"n1/gpu0": gpu_row(0.5), "n1/gpu1": gpu_row(None)}))

    def close(self) -> None: ...


def test_a_recording_ends_in_time_and_keeps_every_look() -> None:
    eye, kept = Eye(), list[Observation]()

    done = record(
        Watch([eye], timeout_s=LONG_S),
        kept.append,
        clock=ManualClock(100.0),
        for_s=2.5 * LOOK_S,
        stop=threading.Event(),
    )

    assert eye.looks_s == [100.0, 100.0 + LOOK_S, 100.0 + 2 * LOOK_S, 100.0 + 2.5 * LOOK_S]
    assert (done.from_s, done.to_s) == (100.0, 100.0 + 2.5 * LOOK_S)
    rows = pl.concat([table for each in kept for table in each.tables])
    assert done.rows == rows.height == 8
    known = sum(rows[name].len() - rows[name].null_count() for name in rows.columns[2:])
    assert done.samples == known


def test_a_recording_that_is_reported_to_stop_takes_a_last_look() -> None:
    stop, kept = threading.Event(), list[Observation]()
    stop.set()

    done = record(
        Watch([Eye()], timeout_s=LONG_S), kept.append, clock=ManualClock(0.0), for_s=60.0, stop=stop
    )

    assert len(kept) == 1
    assert done.rows == 2


def test_a_fault_is_kept_with_what_others_saw() -> None:
    kept = list[Observation]()
    watch = Watch([Eye(broken_at_s=LOOK_S), Eye()], timeout_s=LONG_S)

    done = record(
        watch, kept.append, clock=ManualClock(0.0), for_s=1.5 * LOOK_S, stop=threading.Event()
    )

    assert [fault.problem for fault in done.faults] == ["RuntimeError: sensor gone"]
    assert [each.tables[0].height for each in kept] == [2, 2, 2]


def test_a_full_disk_is_a_fault_and_no_end() -> None:
    kept, tries = list[Observation](), iter([True, True, False])

    def keep(seen: Observation) -> None:
        if next(tries, False):
            raise StewardError("the disk is full", where="out/telemetry", hint="make room")
        kept.append(seen)

    done = record(
        Watch([Eye()], timeout_s=LONG_S),
        keep,
        clock=ManualClock(0.0),
        for_s=2.5 * LOOK_S,
        stop=threading.Event(),
    )

    assert [(fault.where, fault.problem) for fault in done.faults] == [
        ("out/telemetry", "the disk is full")
    ] * 2
    assert len(kept) == 2


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_clock_that_jumps_neither_ends_a_recording_nor_makes_it_endless(jump_s: float) -> None:
    clock, eye = ManualClock(10_000.0), Eye()
    jumps = iter([False, True])

    def keep(_seen: Observation) -> None:
        if next(jumps, False):
            clock.set(clock.now_s() + jump_s)

    record(Watch([eye], timeout_s=LONG_S), keep, clock=clock, for_s=120.0, stop=threading.Event())

    assert 120.0 / LOOK_S / 2 <= len(eye.looks_s) <= 120.0 / LOOK_S + 2
