from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from patience import LONG_S, until
from steward.errors import StewardError
from steward.model.event import Availability, Fault, Observation
from steward.model.layout import Block, Layout
from steward.observe.sampling import pace as module
from steward.observe.sampling.pace import Pace, Track
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

    def close(self) -> None: ...

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


def test_entities_that_are_queried_the_same_share_a_table() -> None:
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
    assert pace.drain()[1] == ()  # reported once


def test_a_tick_that_cannot_be_read_is_a_gap_and_is_reported_once() -> None:
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


def test_ticks_that_are_not_fetched_are_dropped_oldest_first_and_counted(
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
    track = pace.tracks["meter"]
    pace.start()
    pace.start()  # a second start changes nothing
    until(lambda: track.stats.ticks >= 3)
    missed = track.stats.missed
    slow.set()
    until(lambda: track.stats.missed >= missed + 2)
    pace.stop()
    times = [t for frame in track.drain()[0] for t in frame["t_s"].to_list()]

    assert 0 < track.stats.missed_share < 1
    assert len(times) == track.stats.ticks
    assert times == sorted(times)


def test_one_that_hangs_keeps_its_thread_and_the_others_continue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HANGS_S", 0.1)
    gate = threading.Event()
    readers: set[int] = set()

    def read() -> list[float]:
        readers.add(threading.get_ident())
        return [1.0, 2.0]

    stuck, sound = Meter(lambda: [1.0] if gate.wait(LONG_S) else []), Meter(read)
    sound.name = "sound"
    pace = Pace([stuck, sound], every_s=0.05)

    pace.start()
    until(lambda: pace.tracks["meter"].is_reading)
    time.sleep(0.3)  # longer than a reading may take
    before = pace.tracks["sound"].stats.ticks
    pace.start()  # the next read finds that the first one hangs
    until(lambda: pace.tracks["sound"].stats.ticks >= 2)
    gate.set()
    until(lambda: pace.tracks["meter"].stats.ticks >= 2)  # it came back, in a thread of its own
    pace.stop()
    pace.start()  # stopped is stopped

    assert before == 0
    assert len(readers) == 1  # the thread that came back leaves the other one alone


def test_a_look_brings_all_ticks_since_the_last_one_translated() -> None:
    watch = Watch([Meter(lambda: [50.0, 2000.0])], sample_every_s=0.05, timeout_s=LONG_S)

    first, _ = watch.look(time.time())
    fetched = sum(table.height for table in first.tables)
    until(lambda: watch.pace["meter"].ticks >= fetched + 3)
    second, faults = watch.look(time.time())
    watch.stop()

    assert faults == ()
    assert fetched >= 1
    (table,) = second.tables
    assert table.height >= 3
    assert table["gpu.busy_share"].to_list() == [0.5] * table.height
    assert table["gpu.power_watts"].to_list() == [2.0] * table.height


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
    assert [(event.subject, event.text) for event in second] == [("n1", "no samples for 10 s")]


def test_a_pace_slower_than_the_silence_that_counts_is_no_silence() -> None:
    readings = iter([[1000.0], [1600.0]])
    layout = Layout(blocks=(Block(entity="n1/gpu0", names=("pcie.replays",)),))
    pace = Track(Meter(lambda: next(readings), layout), every_s=300.0, gap_after_s=120.0)

    pace.tick(0.0)
    pace.tick(300.0)
    (frame,), events = pace.drain()

    assert events == ()
    assert frame.rows()[1][2] == pytest.approx(600.0 / 300.0)


def test_wide_rows_are_dropped_a_few_at_a_time_and_that_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_VALUES", 10 * ONE.width)
    pace = Track(Meter(lambda: [1.0, 2.0]), every_s=0.1)

    for t_s in range(12):
        pace.tick(float(t_s))
    frames, (event,) = pace.drain()

    kept = [t_s for frame in frames for t_s in frame["t_s"].to_list()]
    assert len(kept) >= 9
    assert kept[-1] == 11.0
    assert (event.kind, event.subject) == ("telemetry.lost", "meter")
    assert f"{12 - len(kept)} ticks" in event.text
    assert pace.drain()[1] == ()


def test_a_layout_that_changes_at_every_tick_costs_no_tick() -> None:
    meter = Meter(lambda: [1.0, 2.0], Layout(blocks=ONE.blocks * 50))
    pace = Track(meter, every_s=0.1)

    for t_s in range(200):
        meter.what = Layout(blocks=meter.what.blocks)
        pace.tick(float(t_s))
    frames, events = pace.drain()

    assert [frame["t_s"][0] for frame in frames] == [float(t_s) for t_s in range(200)]
    assert (pace.stats.dropped, events) == (0, ())


def test_a_fault_with_a_new_text_at_every_tick_is_reported_once_a_minute() -> None:
    ticks = iter(range(10_000))

    def lost() -> list[float]:
        raise OSError(f"handle {next(ticks)} is gone")

    pace = Track(Meter(lost), every_s=1.0)

    for t_s in range(150):
        pace.tick(float(t_s))
    events = pace.drain()[1]

    assert [event.t_s for event in events] == [0.0, 60.0, 120.0]


def test_a_reading_that_does_not_end_is_reported_once_and_so_is_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HANGS_S", 0.05)
    gate, begun = threading.Event(), threading.Event()

    def read() -> list[float]:
        begun.set()
        gate.wait(LONG_S)
        return [1.0, 2.0]

    pace = Track(Meter(read), every_s=0.01)
    hanging = threading.Thread(target=pace.tick, args=(5.0,))
    hanging.start()
    assert begun.wait(LONG_S)
    time.sleep(0.1)  # longer than a reading may take
    result = [pace.drain()[1], pace.drain()[1]]
    pace.tick(6.0)  # another thread finds it taken, and leaves it alone
    gate.set()
    hanging.join()
    (frame,), after = pace.drain()

    assert [[event.kind for event in events] for events in result] == [["collector.failed"], []]
    assert "does not end" in result[0][0].text
    assert [event.kind for event in after] == ["collector.works-again"]
    assert frame["t_s"].to_list() == [5.0]


def test_a_slow_first_reading_does_not_move_the_beat() -> None:
    slow = iter([0.13])

    def read() -> list[float]:
        time.sleep(next(slow, 0.0))
        return [1.0, 2.0]

    pace = Pace([Meter(read)], every_s=0.2)
    times: list[float] = []

    def on_the_beat() -> bool:
        times.extend(t for frame in pace.tracks["meter"].drain()[0] for t in frame["t_s"])
        off = np.array(times[1:][-4:]) % 0.2
        return len(off) == 4 and bool(np.median(np.minimum(off, 0.2 - off)) < 0.04)

    pace.start()
    until(on_the_beat)  # a busy machine is late at times, but not at most of them
    pace.stop()


def test_the_end_waits_for_no_reading_and_nothing_is_read_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "STOP_S", 0.1)
    gate, begun, read_late = threading.Event(), threading.Event(), threading.Event()

    def hang() -> list[float]:
        begun.set()
        gate.wait(LONG_S)
        return [1.0]

    def late() -> list[float]:
        read_late.set()
        return [1.0]

    stuck, behind = Meter(hang), Meter(late)
    behind.name = "behind"
    pace = Pace([stuck, behind], every_s=60.0)
    pace.start()
    assert begun.wait(LONG_S)
    before_s = time.monotonic()
    pace.stop()
    pace.stop()
    took_s = time.monotonic() - before_s
    gate.set()
    time.sleep(0.1)

    assert took_s < 50.0  # and not two periods of a minute
    assert not read_late.is_set()


