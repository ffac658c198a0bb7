"""A dcgm-exporter's page becomes rows of GPUs and slices, and spans of the jobs that it names."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.dcgm_exporter import MOST_BYTES, DcgmExporter
from steward.clients.host import hostname
from steward.errors import StewardError
from steward.model.event import Observation
from steward.model.frame import check_frame
from steward.observe.collectors.dcgm import Dcgm
from steward.observe.normalise import Normaliser

PAGES = Path(__file__).parents[2] / "data" / "dcgm-exporter"
OLD, NEW = ((PAGES / name).read_text() for name in ("3.3.txt", "4.9.txt"))
REMOTE = "http://n07.example:9400/metrics"


class Page:
    """An exporter whose page can be changed between two looks."""

    def __init__(self, text: str | bytes, status: int = 200) -> None:
        self.text = text
        self.status = status

    def exporter(self, url: str = "http://127.0.0.1:9400/metrics") -> DcgmExporter:
        def answer(_request: httpx.Request) -> httpx.Response:
            return httpx.Response(self.status, content=self.text)

        return DcgmExporter(url, transport=httpx.MockTransport(answer))

    def collector(self, url: str = "http://127.0.0.1:9400/metrics", node: str = "n1") -> Dcgm:
        return Dcgm(exporter=self.exporter(url), node=node)


def canonical(seen: Observation) -> dict[str, dict[str, float | None]]:
    frame, events = Normaliser(source="dcgm", vocabulary="dcgm").normalise(seen.frame)
    assert events == ()
    return {row.pop("entity"): row for row in frame.to_dicts()}


def test_gpus_and_slices_are_rows_in_our_units() -> None:
    seen = Page(OLD).collector().collect(5.0)

    check_frame(seen.frame, where="test")
    rows = canonical(seen)
    assert set(rows) == {"n1/gpu0", "n1/gpu1", "n1/gpu1/mig1", "n1/gpu1/mig2"}
    assert rows["n1/gpu0"]["gpu.busy_share"] == pytest.approx(0.87)
    assert rows["n1/gpu0"]["gpu.power_watts"] == pytest.approx(512.34)
    assert rows["n1/gpu0"]["gpu.memory.used_bytes"] == 40_600 * 2**20
    assert rows["n1/gpu0"]["gpu.graphics.active_share"] == pytest.approx(0.861234)
    assert rows["n1/gpu1"]["gpu.rows.remapped_uncorrectable_count"] == 1.0
    assert rows["n1/gpu1/mig2"]["gpu.dram.active_share"] == pytest.approx(0.2)


def test_what_dcgm_calls_blank_is_unknown() -> None:
    rows = canonical(Page(OLD).collector().collect(5.0))

    assert rows["n1/gpu1"]["gpu.memory.temperature_celsius"] is None
    assert rows["n1/gpu0"]["gpu.memory.temperature_celsius"] == 58.0


def test_the_names_and_units_of_dcgm_4_7_mean_the_same() -> None:
    (row,) = canonical(Page(NEW).collector().collect(5.0)).values()

    assert row["gpu.busy_share"] == pytest.approx(0.95)
    assert row["gpu.copy.busy_share"] == pytest.approx(0.71)
    assert row["gpu.clock.sm_hz"] == 1.98e9
    assert row["gpu.memory.limit_bytes"] == 150_754_820_096
    assert row["gpu.tensor.active_share"] == pytest.approx(0.479)
    assert row["gpu.power_watts"] == pytest.approx(399.506)


def test_dcgm_4_6_had_a_percentage_under_the_name_of_a_ratio() -> None:
    page = Page('DCGM_FI_DEV_GPU_UTIL_RATIO{gpu="0"} 87\nDCGM_FI_DEV_GPU_UTIL_RATIO{gpu="1"} 1\n')
    collector = page.collector()

    first = canonical(collector.collect(5.0))
    page.text = 'DCGM_FI_DEV_GPU_UTIL_RATIO{gpu="0"} 1\n'
    second = canonical(collector.collect(6.0))

    assert first["n1/gpu0"]["gpu.busy_share"] == pytest.approx(0.87)
    assert first["n1/gpu1"]["gpu.busy_share"] == pytest.approx(0.01)
    assert second["n1/gpu0"]["gpu.busy_share"] == pytest.approx(0.01)


def test_names_that_are_not_in_the_table_are_kept_as_other_metrics() -> None:
    other = Page(NEW).collector().collect(5.0).other

    assert other.to_dicts() == [
        {"t_s": 5.0, "entity": "n1/gpu0", "metric": "DCGM_EXP_XID_ERRORS_COUNT", "value": 0.0}
    ]


def test_values_of_no_gpu_belong_to_the_node() -> None:
    page = Page('DCGM_FI_DEV_NVSWITCH_X{nvswitch="3"} 4\nDCGM_FI_DEV_GPU_TEMP{gpu="x"} 5\n')

    seen = page.collector().collect(5.0)

    assert seen.frame.height == 0
    assert {(row["entity"], row["metric"]) for row in seen.other.to_dicts()} == {
        ("n1", "DCGM_FI_DEV_NVSWITCH_X{nvswitch=3}"),
        ("n1", "DCGM_FI_DEV_GPU_TEMP"),
    }


# -- where and whose ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "node", "expected"),
    [
        ("http://127.0.0.1:9400/metrics", "", hostname()),  # its own name is that of its pod
        (REMOTE, "", "n07"),
        (REMOTE, "n1", "n1"),
    ],
)
def test_a_node_is_called_by_its_name(url: str, node: str, expected: str) -> None:
    seen = Page(NEW).collector(url, node).collect(5.0)

    assert seen.frame["entity"].to_list() == [f"{expected}/gpu0"]


def test_labels_that_name_a_job_are_spans() -> None:
    spans = Page(OLD).collector().collect(5.0).spans

    assert [(span.entity, span.kind, span.name, span.from_s, span.to_s) for span in spans] == [
        ("n1/gpu0", "job", "812", 5.0, None),
        ("n1/gpu1/mig1", "job", "pod:bio/fold-0", 5.0, None),
    ]
    assert spans[1].about == {"pod": "fold-0", "namespace": "bio", "container": "train"}


def test_a_pod_is_known_by_its_uid_where_the_exporter_reports_it() -> None:
    (span,) = Page(NEW).collector().collect(5.0).spans

    assert span.name == "pod:0b7f5a2e-6c1d-4f0e-9a43-0c5d2c8f1a77"


def test_a_span_is_reported_when_it_begins_and_when_it_ends() -> None:
    page = Page(OLD)
    collector = page.collector()
    begun = collector.collect(5.0).spans
    same = collector.collect(6.0).spans
    page.text = OLD.replace('hpc_job="812"', 'hpc_job="900"')

    changed = collector.collect(7.0).spans

    assert same == ()
    assert [(span.name, span.from_s, span.to_s) for span in changed] == [
        ("812", 5.0, 7.0),
        ("900", 7.0, None),
    ]
    assert changed[0].id == begun[0].id


def test_a_gpu_that_pods_share_is_one_row_and_a_span_each() -> None:
    line = 'DCGM_FI_DEV_GPU_UTIL{{gpu="0",pod="{pod}",namespace="a"}} 40\n'
    seen = Page(line.format(pod="x") + line.format(pod="y")).collector().collect(5.0)

    assert seen.frame["entity"].to_list() == ["n1/gpu0"]
    assert [span.name for span in seen.spans] == ["pod:a/x", "pod:a/y"]


def test_the_hardware_is_reported_when_it_changes() -> None:
    page = Page(OLD)
    collector = page.collector()
    first, second = collector.collect(5.0), collector.collect(6.0)
    page.text = NEW

    third = collector.collect(7.0)

    assert first.cluster is not None
    assert [gpu.id for gpu in first.cluster.gpus] == ["n1/gpu0", "n1/gpu1"]
    assert first.cluster.gpus[0].model.name == "NVIDIA H100 80GB HBM3"
    assert first.cluster.gpus[0].model.memory_bytes == (40_471 + 40_600 + 488) * 2**20
    assert first.cluster.gpus[0].uuid.startswith("GPU-0a1b2c3d")
    assert second.cluster is None
    assert third.cluster is not None
    assert third.cluster.gpus[0].model.memory_bytes == 150_754_820_096


# -- bad input ---------------------------------------------------------------------------------


def test_an_exporter_that_is_away_is_reported_once_and_its_jobs_continue() -> None:
    page = Page(OLD)
    collector = page.collector()
    collector.collect(5.0)
    page.status = 503

    first, second = collector.collect(6.0), collector.collect(7.0)
    page.status = 200
    back = collector.collect(8.0)

    assert [event.kind for event in first.events] == ["collector.missing"]
    assert "answers 503" in first.events[0].text
    assert (first.spans, second.events) == ((), ())
    assert back.frame.height == 4
    assert back.spans == ()


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("<html>sign in</html>", "no Prometheus text"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0" 4', "no Prometheus text"),
        ("DCGM_FI_DEV_GPU_UTIL{} many", "no Prometheus text"),
        (b"a" * (MOST_BYTES + 1), "larger than 32 MiB"),
        ("", "names no GPU"),
        ("up 1\n", "names no GPU"),
    ],
)
def test_a_page_that_is_something_else_is_named(text: str | bytes, expected_text: str) -> None:
    state = Page(text).collector().available()

    assert state.status in ("missing", "limited")
    assert expected_text in state.reason
    assert state.hint


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steward.clients.dcgm_exporter.MOST_SAMPLES", 10)

    with pytest.raises(StewardError, match="more than 10 values"):
        Page(OLD).exporter().read()


@given(st.text(max_size=200))
def test_no_page_crashes_it(text: str) -> None:
    seen = Page(text.encode("utf-8", "replace")).collector().collect(5.0)

    check_frame(seen.frame, where="test")


@pytest.mark.parametrize("url", ["", "nowhere", "ftp://a/b", "http://", "http://a:b:c/"])
def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(StewardError, match="no address") as caught:
        Dcgm(url=url)

    assert "http://127.0.0.1:9400/metrics" in caught.value.hint


def test_a_closed_port_is_missing_with_a_hint() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    state = Dcgm(url=f"http://127.0.0.1:{port}/metrics").available()

    assert state.status == "missing"
    assert "dcgm-exporter" in state.hint


def test_a_working_exporter_is_available() -> None:
    state = Page(OLD).collector().available()

    assert (state.status, state.reason) == ("ok", "4 GPUs at http://127.0.0.1:9400/metrics")


def test_gpus_keep_their_numbers_when_an_exporter_counts_anew_without_one() -> None:
    row = 'DCGM_FI_DEV_GPU_UTIL{{gpu="{index}",UUID="GPU-{uuid}"}} {busy}\n'
    page = Page("".join(row.format(index=n, uuid=n, busy=n) for n in range(3)))
    collector = page.collector()
    collector.collect(5.0)
    page.text = row.format(index=0, uuid=0, busy=10) + row.format(index=1, uuid=2, busy=12)

    rows = canonical(collector.collect(6.0))

    assert {gpu: row["gpu.busy_share"] for gpu, row in rows.items()} == {
        "n1/gpu0": pytest.approx(0.10),
        "n1/gpu2": pytest.approx(0.12),
    }
