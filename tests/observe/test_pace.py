from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.event import Availability, Observation
from steward.model.layout import Block, Layout
from steward.observe import pace as module
from steward.observe.pace import Pace, Track
from steward.observe.watch import Watch

ONE = Layout(blocks=(Block(entity="n1/gpu0", names=("utilization.gpu", "power.usage")),))


class Meter:
    """A sampler that reads what a test puts before it."""

    name = "meter"
    vocabulary = "nvml"

    def __init__(self, read: Callable[[], list[float]], layout: Layout = ONE) -> None:
        self.read = read
        self.what = layout

    def available(self) -> Availability:
        return Availability(status="ok", reason="always")

    def collect(self, t_s: float) -> Observation:
        return Observation()

    def layout(self) -> Layout:
        return self.what

    def sample(self, into: NDArray[np.float64]) -> None:
        values = self.read()
        into[: len(values)] = values


def test_each_tick_is_a_row_and_what_was_not_read_is_missing() -> None:
    readings = iter([[50.0, 100_000.0], [60.0]])
    pace = Track(Meter(lambda: next(readings)), every_s=1.0)

    pace.tick(1.0)
    pace.tick(2.0)
    (frame,), events = pace.drain()

    assert frame.rows() == [(1.0, "n1/gpu0", 0.5, 100.0), (2.0, "n1/gpu0", 0.6, None)]
    assert events == ()
    assert pace.drain() == ((), ())


def test_entities_that_are_asked_the_same_share_a_table() -> None:
    blocks = (
        Block(entity="n1/gpu0", names=("memory.used", "memory.free")),
        Block(entity="n1", names=("memory.total",)),
        Block(entity="n1/gpu1", names=("memory.used", "memory.free")),
        Block(entity="n1/nothing", names=()),
    )
    pace = Track(Meter(lambda: [1.0, 2.0, 3.0, 4.0, 5.0], Layout(blocks=blocks)), every_s=1.0)

    pace.tick(1.0)
    frames, _ = pace.drain()

    assert [frame.rows() for frame in frames] == [
        [(1.0, "n1/gpu0", 1.0, 2.0), (1.0, "n1/gpu1", 4.0, 5.0)],
        [(1.0, "n1", 3.0)],
    ]


def test_a_new_layout_begins_a_new_table_and_nothing_is_lost() -> None:
    meter = Meter(lambda: [1.0, 2.0])
    pace = Track(meter, every_s=1.0)

    pace.tick(1.0)
    meter.what = Layout(blocks=(Block(entity="n1/gpu1", names=("memory.used", "x")),))
    pace.tick(2.0)
    frames, events = pace.drain()

    assert [frame.rows() for frame in frames] == [
        [(1.0, "n1/gpu0", 0.01, 0.002)],
        [(2.0, "n1/gpu1", 1.0)],
    ]
    assert [(event.kind, event.subject) for event in events] == [("telemetry.unknown-metric", "x")]
    pace.tick(3.0)
    assert pace.drain()[1] == ()  # said once


def test_a_tick_that_cannot_be_read_is_a_gap_and_is_told_once() -> None:
    def lost() -> list[float]:
        raise StewardError("GPU 0 does not answer")

    meter = Meter(lost)
    pace = Track(meter, every_s=1.0)

    pace.tick(1.0)
    pace.tick(2.0)
    meter.read = lambda: [1.0, 1.0]
    pace.tick(3.0)
    (frame,), events = pace.drain()

    assert frame["t_s"].to_list() == [3.0]
    assert [(event.kind, event.t_s) for event in events] == [
        ("collector.failed", 1.0),
        ("collector.works-again", 3.0),
    ]
    assert "GPU 0 does not answer" in events[0].text
    assert (pace.stats.ticks, pace.stats.failed) == (3, 2)


def test_ticks_that_nobody_fetches_are_given_up_oldest_first_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_VALUES", 60)
    pace = Track(Meter(lambda: [1.0, 2.0]), every_s=10.0)

    for t_s in range(100):
        pace.tick(float(t_s))
    frames, _ = pace.drain()
    kept = [t_s for frame in frames for t_s in frame["t_s"].to_list()]

    assert pace.stats.dropped > 0
    assert kept == [float(t_s) for t_s in range(pace.stats.dropped, 100)]


