from __future__ import annotations

import threading
import time

from steward.clock import ManualClock, ScaledClock, WallClock


def test_a_scaled_clock_runs_faster_than_life_from_its_start() -> None:
    clock = ScaledClock(start_s=1000.0, speed=10_000.0)
    first = clock.now_s()

    clock.wait(100.0, threading.Event())

    assert first >= 1000.0
    assert clock.now_s() - first >= 100.0


def test_waiting_ends_at_once_when_told_to_stop() -> None:
    stop = threading.Event()
    stop.set()
    began_s = time.monotonic()

    WallClock().wait(600.0, stop)
    ScaledClock(start_s=0.0).wait(600.0, stop)

    assert time.monotonic() - began_s < 300.0


def test_a_wall_clock_tells_the_time_of_the_machine() -> None:
    assert abs(WallClock().now_s() - time.time()) < 60.0


def test_a_manual_clock_moves_by_what_it_is_asked_to_wait_and_when_told() -> None:
    clock, stop = ManualClock(5.0), threading.Event()
    clock.wait(3.0, stop)
    assert clock.now_s() == 8.0

    stop.set()
    clock.wait(3.0, stop)
    clock.set(1.0)

    assert clock.now_s() == 1.0
