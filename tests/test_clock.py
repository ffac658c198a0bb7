from __future__ import annotations

import threading
import time

from steward.clock import ManualClock, ScaledClock, SteadyTime, WallClock


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


def steady(clock: ManualClock) -> SteadyTime:
    made = SteadyTime(clock, least_s=10.0)
    made.next()
    return made


def pass_by(clock: ManualClock, seconds: float) -> None:
    clock.wait(seconds, threading.Event())


def test_a_clock_that_jumps_ahead_and_back_leaves_the_loops_time_alone() -> None:
    clock = ManualClock(1000.0)
    time_ = steady(clock)

    clock.jump(1000.0 + 7200.0)
    pass_by(clock, 9.0)
    ahead, problem = time_.next()
    clock.jump(1009.0)
    pass_by(clock, 10.0)
    back, fine = time_.next()

    assert (ahead, back) == (1009.0, 1019.0)
    assert "jumped ahead by 7200 s" in problem
    assert fine == ""


def test_a_jump_ahead_that_stays_is_followed_after_ten_minutes() -> None:
    clock = ManualClock(1000.0)
    time_ = steady(clock)
    clock.jump(1000.0 + 7200.0)

    seen = []
    for _ in range(62):
        pass_by(clock, 10.0)
        seen.append(time_.next()[0])

    assert seen[0] == 1010.0
    assert seen[-1] == clock.now_s()
    assert sorted(seen) == seen


def test_a_jump_back_never_turns_the_loops_time_back() -> None:
    clock = ManualClock(10_000.0)
    time_ = steady(clock)

    clock.jump(5000.0)
    pass_by(clock, 10.0)
    now_s, problem = time_.next()

    assert now_s == 10_010.0
    assert "jumped back" in problem


def test_a_clock_that_stands_still_still_gives_later_times() -> None:
    time_ = steady(ManualClock(1000.0))

    assert time_.next() == (1010.0, "")


def test_slow_drift_is_followed() -> None:
    clock = ManualClock(1000.0)
    time_ = steady(clock)

    clock.jump(1030.0)

    assert time_.next() == (1030.0, "")


def test_a_fast_clock_waits_for_who_cannot_keep_up_with_it() -> None:
    clock = ScaledClock(start_s=0.0, speed=1e9, most_s=30.0)
    stop = threading.Event()
    stop.set()
    while clock.now_s() < 30.0:
        time.sleep(0.001)

    first = clock.now_s()
    clock.wait(10.0, stop)
    while clock.now_s() < 60.0:
        time.sleep(0.001)

    assert (first, clock.now_s()) == (30.0, 60.0)
