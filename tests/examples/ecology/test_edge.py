"""The board at a camera: energy of a day, what waits, and what is sent."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ecology.edge import EdgeBoard
from ecology.facts import Device

FRAMES = 20


def device(joules: float) -> Device:
    return Device(
        name="board", idle_watts=2.0, busy_watts=4.0, operations_per_s=1e9, frame_s=0.25,
        radio_joules_per_byte=1e-3, joules_per_day=joules,
    )  # fmt: skip


def run(board: EdgeBoard, rows: range, *, wanted: bool = True) -> object:
    yes = np.ones(FRAMES, bool)
    return board.run_day(
        np.array(rows, np.int64), kept=yes, wanted=yes if wanted else ~yes,
        sizes=np.full(FRAMES, 1000, np.int64),
    )  # fmt: skip


def test_what_the_energy_does_not_cover_waits_and_comes_first_the_next_day() -> None:
    board = EdgeBoard(device(5.0))  # a frame that is sent takes a little more than 2 J

    first = run(board, range(6))
    second = run(board, range(6, 7))

    assert (first.done.tolist(), first.waiting) == ([0, 1], 4)  # type: ignore[attr-defined]
    assert second.done.tolist() == [2, 3]  # type: ignore[attr-defined]


def test_bytes_are_those_of_the_crops_that_were_sent() -> None:
    board = EdgeBoard(device(1e6))

    sent, silent = run(board, range(4)), run(board, range(4, 8), wanted=False)

    assert sent.sent_bytes == 4000  # type: ignore[attr-defined]
    assert (silent.sent_bytes, silent.sent.tolist()) == (0, [])  # type: ignore[attr-defined]
    assert sent.joules - silent.joules == 4.0  # type: ignore[attr-defined]  # 4,000 bytes by radio


@given(
    joules=st.floats(0, 60),
    days=st.lists(st.integers(0, 4), min_size=1, max_size=5),
)
def test_no_day_uses_more_than_it_has_and_no_frame_is_lost_or_done_twice(
    joules: float, days: list[int]
) -> None:
    board, done, arrived = EdgeBoard(device(joules)), [], 0
    for count in days:
        ran = run(board, range(arrived, arrived + count))
        arrived += count
        done += ran.done.tolist()  # type: ignore[attr-defined]

        assert ran.joules <= joules  # type: ignore[attr-defined]
        assert len(done) + ran.waiting == arrived  # type: ignore[attr-defined]
    assert done == sorted(set(done))