@given(st.lists(st.sampled_from(["tick", "drain", "change"]), max_size=60))
def test_every_tick_is_fetched_exactly_once(actions: list[str]) -> None:
    meter = Meter(lambda: [1.0, 2.0])
    pace = Track(meter, every_s=1.0)
    fetched: list[float] = []
    ticked = 0

    for action in [*actions, "drain"]:
        if action == "tick":
            pace.tick(float(ticked))
            ticked += 1
        elif action == "change":
            meter.what = Layout(blocks=meter.what.blocks)
        else:
            fetched += [t for frame in pace.drain()[0] for t in frame["t_s"].to_list()]

    assert fetched == [float(t_s) for t_s in range(ticked)]


def test_the_pace_is_kept_and_a_slow_reading_costs_the_ticks_that_it_took() -> None:
    slow = threading.Event()

    def read() -> list[float]:
        if slow.is_set():
            slow.clear()
            time.sleep(0.35)
        return [1.0, 2.0]

    pace = Pace([Meter(read)], every_s=0.1)
    pace.start()
    pace.start()  # a second start changes nothing
    time.sleep(0.25)
    slow.set()
    time.sleep(0.85)
    pace.stop()
    track = pace.tracks["meter"]
    times = [t for frame in track.drain()[0] for t in frame["t_s"].to_list()]

    assert track.stats.missed >= 2
    assert 0 < track.stats.missed_share < 1
    assert len(times) == track.stats.ticks
    assert times == sorted(times)
    off = np.array(times[1:3]) % 0.1
    assert np.minimum(off, 0.1 - off).max() < 0.05  # nodes sample at the same moments


def test_one_that_hangs_keeps_its_thread_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HANGS_S", 0.1)
    gate = threading.Event()
    stuck, sound = Meter(lambda: [1.0] if gate.wait(30) else []), Meter(lambda: [1.0, 2.0])
    sound.name = "sound"
    pace = Pace([stuck, sound], every_s=0.05)

    pace.start()
    time.sleep(0.3)
    before = pace.tracks["sound"].stats.ticks
    pace.start()  # whoever looks next sees that the first one hangs
    time.sleep(0.3)
    meanwhile = pace.tracks["sound"].stats.ticks
    gate.set()
    time.sleep(0.3)
    pace.stop()
    pace.start()  # stopped is stopped

    assert before == 0
    assert meanwhile >= 3
    assert pace.tracks["meter"].stats.ticks >= 3  # it came back, in a thread of its own
    times = [t for frame in pace.tracks["sound"].drain()[0] for t in frame["t_s"].to_list()]
    assert min(b - a for a, b in pairwise(times)) > 0.01  # nobody else reads it too


def test_a_look_brings_all_ticks_since_the_last_one_in_our_words() -> None:
    watch = Watch([Meter(lambda: [50.0, 2000.0])], sample_every_s=0.05)

    first, _ = watch.look(time.time())
    time.sleep(0.3)
    second, faults = watch.look(time.time())
    watch.stop()

    assert faults == ()
    assert [table.height for table in first.tables] == [1]
    (table,) = second.tables
    assert table.height >= 3
    assert table["gpu.busy_share"].to_list() == [0.5] * table.height
    assert table["gpu.power_watts"].to_list() == [2.0] * table.height
    assert watch.pace["meter"].ticks >= 4


def test_silence_is_a_gap_for_all_but_jobs() -> None:
    blocks = tuple(Block(entity=name, names=("memory.used",)) for name in ("n1", "n1@7", "job:7"))
    pace = Track(
        Meter(lambda: [1.0, 2.0, 3.0], Layout(blocks=blocks)), every_s=1.0, gap_after_s=5.0
    )

    pace.tick(1.0)
    first = pace.drain()[1]
    pace.tick(11.0)
    second = pace.drain()[1]

    assert first == ()
    assert [(event.subject, event.text) for event in second] == [("n1", "said nothing for 10 s")]
