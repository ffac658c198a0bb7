"""Absence of series: only for entities that had samples before."""

from __future__ import annotations

import polars as pl
import pytest

from decide.rules.metric.frames import busy, reports, watch

NS = 10**9
SILENT = "absent_over_time(steward_gpu_busy_share[2m])"


def test_who_spoke_before_and_went_silent_is_missed() -> None:
    silent = watch(SILENT)
    frame = busy({"n1/gpu0": [0.5] * 3, "n1/gpu1": [0.5] * 30, "n1/gpu2": [0.5] * 30})

    found = silent.add(frame)

    assert [(item.entity, item.t_ns) for item in found] == [("n1/gpu0", 1140 * NS + 1)]


def test_who_never_spoke_is_not_missed() -> None:
    silent = watch(SILENT)
    frame = busy({"n1": [3.0] * 60}, metric="host.load_1m")

    assert silent.add(frame) == []
    assert silent.tick(5000 * NS) == []


def test_time_that_passes_without_any_sample_is_enough() -> None:
    silent = watch(SILENT)
    silent.add(busy({"n1/gpu0": [0.5] * 3}))

    assert silent.due_ns == 1140 * NS + 1
    assert silent.tick(1140 * NS) == []
    assert reports(silent.tick(1200 * NS)) == [("n1/gpu0", 1140.000000001, 1140.000000001)]
    assert silent.tick(9000 * NS) == []


def test_a_silence_may_have_to_last() -> None:
    silent = watch(SILENT, for_s=60)
    silent.add(busy({"n1/gpu0": [0.5] * 3}))

    assert silent.tick(1150 * NS) == []
    assert silent.due_ns == 1200 * NS + 1
    assert [item.t_ns for item in silent.tick(9000 * NS)] == [1200 * NS + 1]


def test_who_speaks_again_can_be_missed_again() -> None:
    silent = watch(SILENT)
    silent.add(busy({"n1/gpu0": [0.5]}))

    first = silent.tick(1200 * NS)
    silent.add(busy({"n1/gpu0": [0.5]}, from_s=1300.0))
    second = silent.tick(1500 * NS)

    assert [item.t_ns for item in [*first, *second]] == [1120 * NS + 1, 1420 * NS + 1]


def test_a_silence_inside_a_frame_is_seen() -> None:
    silent = watch(SILENT)
    silent.add(busy({"n1/gpu0": [0.5, 0.5]}))

    found = silent.add(busy({"n1/gpu0": [0.5]}, from_s=2000.0))

    assert [item.t_ns for item in found] == [1130 * NS + 1]


def test_that_the_telemetry_ends_is_nobodys_silence() -> None:
    silent = watch(SILENT)
    silent.add(busy({"n1/gpu0": [0.5] * 3}))

    assert silent.finish() == []


def test_a_job_that_ends_does_not_make_its_gpu_silent() -> None:
    silent = watch(SILENT)
    frame = busy({"n1/gpu0": [0.5] * 40}).with_columns(
        job_id=pl.Series(["812"] * 3 + [None] * 37, dtype=pl.String)
    )

    assert silent.add(frame) == []


def test_absence_can_be_joined_with_what_others_say() -> None:
    expr = f"{SILENT} and on (node) steward_host_load_1m > 2"
    frame = busy({"n1/gpu0": [0.5] * 3, "n2/gpu0": [0.5] * 3})
    loads = busy({"n1": [3.0] * 60, "n2": [1.0] * 60, "n3": [1.0] * 60}, metric="host.load_1m")
    silent = watch(expr)

    found = silent.add(pl.concat([frame, loads], how="diagonal"))

    assert [(item.entity, item.t_ns / NS) for item in found] == [("n1/gpu0", 1141.0)]


@pytest.mark.parametrize("for_s", [0, 1.5, 7])
def test_absence_that_compares_entities_lasts_as_long_as_it_must(for_s: float) -> None:
    silent = watch(f"count by (node) ({SILENT}) >= 2", for_s=for_s)
    silent.add(busy({"n1/gpu0": [0.5] * 3, "n1/gpu1": [0.5] * 2, "n2/gpu0": [0.5]}))

    found = silent.tick(9000 * NS)

    assert [(item.entity, item.value) for item in found] == [("n1", 2.0)]
    assert found[0].t_ns >= (1141 + for_s) * NS
    assert found[0].t_ns <= (1143 + for_s) * NS


def test_absent_without_a_range_looks_back_five_minutes() -> None:
    silent = watch("absent(steward_gpu_busy_share)")
    silent.add(busy({"n1/gpu0": [0.5]}))

    assert silent.tick(1300 * NS) == []
    assert [item.t_ns for item in silent.tick(1400 * NS)] == [1300 * NS + 1]
