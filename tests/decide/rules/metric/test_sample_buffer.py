"""Terms that store their samples together find what each of them finds alone."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from decide.rules.metric.frames import busy
from steward.decide.rules.metric import KeyIndex, compile_metric, sample_buffer, sort_frame
from steward.model.rules import MetricTerm

EXPRESSIONS = (
    "steward_gpu_busy_share < 0.3",
    'steward_gpu_busy_share{gpu="1"} < 0.3',
    "avg_over_time(steward_gpu_busy_share[2m]) < 0.3 and steward_gpu_power_watts > 100",
    "avg by (node) (steward_gpu_busy_share) < 0.3",
    "max_over_time(steward_gpu_power_watts[10m] offset 1m) > 100",
    "steward_gpu_power_watts > on (node) group_left () steward_host_load_1m",
    "absent_over_time(steward_gpu_power_watts[1m])",
    'steward_phase{phase="compile"} == 1',
    "steward_phase == 1",
)
METRICS = ("gpu.busy_share", "gpu.power_watts", "host.load_1m", "phase:compile", "phase:eval")

cells = st.tuples(
    st.integers(0, 5),  # which GPU of three nodes
    st.sampled_from(METRICS),
    st.sampled_from([0.1, 1.0, 400.0]),
    st.sampled_from(["", "", "j1", "j2"]),
)
frames = st.tuples(st.lists(cells, max_size=6), st.sampled_from([0.5, 1.0, 4.0, 70.0]))


def _frame(rows: list[tuple[int, str, float, str]], t_s: float) -> pl.DataFrame:
    parts = [
        busy({f"n{gpu // 2}/gpu{gpu % 2}": [value]}, metric=metric, from_s=t_s).with_columns(
            job_id=pl.lit(job or None, pl.String)
        )
        for gpu, metric, value, job in rows
    ]
    return pl.concat([busy({}), *parts], how="diagonal")


@settings(max_examples=25, deadline=None, phases=[Phase.generate])
@given(st.lists(frames, min_size=1, max_size=8))
def test_what_is_found_with_shared_samples_is_what_each_term_finds_alone(
    looks: list[tuple[list[tuple[int, str, float, str]], float]],
) -> None:
    terms = [MetricTerm(expr=each, for_s=30.0) for each in EXPRESSIONS]
    alone = [compile_metric(each) for each in terms]
    together = [compile_metric(each) for each in terms]
    keys, t_s = KeyIndex(), 1000.0
    for watch in together:
        watch.share(keys)

    for rows, minutes in looks:
        t_s += 60.0 * minutes
        frame = _frame(rows, t_s)
        shared = sort_frame(frame, keys)
        for one, other in zip(alone, together, strict=True):
            assert other.add(shared) == one.add(frame)
            assert (other.ended, other.holding()) == (one.ended, one.holding())
            assert other.tick(round(t_s * 1e9) + 10**10) == one.tick(round(t_s * 1e9) + 10**10)
            recently_ns = round((t_s - 300.0) * 1e9)
            assert other.reporting_nodes(recently_ns) == one.reporting_nodes(recently_ns)
    for one, other in zip(alone, together, strict=True):
        assert (other.finish(), other.counts) == (one.finish(), one.counts)


def test_each_sample_is_stored_once_for_all_terms() -> None:
    keys = KeyIndex()
    watches = [compile_metric(MetricTerm(expr=each)) for each in EXPRESSIONS[:4]]
    for watch in watches:
        watch.share(keys)

    rows = sort_frame(busy({"n1/gpu0": [0.1, 0.1, 0.1]}), keys)
    for watch in watches:
        watch.add(rows)

    (buffer,) = keys.buffers.values()
    assert len(buffer.columns_kept["gpu.busy_share"].samples.t) == 3
    assert [watch.counts.late for watch in watches] == [0, 0, 0, 0]


def test_samples_are_kept_as_far_back_as_the_term_that_looks_back_furthest() -> None:
    keys = KeyIndex()
    short = compile_metric(MetricTerm(expr="steward_gpu_busy_share < 0.3"))
    long = compile_metric(MetricTerm(expr="count_over_time(steward_gpu_busy_share[100s]) > 9"))
    found = []
    for watch in (long, short):
        watch.share(keys)

    for turn in range(12):
        rows = sort_frame(busy({"n1/gpu0": [0.9]}, from_s=1000.0 + 10 * turn), keys)
        found += short.add(rows) + long.add(rows)

    assert [item.value for item in found] == [10.0]
    (buffer,) = keys.buffers.values()
    assert len(buffer.columns_kept["gpu.busy_share"].samples.t) < 13


def test_series_that_ended_are_dropped_for_all_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_buffer, "_AWAY_NS", 0)
    keys = KeyIndex()
    watches = [compile_metric(MetricTerm(expr=each, for_s=60)) for each in EXPRESSIONS[:4]]
    for watch in watches:
        watch.share(keys)

    for turn in range(40):
        gone = {f"m{turn}/gpu1": [0.1]}
        rows = sort_frame(busy({"n1/gpu1": [0.1], **gone}, from_s=1000.0 + 60 * turn), keys)
        for watch in watches:
            watch.add(rows)

    (buffer,) = keys.buffers.values()
    assert len(buffer.known) < 25
    assert all("n1/gpu1" in watch.holding() for watch in watches[:2])


def test_what_was_looked_up_is_kept_for_others_unless_it_is_very_much() -> None:
    buffer = sample_buffer.SampleBuffer(most_series=10, by_job=True)
    few, many = np.zeros(5, np.int64), np.zeros(100_001, np.int64)

    assert buffer.found_at(b"", few) is buffer.found_at(b"", few)
    assert buffer.found_at(b"", many) is not buffer.found_at(b"", many)


def test_samples_of_other_metrics_bring_on_the_time_of_a_term_without_them() -> None:
    across = compile_metric(MetricTerm(expr="max by (node) (steward_gpu_busy_share) < 0.3"))
    power = pl.DataFrame({"t_s": [1005.0], "entity": ["n1/gpu0"], "gpu.power_watts": [300.0]})

    early = across.add(busy({"n1/gpu0": [0.1]}, from_s=1000.2))
    found = across.add(power)

    assert early == []  # its second is not over
    assert [item.t_ns for item in found] == [1001 * 10**9]


def test_what_ended_is_listed_in_one_order_whatever_came_first() -> None:
    names = ["n1/gpu0", "n2/gpu0"]
    found = []
    for order in (names, names[::-1]):
        watch = compile_metric(MetricTerm(expr="steward_gpu_busy_share < 0.3"))
        watch.add(busy({name: [0.1] for name in order}, from_s=1000.0))
        watch.add(busy({name: [0.9] for name in order}, from_s=1010.0))
        found.append([each.item.entity for each in watch.ended])

    assert found == [names, names]


def test_silence_is_due_by_the_last_value_and_not_by_a_marker_of_its_end() -> None:
    term = MetricTerm(expr="absent_over_time(steward_gpu_busy_share[60s])")
    watch = compile_metric(term)

    watch.add(busy({"n1/gpu0": [0.5, float("nan")]}, from_s=1440.0, step_s=20.0))

    assert watch.tick(1499 * 10**9) == []
    assert [item.entity for item in watch.tick(1501 * 10**9)] == ["n1/gpu0"]


def test_ranges_of_one_selector_are_looked_up_for_the_same_series() -> None:
    expr = (
        "avg by (node) (avg_over_time(steward_gpu_busy_share[20s]))"
        " < 0.5 * avg by (node) (avg_over_time(steward_gpu_busy_share[2m]))"
    )
    falls = compile_metric(MetricTerm(expr=expr))

    found = falls.add(busy({"n1/gpu0": [0.8] * 10 + [0.1] * 3, "n2/gpu0": [0.8] * 13}))

    assert [item.entity for item in found] == ["n1"]