def test_the_first_look_is_not_blocked_by_one_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HANGS_S", 0.1)
    monkeypatch.setattr(module, "STOP_S", 0.1)
    gate = threading.Event()
    stuck, sound = Meter(lambda: [1.0] if gate.wait(LONG_S) else []), Meter(lambda: [50.0, 2.0])
    sound.name = "sound"
    watch = Watch([stuck, sound], sample_every_s=0.02, timeout_s=0.5)
    seen: list[float] = []
    faults: list[Fault] = []

    def looked() -> list[float]:
        """Look once more; on a busy machine the sound one may be late as well."""
        observed, found = watch.look(time.time())
        faults.extend(fault for fault in found if fault.where == "collector meter")
        seen.extend(table["gpu.busy_share"][0] for table in observed.tables)
        return seen

    until(looked)
    watch.timeout_s = 100.0
    before_s = time.monotonic()
    watch.look(time.time())  # it is known to hang: not waited for again
    watch.close()
    took_s = time.monotonic() - before_s
    gate.set()

    assert set(seen) == {0.5}
    assert [fault.where for fault in faults] == ["collector meter"]
    assert took_s < 50.0


def test_a_watch_that_is_stopped_before_it_began_reports_nothing_and_does_not_wait() -> None:
    watch = Watch([Meter(lambda: [1.0, 2.0])], timeout_s=100.0)

    watch.stop()
    before_s = time.monotonic()
    seen, faults = watch.look(1.0)

    assert (seen.tables, faults) == ((), ())
    assert time.monotonic() - before_s < 50.0


