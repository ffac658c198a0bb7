from __future__ import annotations

import polars as pl
import pytest

from factories import gpu_row, samples
from steward.observe import normalise as module
from steward.observe.normalise import Normaliser


def translate(
    vocabulary: str, rows: dict[str, dict[str, float | None]], t_s: float = 0.0
) -> pl.DataFrame:
    frame, _ = Normaliser(source="test", vocabulary=vocabulary).normalise(samples(t_s, rows))
    return frame


def test_foreign_names_and_units_become_ours() -> None:
    frame = translate(
        "dcgm", {"n1/gpu0": {"DCGM_FI_DEV_GPU_UTIL": 50.0, "DCGM_FI_DEV_FB_USED": 2.0}}
    )

    assert frame["gpu.busy_share"].to_list() == [0.5]
    assert frame["gpu.memory.used_bytes"].to_list() == [2.0 * 2**20]


def test_both_spellings_of_one_metric_end_in_one_column() -> None:
    frame = translate(
        "dcgm",
        {
            "n1/gpu0": {"DCGM_FI_DEV_GPU_UTIL": 50.0},
            "n1/gpu1": {"DCGM_FI_DEV_GPU_UTIL_RATIO": 0.7},
        },
    )

    assert frame["gpu.busy_share"].to_list() == [0.5, 0.7]


@pytest.mark.parametrize("blank", [9223372036854775794.0, 140737488355328.0, 2147483632.0])
def test_dcgms_blanks_are_missing_values(blank: float) -> None:
    assert translate("dcgm", {"g": {"DCGM_FI_DEV_GPU_TEMP": blank}})[
        "gpu.temperature_celsius"
    ].to_list() == [None]


def test_numbers_that_are_none_are_missing_values() -> None:
    frame = translate("canonical", {"g": {"gpu.busy_share": float("nan")}})

    assert frame["gpu.busy_share"].to_list() == [None]


def test_unknown_metrics_are_named_once_and_left_out() -> None:
    normaliser = Normaliser(source="test", vocabulary="canonical")

    frame, first = normaliser.normalise(samples(0.0, {"g": {"gpu.magic": 1.0}}))
    _, second = normaliser.normalise(samples(1.0, {"g": {"gpu.magic": 1.0}}))

    assert "gpu.magic" not in frame.columns
    assert [(event.kind, event.subject) for event in first] == [
        ("telemetry.unknown-metric", "gpu.magic")
    ]
    assert second == ()


def test_counters_become_rates_across_frames() -> None:
    normaliser = Normaliser(source="test", vocabulary="canonical")

    first, _ = normaliser.normalise(samples(0.0, {"job:1": {"job.cpu_seconds": 100.0}}))
    second, _ = normaliser.normalise(samples(10.0, {"job:1": {"job.cpu_seconds": 125.0}}))

    assert first["job.cpu.busy_cores"].to_list() == [None]
    assert second["job.cpu.busy_cores"].to_list() == [2.5]
    assert "job.cpu_seconds" not in second.columns


def test_a_counter_that_fell_was_reset_and_is_unknown_for_one_period() -> None:
    normaliser = Normaliser(source="test", vocabulary="canonical")
    rates = [
        normaliser.normalise(samples(t_s, {"job:1": {"job.cpu_seconds": value}}))[0][
            "job.cpu.busy_cores"
        ][0]
        for t_s, value in ((0.0, 50.0), (1.0, 3.0), (2.0, 4.0))
    ]

    assert rates == [None, None, 1.0]


def test_counters_of_several_moments_in_one_frame_keep_their_rows() -> None:
    rows = pl.concat(
        [
            samples(t, {"job:1": {"job.cpu_seconds": t}, "job:2": {"job.cpu_seconds": 2 * t}})
            for t in (1.0, 2.0)
        ]
    )

    frame, _ = Normaliser(source="test", vocabulary="canonical").normalise(rows)

    assert frame["entity"].to_list() == ["job:1", "job:2", "job:1", "job:2"]
    assert frame["job.cpu.busy_cores"].to_list() == [None, None, 1.0, 2.0]


def test_a_gpu_that_was_silent_for_long_is_reported_when_it_uses_again() -> None:
    normaliser = Normaliser(source="test", vocabulary="canonical", gap_after_s=60.0)
    normaliser.normalise(samples(0.0, {"n1/gpu0": {"gpu.busy_share": 0.1}, "job:1": {}}))

    _, events = normaliser.normalise(
        samples(100.0, {"n1/gpu0": {"gpu.busy_share": 0.1}, "job:1": {}})
    )

    assert [(event.kind, event.subject, event.text) for event in events] == [
        ("telemetry.gap", "n1/gpu0", "no samples for 100 s")
    ]


def test_rows_without_an_entity_are_left_out_and_counted() -> None:
    normaliser = Normaliser(source="test", vocabulary="canonical")
    frame = samples(0.0, {"g": {"gpu.busy_share": 0.1}})
    nameless = frame.with_columns(pl.lit(None, dtype=pl.String).alias("entity"))

    kept, events = normaliser.normalise(frame.vstack(nameless).vstack(nameless))
    nothing, _ = normaliser.normalise(nameless)

    assert kept.height == 1
    assert [event.text for event in events] == ["2 rows without a time or an entity are left out"]
    assert nothing.height == 0


