"""Hold times per entity, and counts of unusable samples."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decide.rules.metric.frames import BUSY, IDLE, busy, reports, watch
from steward.decide.rules.metric import MetricWatch, compile_metric, sort_frame
from steward.model.rules import MetricTerm


def test_it_is_told_once_when_the_time_is_full() -> None:
    idle = watch(for_s=30)

    found = idle.add(busy({"n1/gpu0": [0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]}))

    assert reports(found) == [("n1/gpu0", 1040.0, 1010.0)]
    assert found[0].metric == BUSY
    assert found[0].value == 0.1
    assert found[0].extracted == {"node": "n1", "gpu": "0"}
    assert found[0].text == "steward_gpu_busy_share < 0.3: 0.1"


def test_it_is_told_again_only_after_it_has_not_held() -> None:
    idle = watch(for_s=10)

    found = idle.add(busy({"n1/gpu0": [0.1, 0.1, 0.1, 0.9, 0.1, 0.1, 0.1]}))

    assert reports(found) == [("n1/gpu0", 1010.0, 1000.0), ("n1/gpu0", 1050.0, 1040.0)]


def test_each_entity_has_its_own_time() -> None:
    idle = watch(for_s=20)

    found = idle.add(
        busy({"n1/gpu0": [0.1] * 4, "n1/gpu1": [0.9, 0.1, 0.1, 0.1], "n2/gpu0": [0.9] * 4})
    )

    assert reports(found) == [("n1/gpu0", 1020.0, 1000.0), ("n1/gpu1", 1030.0, 1010.0)]


def test_what_it_knows_lasts_from_frame_to_frame() -> None:
    idle = watch(for_s=30)

    first = idle.add(busy({"n1/gpu0": [0.1, 0.1]}))
    second = idle.add(busy({"n1/gpu0": [0.1, 0.1]}, from_s=1020.0))

    assert first == []
    assert reports(second) == [("n1/gpu0", 1030.0, 1000.0)]


def test_a_fresh_watch_has_read_nothing() -> None:
    idle = watch(for_s=30)
    idle.add(busy({"n1/gpu0": [0.1, 0.1]}))

    again = idle.fresh()

    assert again.add(busy({"n1/gpu0": [0.1, 0.1]}, from_s=1020.0)) == []


@pytest.mark.parametrize(("gap_s", "since_s"), [(60.0, 1000.0), (150.0, 1160.0), (400.0, 1410.0)])
def test_a_gap_in_which_nobody_looked_begins_anew(gap_s: float, since_s: float) -> None:
    idle = watch(for_s=20)
    idle.add(busy({"n1/gpu0": [0.9, 0.1]}, from_s=990.0, step_s=10.0))

    found = idle.add(busy({"n1/gpu0": [0.1, 0.1, 0.1]}, from_s=1010.0 + gap_s))

    assert found[0].since_ns / 1e9 == since_s


def test_missing_values_neither_hold_nor_break_it() -> None:
    idle = watch(for_s=30)

    found = idle.add(busy({"n1/gpu0": [0.1, None, None, 0.1]}))

    assert reports(found) == [("n1/gpu0", 1030.0, 1000.0)]


def test_no_number_is_no_value_from_then_on() -> None:
    idle = watch(for_s=30)

    found = idle.add(busy({"n1/gpu0": [0.1, 0.1, float("nan"), 0.1, 0.1]}))

    assert found == []


def test_it_is_looked_at_once_in_an_interval() -> None:
    idle = watch(interval_s=60)
    values = [0.9, 0.1, 0.1, 0.9, 0.9, 0.9, 0.9, 0.9, 0.1, 0.1, 0.1, 0.1, 0.1]

    found = idle.add(busy({"n1/gpu0": values}, from_s=1020.0))

    # At 1020, 1080 and 1140: what is between them is not seen.
    assert reports(found) == [("n1/gpu0", 1140.0, 1140.0)]


def test_late_rows_are_counted_and_change_nothing() -> None:
    idle = watch(for_s=20)
    idle.add(busy({"n1/gpu0": [0.1, 0.1]}))

    found = idle.add(busy({"n1/gpu0": [0.9, 0.9]}, from_s=990.0))
    found += idle.add(busy({"n1/gpu0": [0.1]}, from_s=1020.0))

    assert reports(found) == [("n1/gpu0", 1020.0, 1000.0)]
    assert idle.counts.late == 2


def test_rows_without_a_time_or_an_entity_are_counted() -> None:
    idle = watch()
    frame = busy({"n1/gpu0": [0.1, 0.1, 0.1]}).with_columns(
        t_s=pl.Series([None, float("nan"), 1e300])
    )

    assert idle.add(frame) == []
    assert idle.counts.untimed == 3


def test_nothing_to_read_is_nothing_to_tell() -> None:
    idle = watch()

    assert idle.add(busy({})) == []
    assert idle.add(busy({"n1": [1.0]}, metric="host.load_1m")) == []
    assert idle.tick(10**18) == []
    assert idle.finish() == []


def test_one_frame_can_be_arranged_for_many() -> None:
    frame = sort_frame(busy({"n1/gpu0": [0.1, 0.1], "n0/gpu0": [0.1, 0.9]}))

    assert len(watch().add(frame)) == 2
    assert len(watch(for_s=10).add(frame)) == 1


def test_the_silent_are_forgotten_when_there_are_too_many() -> None:
    idle = compile_metric(MetricTerm(expr=IDLE, for_s=20), most_series=10)
    idle.add(busy({f"n{i}/gpu0": [0.1] for i in range(8)}))
    idle.add(busy({f"n{i}/gpu0": [0.1] for i in range(4, 14)}, from_s=1010.0))

    found = idle.add(busy({f"n{i}/gpu0": [0.1] for i in range(14)}, from_s=1020.0))

    assert idle.counts.evicted >= 5
    assert {item.entity for item in found} <= {f"n{i}/gpu0" for i in range(4, 8)}
    assert found


def test_ten_thousand_entities_of_which_each_comes_once_take_no_room() -> None:
    idle = compile_metric(MetricTerm(expr=IDLE, for_s=20), most_series=100)

    for turn in range(10):
        names = {f"n{turn}-{i}/gpu0": [0.1] for i in range(1000)}
        assert idle.add(busy(names, from_s=1000.0 + turn)) == []

    assert idle.counts.evicted == 9_000 - 90
    assert len(idle._evaluation._buffer.known) == 90 + 1000  # type: ignore[attr-defined]


def test_forgetting_keeps_what_a_selector_means() -> None:
    expr = 'steward_gpu_busy_share{gpu="1"} < 0.3'
    idle = compile_metric(MetricTerm(expr=expr, for_s=10), most_series=4)
    idle.add(busy({f"n1/gpu{i}": [0.1] for i in range(6)}))

    found = idle.add(busy({f"n{i}/gpu1": [0.1, 0.1] for i in (7, 8)}, from_s=1010.0))

    assert {item.entity for item in found} == {"n7/gpu1", "n8/gpu1"}


def test_results_are_forgotten_when_there_are_too_many() -> None:
    expr = "avg by (node) (steward_gpu_busy_share) < 0.3"
    idle = compile_metric(MetricTerm(expr=expr, for_s=20), most_series=10)
    found = []

    for turn in range(4):
        names = {"n1/gpu0": [0.1], **{f"m{turn}-{i}/gpu0": [0.9] for i in range(9)}}
        found += idle.add(busy(names, from_s=1000.0 + 10 * turn))

    assert reports(found) == [("n1", 1020.0, 1000.0)]
    assert idle.counts.evicted > 20


def test_one_of_two_metrics_may_come_later() -> None:
    both = watch("steward_gpu_busy_share < 0.3 and steward_gpu_power_watts > 300")

    first = both.add(busy({"n1/gpu0": [0.1], "n2/gpu0": [0.1]}))
    second = both.add(busy({"n1/gpu0": [400.0]}, metric="gpu.power_watts", from_s=1010.0))

    assert first == []
    assert reports(second) == [("n1/gpu0", 1010.0, 1010.0)]


def test_a_series_ends_when_another_job_gets_the_gpu() -> None:
    idle = watch(for_s=30)
    frame = busy({"n1/gpu0": [0.1] * 8}).with_columns(
        job_id=pl.Series(["812"] * 3 + ["830"] * 5, dtype=pl.String)
    )

    found = idle.add(frame)

    assert reports(found) == [("n1/gpu0", 1060.0, 1030.0)]
    assert found[0].extracted["job_id"] == "830"


def test_dcgm_names_are_in_the_unit_of_dcgm() -> None:
    used = busy({"n1/gpu0": [2.0**30]}, metric="gpu.memory.used_bytes")

    found = watch("DCGM_FI_DEV_FB_USED > 1000").add(used)

    assert found[0].value == 1024.0
    assert watch("DCGM_FI_DEV_FB_USED > 1024").add(used) == []


def test_the_rate_of_a_counter_is_the_mean_of_what_is_kept_of_it() -> None:
    replays = busy({"n1/gpu0": [1.0, 2.0, 3.0]}, metric="gpu.pcie.replays_per_s")
    name = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"

    assert watch(f"rate({name}[1m]) > 0").values(replays)["value"].to_list() == [1.0, 1.5, 2.0]
    assert watch(f"irate({name}[1m]) > 0").values(replays)["value"].to_list() == [1.0, 2.0, 3.0]
    assert watch(f"increase({name}[1m]) > 0").values(replays)["value"][0] == 60.0


def test_a_variance_has_the_square_of_the_unit() -> None:
    used = busy({"n1/gpu0": [0.0, 2.0**21]}, metric="gpu.memory.used_bytes")

    found = watch("stdvar_over_time(DCGM_FI_DEV_FB_USED[1m]) > 0").add(used)

    assert found[0].value == 1.0


def test_the_processor_by_what_it_did() -> None:
    user = busy({"n1": [4.0]}, metric="host.cpu.user_cores")

    found = watch('rate(node_cpu_seconds_total{mode="user", instance=~"n.*"}[5m]) > 3').add(user)

    assert found[0].value == 4.0


def test_metrics_that_nobody_has_translated_keep_their_names_and_labels() -> None:
    waiting = busy(
        {'n1{engine="0",model="a\\"b"}': [9.0], 'n1{engine="1"}': [9.0]},
        metric="vllm:num_requests_waiting",
    )

    found = watch('vllm:num_requests_waiting{engine="0"} > 5').add(waiting)

    assert found[0].extracted == {"node": "n1", "engine": "0", "model": 'a"b'}


@pytest.mark.parametrize(
    ("matchers", "entities"),
    [
        ('entity="n1/gpu0"', {"n1/gpu0"}),
        ('instance!="n1"', {"n2/gpu0"}),
        ('Hostname=~"n[13]"', {"n1/gpu0", "n1/gpu1"}),
        ('gpu!~"1", node="n1"', {"n1/gpu0"}),
        ('job_id=""', {"n1/gpu0", "n1/gpu1", "n2/gpu0"}),
        ('node="n"', set()),
    ],
)
def test_labels_choose_entities(matchers: str, entities: set[str]) -> None:
    frame = busy({"n1/gpu0": [0.1], "n1/gpu1": [0.1], "n2/gpu0": [0.1]})

    found = watch(f"steward_gpu_busy_share{{{matchers}}} < 0.3").add(frame)

    assert {item.entity for item in found} == entities


rows = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 120),
        st.sampled_from([0.1, 0.2, 0.5, 0.9, None, float("nan")]),
    ),
    max_size=60,
)
EXPRESSIONS = [
    "steward_gpu_busy_share < 0.3",
    "avg_over_time(steward_gpu_busy_share[20s]) < 0.3",
    "avg by (node) (steward_gpu_busy_share) < 0.4",
    "steward_gpu_busy_share < on (node) group_left avg by (node) (steward_gpu_busy_share)",
    "absent_over_time(steward_gpu_busy_share[15s])",
    "count(absent(steward_gpu_busy_share)) > 0",
]


@settings(max_examples=60, deadline=None)
@given(rows=rows, cuts=st.sets(st.integers(0, 120), max_size=4), expr=st.sampled_from(EXPRESSIONS))
def test_how_telemetry_is_cut_into_frames_does_not_matter(
    rows: list[tuple[int, int, float | None]], cuts: set[int], expr: str
) -> None:
    once = {(entity, t): value for entity, t, value in rows}
    frame = pl.DataFrame(
        [(1000.0 + t, f"n{entity // 2}/gpu{entity % 2}", v) for (entity, t), v in once.items()],
        schema={"t_s": pl.Float64, "entity": pl.String, BUSY: pl.Float64},
        orient="row",
    )
    # The clock is that of most entities; one with all samples gives the same clock to both.
    clock = busy({"n9/gpu0": [0.9] * 122, "n9/gpu1": [0.9] * 122, "n9/gpu2": [0.9] * 122}, step_s=1)
    clock = pl.concat([clock, clock.with_columns(pl.col("entity") + "0")])
    frame = pl.concat([frame, clock]).sort("t_s")
    whole, parts = watch(expr, for_s=20), watch(expr, for_s=20)
    edges = [0.0, *(1000.0 + cut for cut in sorted(cuts)), 1e9]

    expected = [*whole.add(frame), *whole.finish()]
    found = []
    for begin, end in pairwise(edges):
        found += parts.add(frame.filter(pl.col("t_s").is_between(begin, end, closed="left")))
    found += parts.finish()

    assert sorted(reports(found)) == sorted(reports(expected))


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.sampled_from([0.1, 0.9]), min_size=1, max_size=40), for_s=st.integers(0, 60)
)
def test_holding_is_what_a_slow_and_obvious_reading_says(values: list[float], for_s: int) -> None:
    since: int | None = None
    expected = []
    full = False
    for i, value in enumerate(values):
        if value >= 0.3:
            since, full = None, False
            continue
        since = i if since is None else since
        if not full and (i - since) * 10 >= for_s:
            full = True
            expected.append(("n1/gpu0", 1000.0 + 10 * i, 1000.0 + 10 * since))

    assert reports(watch(for_s=for_s).add(busy({"n1/gpu0": values}))) == expected


def test_one_clock_that_is_far_ahead_does_not_make_the_others_silent() -> None:
    silent = watch("absent_over_time(steward_gpu_busy_share[1m])")
    frame = busy({f"n{i}/gpu0": [0.5, 0.5] for i in range(5)})
    wrong = busy({"n9/gpu0": [0.5]}, from_s=9e8)

    assert silent.add(pl.concat([frame, wrong])) == []
    assert np.isfinite(silent.due_ns)


def ended(watched: MetricWatch) -> list[tuple[str, float, float]]:
    return [
        (reports.entity, reports.since_ns / 1e9, until / 1e9) for reports, until in watched.ended
    ]


def test_the_end_of_what_was_told_is_known_and_told_once() -> None:
    idle = watch(for_s=20.0)

    idle.add(busy({"n1/gpu0": [0.1, 0.1, 0.1, 0.1, 0.9, 0.1, 0.9]}))
    assert ended(idle) == [("n1/gpu0", 1000.0, 1040.0)]  # the second time was too short

    idle.add(busy({"n1/gpu0": [0.9]}, from_s=1100.0))
    assert ended(idle) == []


def test_a_condition_of_which_nobody_speaks_any_more_is_over_when_it_is_not_believed() -> None:
    idle = watch()
    idle.add(busy({"n1/gpu0": [0.1, 0.1]}))

    idle.tick(1200 * 10**9)
    assert ended(idle) == []
    idle.tick(1400 * 10**9)
    assert ended(idle) == [("n1/gpu0", 1000.0, 1310.0)]
    items = idle.add(busy({"n1/gpu0": [0.1]}, from_s=1500.0))

    assert ended(idle) == []  # it was reported already
    assert reports(items) == [("n1/gpu0", 1500.0, 1500.0)]