def test_a_look_that_fails_does_not_take_the_samples_with_it() -> None:
    class Torn(Meter):
        def collect(self, t_s: float) -> Observation:
            raise RuntimeError("the list of processes is gone")

        def close(self) -> None: ...

    watch = Watch([Torn(lambda: [50.0, 2.0])], sample_every_s=0.05, timeout_s=LONG_S)

    seen, (fault,) = watch.look(time.time())
    watch.close()

    assert [table["gpu.busy_share"][0] for table in seen.tables] == [0.5]
    assert "the list of processes is gone" in fault.problem


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_clock_that_jumps_costs_one_rate_and_no_tick(jump_s: float) -> None:
    replays = iter(range(1000))
    layout = Layout(blocks=(Block(entity="n1/gpu0", names=("pcie.replays",)),))
    pace = Track(Meter(lambda: [float(next(replays))], layout), every_s=1.0)

    for t_s in [1e6, 1e6 + 1, *(1e6 + jump_s + each for each in (2, 3, 4))]:
        pace.tick(t_s)
    (frame,), _ = pace.drain()

    assert [row[2] for row in frame.rows()] == [None, 1.0, None, 1.0, 1.0]


def test_the_beat_does_not_follow_a_clock_that_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    shift_s = [0.0]
    real = time.time
    monkeypatch.setattr(module.time, "time", lambda: real() + shift_s[0])
    pace = Pace([Meter(lambda: [1.0, 2.0])], every_s=0.02)

    track = pace.tracks["meter"]

    began_s = time.monotonic()
    pace.start()
    for shift_s[0] in (0.0, 3600.0, -3600.0):
        enough = track.stats.ticks + 5
        until(lambda least=enough: track.stats.ticks >= least)  # no silence
    took_s = time.monotonic() - began_s
    pace.stop()

    assert track.stats.ticks + track.stats.missed <= took_s / 0.02 + 3  # no burst
    assert track.stats.worst_late_s < 1000.0


def test_ten_thousand_entities_are_fetched_while_they_are_read() -> None:
    blocks = tuple(
        Block(entity=f"n1/net:e{i}", names=("memory.used", "memory.free")) for i in range(10_000)
    )
    layout = Layout(blocks=blocks)
    pace = Track(Meter(lambda: [1.0] * layout.width, layout), every_s=0.1)
    fetched: list[float] = []
    done = threading.Event()

    def fetch() -> None:
        while not done.is_set():
            fetched.extend(t for frame in pace.drain()[0] for t in frame["t_s"].unique())

    fetching = threading.Thread(target=fetch)
    fetching.start()
    for t_s in range(30):
        pace.tick(float(t_s))
    done.set()
    fetching.join()
    fetched.extend(t for frame in pace.drain()[0] for t in frame["t_s"].unique())

    assert pace.stats.dropped == 0
    assert sorted(fetched) == [float(t_s) for t_s in range(30)]
