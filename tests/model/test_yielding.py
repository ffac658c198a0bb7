from __future__ import annotations

import pytest

from steward.model.yielding import Measured, Yielding, promise_s, suspension_s


def test_ten_call_backs_make_the_promise_by_their_95th_percentile() -> None:
    times = [1.0] * 19 + [4.0]

    assert promise_s(times, size_bytes=10**12, save_s=0, step_s=0, end_s=0) == 6.0


def test_before_that_the_promise_goes_by_size_step_and_slack_and_by_the_longest_so_far() -> None:
    def promised(*times: float, size_bytes: int = 2 * 10**9, save_s: float = 1.0) -> float:
        return promise_s(times, size_bytes=size_bytes, save_s=save_s, step_s=2.0, end_s=3.0)

    assert promised() == 10.0 + 2.0 + 5.0 + 3.0
    assert promised(size_bytes=0) == 1.0 + 2.0 + 5.0 + 3.0
    assert promised(20.0) == 30.0


def test_suspending_goes_by_the_slowest_rate_so_far_or_by_one_of_another_machine() -> None:
    gib = 2**30
    known = [
        Measured(kind="suspend", seconds=2.0, t_s=1.0, size_bytes=gib),
        Measured(kind="suspend", seconds=4.0, t_s=2.0, size_bytes=8 * gib),
        Measured(kind="resume", seconds=9.0, t_s=3.0, size_bytes=gib),
    ]

    assert suspension_s(known, "suspend", 4 * gib) == 8.0
    assert suspension_s(known, "suspend", 0) == 2.0
    assert suspension_s([], "suspend", 10 * gib) == pytest.approx(11.5)
    assert suspension_s([], "resume", 10 * gib) == pytest.approx(5.5)


def test_what_is_promised_is_said_with_what_it_rests_on() -> None:
    known = Yielding(promised_s=3.0, p50_s=1.0, p95_s=2.0, measured=11)

    assert "nothing is promised" in Yielding().text
    assert Yielding(promised_s=3.0).text == "given back within 3.0 s, by its size"
    assert known.text == "given back within 3.0 s (p50 1.0 s, p95 2.0 s of 11)"