def test_counters_of_what_is_gone_are_not_remembered_for_ever() -> None:
    normaliser = Normaliser(source="test", vocabulary="canonical", gap_after_s=60.0)
    for number in range(50):
        rows = {f"job:{number}": {"job.cpu_seconds": 1.0}}
        normaliser.normalise(samples(number * 30.0, rows))

    assert 0 < sum(each.height for each in normaliser._counters.values()) <= 3


def test_a_rate_that_the_source_gives_wins_over_two_readings_of_its_counter() -> None:
    normaliser = Normaliser(source="test", vocabulary="canonical")
    rows = [(0.0, 0.0, None), (10.0, 1000.0, 7.0), (20.0, 3000.0, None)]

    frames = [
        normaliser.normalise(
            samples(t_s, {"n1/gpu0": {"gpu.energy_joules": joules, "gpu.energy.mean_watts": watts}})
        )[0]
        for t_s, joules, watts in rows
    ]

    assert [frame["gpu.energy.mean_watts"].to_list() for frame in frames] == [
        [None],
        [7.0],
        [200.0],
    ]


def test_a_batch_of_ticks_has_the_rates_of_each_in_the_order_of_its_rows() -> None:
    normaliser = Normaliser(source="test", vocabulary="canonical")
    ticks = [(2.0, "b", 20.0), (1.0, "a", 5.0), (2.0, "a", 8.0), (1.0, "b", 0.0), (3.0, "a", 1.0)]
    batch = pl.DataFrame(ticks, schema=["t_s", "entity", "gpu.energy_joules"], orient="row")

    frame, _ = normaliser.normalise(batch)

    assert frame["gpu.energy.mean_watts"].to_list() == [20.0, None, 3.0, None, None]


def test_silence_within_one_batch_is_a_gap_too() -> None:
    normaliser = Normaliser(source="test", vocabulary="canonical", gap_after_s=5.0)
    batch = pl.concat(
        samples(t_s, {"n1/gpu0": {"gpu.busy_share": 0.1}}) for t_s in (1.0, 2.0, 20.0)
    )

    _, events = normaliser.normalise(batch)

    assert [(event.kind, event.text) for event in events] == [
        ("telemetry.gap", "no samples for 18 s")
    ]


def test_what_comes_late_makes_no_gap_of_what_came_in_time() -> None:
    normaliser = Normaliser(source="intake", vocabulary="canonical", gap_after_s=60.0)

    result = [
        normaliser.normalise(samples(t_s, {"n1/gpu0": gpu_row(0.5)}))[1]
        for t_s in (4000.0, 100.0, 4010.0)  # a backlog of another sender arrives in between
    ]

    assert result == [(), (), ()]


def test_the_silence_of_endless_names_is_not_remembered_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_SEEN", 5)
    normaliser = Normaliser(source="intake", vocabulary="canonical", gap_after_s=60.0)

    for number in range(20):
        rows = {f"n{number}": gpu_row(0.5), "n0/gpu0": gpu_row(0.5)}
        normaliser.normalise(samples(float(number), rows))
    _, events = normaliser.normalise(samples(500.0, {"n0/gpu0": gpu_row(0.5)}))

    assert len(normaliser._seen_s) == 5
    assert [event.subject for event in events] == ["n0/gpu0"]  # entities with samples are kept


def test_a_frame_without_one_usable_row_is_reported_and_not_dropped_in_silence() -> None:
    made = Normaliser(source="x", vocabulary="canonical")
    schema = {"t_s": pl.Float64, "entity": pl.String, "gpu.busy_share": pl.Float64}
    nameless = pl.DataFrame([(7.0, None, 0.5), (8.0, None, 0.5)], schema=schema, orient="row")
    timeless = pl.DataFrame([(None, "n1", 0.5)], schema=schema, orient="row")

    found = [made.normalise(frame) for frame in (nameless, timeless)]

    assert [frame.height for frame, _ in found] == [0, 0]
    (first,), (second,) = (events for _, events in found)
    assert (first.kind, first.t_s) == ("telemetry.nameless-rows", 8.0)
    assert "2 rows without a time or an entity" in first.text
    assert "1 rows" in second.text


def test_a_row_whose_time_is_not_a_number_hides_no_silence_of_others() -> None:
    made = Normaliser(source="x", vocabulary="canonical", gap_after_s=60.0)
    schema = {"t_s": pl.Float64, "entity": pl.String, "gpu.busy_share": pl.Float64}
    rows = [(float("nan"), "n0/gpu0", 0.5), (10.0, "n1/gpu0", 0.5), (10.0, "n2/gpu0", 0.5)]

    _, (lost,) = made.normalise(pl.DataFrame(rows, schema=schema, orient="row"))
    _, (gap,) = made.normalise(samples(1000.0, {"n1/gpu0": gpu_row(0.5)}))

    assert lost.kind == "telemetry.nameless-rows"
    assert (gap.kind, gap.subject) == ("telemetry.gap", "n1/gpu0")
