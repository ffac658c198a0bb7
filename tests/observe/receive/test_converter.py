"""Received samples become our tables, however their sender cuts them into messages."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.clients.wire.remote_write import encode_write
from steward.clock import ManualClock
from steward.errors import StewardError
from steward.model.event import Observation
from steward.model.metric import Metric
from steward.observe.receive import Decoders, observation_of
from steward.observe.receive.tables import Targets
from steward.observe.translate import SeriesMapping
from wire_messages import T_MS, pushed, recorded, request_of

CORE = "node_cpu_seconds_total"


def core(number: int, mode: str = "user") -> dict[str, str]:
    return {"__name__": CORE, "cpu": str(number), "mode": mode, "instance": "n01:9100"}


def cells(seen: Observation, metric: str) -> list[tuple[float, str, float]]:
    return [
        (row["t_s"] - T_MS / 1000, row["entity"], row[metric])
        for table in seen.tables
        if metric in table.columns
        for row in table.iter_rows(named=True)
        if row[metric] is not None
    ]


def all_of(decoders: Decoders, *bodies: bytes) -> Observation:
    return observation_of([decoders.remote_write(body).convert() for body in bodies])


def test_what_a_real_prometheus_sent_becomes_tables() -> None:
    seen = all_of(Decoders(), pushed(recorded(1)), pushed(recorded(2)))

    by_gpu = {(entity, value) for _, entity, value in cells(seen, "gpu.busy_share")}
    assert by_gpu == {("n01/gpu0", 0.97), ("n01/gpu1", 0.0)}
    assert {value for *_, value in cells(seen, "gpu.memory.used_bytes")} == {71234.0 * 2**20}
    assert len(cells(seen, "host.cpu.user_cores")) == 1  # growth needs two scrapes
    running = seen.other.filter(metric="vllm:num_requests_running")
    assert running["value"].to_list() == [3.0, 3.0]
    assert "DCGM_FI_DEV_MEMORY_TEMP" not in seen.other["metric"].to_list()  # blank


def test_counters_become_rates_even_when_the_moments_come_in_one_message() -> None:
    labels = {"__name__": "node_context_switches_total", "instance": "n01:9100"}
    bodies = [request_of([(labels, 100.0 * t)], t_ms=T_MS + 2000 * t) for t in range(3)]

    seen = all_of(Decoders(), *bodies)

    assert cells(seen, "host.context_switches_per_s") == [(2.0, "n01", 50.0), (4.0, "n01", 50.0)]


def test_a_counter_that_fell_is_unknown_for_a_period() -> None:
    labels = {"__name__": "node_context_switches_total", "instance": "n01:9100"}
    values = [100.0, 150.0, 10.0, 30.0]
    bodies = [request_of([(labels, v)], t_ms=T_MS + 1000 * t) for t, v in enumerate(values)]

    seen = all_of(Decoders(), *bodies)

    assert cells(seen, "host.context_switches_per_s") == [(1.0, "n01", 50.0), (3.0, "n01", 20.0)]


def test_growth_over_a_long_silence_is_not_put_at_its_end() -> None:
    labels = {"__name__": "node_context_switches_total", "instance": "n01:9100"}
    bodies = [request_of([(labels, v)], t_ms=T_MS + t) for t, v in ((0, 0.0), (3_600_000, 9e9))]

    assert cells(all_of(Decoders(), *bodies), "host.context_switches_per_s") == []


def test_older_samples_of_a_counter_are_counted_and_left_out() -> None:
    labels = {"__name__": "node_context_switches_total", "instance": "n01:9100"}
    decoders = Decoders()

    all_of(decoders, request_of([(labels, 5.0)]), request_of([(labels, 4.0)], t_ms=T_MS - 1000))

    assert decoders.stats["remote-write"].late == 1


@settings(max_examples=15)
@given(st.permutations(range(6)), st.integers(1, 6))
def test_a_sum_over_cores_does_not_depend_on_how_it_is_cut(order: list[int], size: int) -> None:
    decoders = Decoders()
    bodies: list[bytes] = []
    for t in range(4):
        parts = [(core(each), t * (1.0 + each)) for each in order]
        bodies += [
            request_of(parts[at : at + size], t_ms=T_MS + 1000 * t) for at in range(0, 6, size)
        ]

    seen = all_of(decoders, *bodies)

    found = cells(seen, "host.cpu.user_cores")
    assert [t for t, _, _ in found][-2:] == [2.0, 3.0]
    assert all(value == pytest.approx(21.0) for *_, value in found)


def test_a_sum_waits_for_all_its_parts_and_drops_one_that_is_gone() -> None:
    decoders = Decoders()
    both = [(core(0), 0.0), (core(1), 0.0)]
    bodies = [request_of(both), request_of([(core(0), 1.0), (core(1), 1.0)], t_ms=T_MS + 1000)]
    bodies += [request_of([(core(0), float(t))], t_ms=T_MS + 1000 * t) for t in range(2, 14)]

    seen = all_of(decoders, *bodies)

    found = cells(seen, "host.cpu.user_cores")
    assert found[0] == (1.0, "n01", 2.0)
    assert found[-1][2] == 1.0  # the core that is left
    assert decoders.stats["remote-write"].partial >= 3


def test_infinite_and_missing_values_are_not_kept() -> None:
    labels = {"__name__": "node_load1", "instance": "n01:9100"}
    values = [math.inf, -math.inf, math.nan]
    bodies = [request_of([(labels, v)], t_ms=T_MS + t) for t, v in enumerate(values)]

    assert all_of(Decoders(), *bodies).tables == ()


@pytest.mark.parametrize("t_ms", [-5, 7_258_118_400_000, 10**15, 2**62])  # one of them: 2200
def test_a_time_before_1970_or_to_come_is_refused_and_counted(t_ms: int) -> None:
    decoders = Decoders()

    with pytest.raises(StewardError, match=r"before 1970|ahead of this machine"):
        decoders.remote_write(request_of([({"__name__": "a"}, 1.0)], t_ms=t_ms))

    assert decoders.stats["remote-write"].out_of_time == 1


def test_one_sample_with_a_wrong_time_costs_itself_only() -> None:
    decoders = Decoders()
    good, bad = {"__name__": "a"}, {"__name__": "b"}
    body = encode_write([(good, [T_MS], [1.0]), (bad, [2**62], [2.0])])

    parsed = decoders.remote_write(pushed(body))
    readings = parsed.convert()

    assert parsed.refused == 1
    assert "ahead of this machine's clock" in parsed.why
    assert len(readings) == 1
    assert [event.kind for event in readings.events] == ["telemetry.time-refused"]
    assert decoders.stats["remote-write"].out_of_time == 1


def at_present(*times_s: float) -> list[bytes]:
    """Return bodies of two cores that each work as one, by the times that their sender gives."""
    return [
        request_of([(core(0), s + 600.0), (core(1), s + 600.0)], t_ms=T_MS + int(1000 * s))
        for s in times_s
    ]


@pytest.mark.parametrize("wrong_s", [[500.0], [500.0, 510.0, 520.0, 530.0, 540.0]])
def test_samples_ahead_of_time_do_not_mute_a_counter_until_then(wrong_s: list[float]) -> None:
    decoders = Decoders(wall_s=lambda: T_MS / 1000)

    seen = all_of(decoders, *at_present(-30.0, -20.0, *wrong_s, -10.0, 0.0, 3.0))

    found = [(t, value) for t, _, value in cells(seen, "host.cpu.user_cores") if t <= 3.0]
    assert found == [(-20.0, 2.0), (0.0, 2.0), (3.0, pytest.approx(2.0))]
    assert decoders.stats["remote-write"].late == 0


def test_a_first_sample_ahead_of_time_does_not_mute_its_sum() -> None:
    decoders = Decoders(wall_s=lambda: T_MS / 1000)

    seen = all_of(decoders, *at_present(500.0, -20.0, -10.0, 0.0))

    assert cells(seen, "host.cpu.user_cores")[-1][::2] == (0.0, 2.0)


def test_a_sender_whose_clock_is_always_ahead_loses_nothing() -> None:
    decoders = Decoders(wall_s=lambda: T_MS / 1000)

    seen = all_of(decoders, *at_present(300.0, 310.0, 320.0, 315.0, 330.0))

    assert [t for t, *_ in cells(seen, "host.cpu.user_cores")] == [310.0, 320.0, 330.0]
    assert decoders.stats["remote-write"].late == 2


# -- too much ------------------------------------------------------------------------------------


def series(number: int, kind: str = "a") -> dict[str, str]:
    return {"__name__": kind, "n": str(number)}


def test_a_sender_with_too_many_series_is_refused_new_ones_and_keeps_its_old() -> None:
    decoders = Decoders(max_series=3)
    decoders.remote_write(request_of([(series(n), 1.0) for n in range(3)])).convert()

    parsed = decoders.remote_write(request_of([(series(n), 2.0) for n in range(5)], t_ms=T_MS + 1))
    found = parsed.convert()

    assert parsed.refused == found.refused == 2
    assert parsed.why == found.events[0].text
    assert len(found) == 3
    (event,) = found.events
    assert "at most 3 series" in event.text
    assert decoders.stats["remote-write"].refused == 2


def test_another_sender_is_not_refused_for_that() -> None:
    decoders = Decoders(max_series=3)
    decoders.remote_write(request_of([(series(n), 1.0) for n in range(9)], sender="loud")).convert()

    found = decoders.remote_write(request_of([(series(n, "b"), 1.0) for n in range(3)], sender="q"))

    assert found.refused == 0


def test_series_that_are_silent_for_an_hour_make_room() -> None:
    clock = ManualClock()
    decoders = Decoders(max_series=3, now_s=clock.now_s)
    decoders.remote_write(request_of([(series(n), 1.0) for n in range(3)])).convert()
    clock.set(3500.0)
    counter = {"__name__": "node_context_switches_total", "instance": "n01:9100"}
    decoders.remote_write(request_of([(series(0), 1.0)])).convert()
    clock.set(4000.0)

    found = decoders.remote_write(request_of([(series(7), 1.0), (counter, 1.0)], t_ms=T_MS + 1))

    assert found.refused == found.convert().refused == 0
    assert decoders.stats["remote-write"].series == 3


def test_a_counter_is_remembered_when_others_are_forgotten() -> None:
    clock = ManualClock()
    decoders = Decoders(max_series=2, now_s=clock.now_s)
    counter = {"__name__": "node_context_switches_total", "instance": "n01:9100"}
    decoders.remote_write(request_of([(series(0), 1.0)])).convert()
    clock.set(3700.0)
    bodies = [
        request_of([(counter, 10.0)]),
        request_of([(series(1), 1.0)]),
        request_of([(counter, 30.0)], t_ms=T_MS + 2000),
    ]

    seen = all_of(decoders, *bodies)

    assert cells(seen, "host.context_switches_per_s") == [(2.0, "n01", 10.0)]


def targets_of(metrics: int) -> Targets:
    targets = Targets()
    for number in range(metrics):
        metric = Metric(name=f"x.m{number}", unit="1", of="node", meaning="a test")
        targets.find(SeriesMapping(entity="n01", name=metric.name, metric=metric))
    return targets


def test_samples_that_are_scattered_over_many_moments_take_no_more_memory_than_they_are() -> None:
    t_ms, values = np.arange(70_000), np.ones(70_000)

    (dense,), _ = targets_of(3).tables(t_ms, t_ms % 3, values)
    sparse, _ = targets_of(40).tables(t_ms, t_ms % 40, values)

    assert dense.shape == (70_000, 5)
    assert [table.shape for table in sparse] == [(1_750, 3)] * 40
    assert sum(table.height - table.null_count().row(0)[2] for table in sparse) == 70_000


def test_a_series_that_comes_twenty_times_in_its_first_message_is_one() -> None:
    decoders = Decoders()
    body = encode_write([(series(0), [T_MS + t], [1.0]) for t in range(20)])

    found = decoders.remote_write(pushed(body)).convert()

    assert decoders.stats["remote-write"].series == 1
    assert len(found) == 20


def test_parsing_changes_nothing_that_is_remembered() -> None:
    decoders = Decoders()
    counter = {"__name__": "node_context_switches_total", "instance": "n01:9100"}
    all_of(decoders, request_of([(counter, 10.0)]))
    before = decoders.stats

    for _ in range(3):
        decoders.remote_write(request_of([(counter, 30.0)], t_ms=T_MS + 2000))
    unchanged = decoders.stats
    seen = all_of(decoders, request_of([(counter, 30.0)], t_ms=T_MS + 2000))

    assert unchanged == before
    assert cells(seen, "host.context_switches_per_s") == [(2.0, "n01", 10.0)]


def test_a_malformed_series_refuses_its_message_and_is_counted() -> None:
    decoders = Decoders()

    with pytest.raises(StewardError, match="no name"):
        decoders.remote_write(request_of([({"instance": "x"}, 1.0)]))

    assert decoders.stats["remote-write"].malformed == 1
