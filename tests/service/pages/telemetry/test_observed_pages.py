"""Parts of the pages about telemetry as HTML and options: pure, so no browser is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from observe.parcels import T0, label
from service.bed import ServiceBed
from steward.model.cluster_snapshot import GpuState
from steward.observe.intake import AgentRegistry
from steward.observe.throttling import throttle_reasons
from steward.service.pages.telemetry.figures import figure, title
from steward.service.pages.telemetry.gpu import contrast_table, gpu_figures, rhythm_text
from steward.service.pages.telemetry.node import gpu_table, job_table, node_figures
from steward.service.pages.telemetry.nodes import agent_table, collector_table, meter, node_table
from steward.service.pages.telemetry.panels import GPU_PANELS, MOST_CURVES, options, throttled
from steward.service.pages.telemetry.rhythm_map import GAP, cells_of
from steward.service.telemetry import Contrast, MetricHeatMap, Series
from steward.service.telemetry.heat_map import RhythmMap
from steward.service.telemetry.latest_values import CollectorState, NodeSummary, node_of


def series(
    values: list[float], *, metric: str = "gpu.busy_share", entity: str = "n/gpu0"
) -> Series:
    column = np.array(values)
    times = np.arange(float(len(values)))
    return Series(
        entity=entity, metric=metric, step_s=1.0, t_s=times, mean=column, least=column, most=column
    )


def heat(values: list[list[float]], metric: str = "gpu.power_watts") -> MetricHeatMap:
    return MetricHeatMap(
        entity="n/gpu0",
        metric=metric,
        from_s=0.0,
        rhythm_map=RhythmMap(column_s=1.0, row_s=0.5),
        period_s=0.5,
        values=np.array(values),
    )


def test_a_gap_in_a_curve_is_null_and_shares_are_percent() -> None:
    chart = options(GPU_PANELS[0], [series([0.5, np.nan, 0.25])], time=(0.0, 3.0))

    assert [y for _, y in chart["series"][0]["data"]] == [50.0, None, 25.0]
    assert chart["series"][0]["connectNulls"] is False
    assert chart["yAxis"]["max"] == 100


def test_of_many_curves_the_highest_are_drawn() -> None:
    many = [series([0.01 * at], entity=f"n/gpu{at}") for at in range(40)]

    chart = options(GPU_PANELS[0], many, time=(0.0, 3.0))

    assert len(chart["series"]) == MOST_CURVES
    assert chart["series"][-1]["name"].startswith("gpu39")


def test_throttling_is_marked_from_its_first_to_its_last_sample() -> None:
    bits = series([0, 4, 4, np.nan, 0x24, 0, 1, 1], metric="gpu.throttle_bits")

    assert throttled([bits]) == [(1.0, 3.0, "power cap"), (4.0, 5.0, "power cap, heat")]


def test_being_idle_is_no_throttling() -> None:
    assert throttle_reasons(0x1 | 0x2) == ()


def test_cells_go_from_low_to_high_and_gaps_have_their_own_mark() -> None:
    assert [*cells_of(heat([[100.0, 200.0], [np.nan, 150.0]]))] == [0, 254, GAP, 127]


def test_a_map_of_equal_values_has_one_colour() -> None:
    assert {*cells_of(heat([[5.0, 5.0]]))} == {0}


def test_a_map_says_how_it_is_read() -> None:
    said = rhythm_text(heat([[0.1, 0.2]], metric="gpu.busy_share"))

    assert "A column is one second, a cell 500 ms" in said


def test_what_was_different_is_listed_with_whose_it_was() -> None:
    one = Contrast(
        entity="n1",
        metric="host.pressure.io.some_share",
        inside=0.8,
        outside=0.1,
        samples_inside=3,
        samples_outside=9,
        distance=2.5,
    )

    said = contrast_table([one], "n1/gpu0")

    assert "node n1" in said
    assert "pressure io some" in said
    assert "Nothing to compare" in contrast_table([], "n1/gpu0")


@pytest.mark.parametrize(
    ("states", "changes", "said"),
    [
        ((GpuState.BUSY, GpuState.FREE), {}, "up"),
        ((GpuState.BUSY,), {"draining": True, "running": ("j1",)}, "draining"),
        ((GpuState.FREE,), {"draining": True}, "drained"),
        ((GpuState.BUSY, GpuState.FAILED), {}, "1 of 2 GPUs failed"),
        ((GpuState.FAILED,), {"draining": True}, "drained, 1 of 1 GPU failed"),
        ((GpuState.BUSY, GpuState.UNKNOWN), {}, "1 of 2 GPUs silent"),
        ((GpuState.UNKNOWN,), {"values": {}}, "no samples"),
    ],
)
def test_the_state_of_a_node_is_in_the_table(
    approval_bed: ServiceBed, states: tuple[GpuState, ...], changes: dict[str, Any], said: str
) -> None:
    some = next(approval_bed.live_state.refresh().cluster.gpus)
    gpus = tuple(replace(some, state=each, owner=None, borrower=None) for each in states)
    summary = NodeSummary(id="n1", gpus=gpus, values={"host.cpu.busy_share": 0.5}, parts={})

    shown = node_table((replace(summary, **changes),))

    assert ">State</th>" in shown
    assert f">{said}</span>" in shown


def test_a_node_that_is_drained_is_shown_as_such(approval_bed: ServiceBed) -> None:
    bed = approval_bed
    shown = bed.live_state.refresh().cluster
    node = replace(shown.nodes[0], draining=True)

    (summary,) = bed.live_state.latest.nodes(replace(shown, nodes=(node,)))

    assert summary.draining
    assert "draining" in node_table((summary,))


def test_a_node_in_words(approval_bed: ServiceBed) -> None:
    bed = approval_bed
    shown = bed.live_state.refresh().cluster
    nodes = bed.live_state.latest.nodes(shown)

    assert "/nodes/n1" in node_table(nodes)
    assert "unknown" in node_table(nodes)  # nobody has read its processors
    assert "/gpus/n1/gpu0" in gpu_table(nodes[0])
    assert "idle for" in job_table(nodes[0])
    assert "mean of 2 GPUs" in node_figures(nodes[0])
    assert "asked once per turn" in collector_table(bed.live_state.latest.collectors())


def test_a_gpu_that_only_samples_know_is_shown_too() -> None:
    said = gpu_figures(None, {"gpu.busy_share": 0.5, "gpu.throttle_bits": 4.0})

    assert "in no list of GPUs" in said
    assert "power cap" in said


def test_unknown_is_a_word_and_not_an_empty_bar() -> None:
    assert "unknown" in meter(None)
    assert "st-meter" in meter(0.0)


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("gpu.memory.used_bytes", 80 * 2.0**30, "80.0 GiB"),
        ("disk.read_bytes_per_s", 0.0, "0 B/s"),
        ("host.load_1m", 2.5, "2.5"),
        ("kernel.run_queue.wait.p99_seconds", 0.0023, "2.3 ms"),
    ],
)
def test_figures_have_the_unit_that_reads_best(metric: str, value: float, text: str) -> None:
    assert figure(metric, value).replace("\u202f", " ") == text


def test_names_of_metrics_lose_what_the_unit_says() -> None:
    assert title("disk.read_bytes_per_s") == "read"
    assert title("host.load_1m") == "load 1m"


def test_agents_are_listed_with_their_trouble() -> None:
    roster = AgentRegistry()
    roster.record(label(node="n1", version="0.1.0", offset_s=0.001, buffered_bytes=2048), T0 + 600)
    roster.record(label(node="n2", agent="a-2", offset_s=-2.5, gaps=3), T0 + 600)
    roster.record(label(node="n3", agent="a-3"), T0)

    rows = agent_table(roster.all(), T0 + 604).split("<tr>")[2:]

    assert [word in rows[0] for word in ("sends", "4 s ago", "0.1.0", "agrees", "2.0")] == [
        True
    ] * 5
    assert "clock is off, lost parcels" in rows[1]
    assert "2.5 s ahead" in rows[1]
    assert "3 parcels" in rows[1]
    assert "silent" in rows[2]
    assert "10 min 04 s ago" in rows[2]
    assert "No agents" in agent_table((), T0)


def test_a_file_system_is_a_part_of_its_node() -> None:
    parts = {"n1/fs:/var/lib": {"fs.used_bytes": 1.0}, "n1/fs:/": {}, "n1/disk:sda": {}, "n1@8": {}}
    state = NodeSummary(id="n1", gpus=(), values={}, parts=parts)

    assert list(state.of_kind("fs")) == ["n1/fs:/var/lib", "n1/fs:/"]
    assert node_of("n1/fs:/var/lib") == "n1"
    assert state.jobs == ("8",)


def test_a_collector_without_a_source_is_not_said_to_work() -> None:
    state = CollectorState(
        name="nvml", ticks=77, missed=0, failed=0, fault="", missing="there is no driver"
    )

    shown = collector_table((state,))

    assert "nothing to read: there is no driver" in shown
    assert "works" not in shown
    assert "77" not in shown
