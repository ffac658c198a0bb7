"""Series of well-known exporters land where our own collectors would have put them."""

from __future__ import annotations

import pytest

from steward.errors import StewardError
from steward.model.metrics import METRICS
from steward.observe.translate import exposed_name, labels_of, map_point, map_series

DCGM = {"gpu": "3", "UUID": "GPU-1", "device": "nvidia3", "modelName": "H100", "job": "dcgm"}


def placed(name: str, **labels: str) -> tuple[str, str, float]:
    place = map_series({"__name__": name, **labels})
    return place.entity, place.name, place.scale


@pytest.mark.parametrize("host", ["Hostname", "hostname", "node"])
def test_dcgm_names_are_taken_as_they_are(host: str) -> None:
    assert placed("DCGM_FI_DEV_FB_USED", **{host: "n01"}, **DCGM) == (
        "n01/gpu3",
        "gpu.memory.used_bytes",
        2.0**20,
    )


def test_slices_of_a_gpu_are_entities_below_it() -> None:
    entity, _, _ = placed("DCGM_FI_DEV_GPU_UTIL", Hostname="n01", GPU_I_ID="2", **DCGM)

    assert entity == "n01/gpu3/mig2"


def test_in_kubernetes_the_node_counts_and_not_the_pod() -> None:
    entity, _, _ = placed("DCGM_FI_DEV_GPU_UTIL", Hostname="dcgm-x7k", node="n01", **DCGM)

    assert entity == "n01/gpu3"


def test_a_dcgm_field_without_a_translation_still_belongs_to_its_gpu() -> None:
    place = map_series({"__name__": "DCGM_FI_DEV_NEW", "Hostname": "n01", **DCGM})

    assert (place.entity, place.name, place.metric) == ("n01/gpu3", "DCGM_FI_DEV_NEW", None)
    assert place.blanks


def test_a_dcgm_series_without_a_gpu_keeps_its_labels() -> None:
    entity, name, _ = placed("DCGM_FI_DEV_GPU_UTIL", Hostname="n01", UUID="GPU-1")

    assert (entity, name) == ('n01{UUID="GPU-1"}', "DCGM_FI_DEV_GPU_UTIL")


def test_cores_of_a_node_add_up_to_its_figure() -> None:
    place = map_series(
        {"__name__": "node_cpu_seconds_total", "cpu": "7", "mode": "user", "instance": "n01:9100"}
    )

    assert (place.entity, place.name) == ("n01", "host.cpu.user_cores")
    assert place.adds
    assert place.rises


@pytest.mark.parametrize(
    ("name", "device", "ours"),
    [
        ("node_disk_read_bytes_total", "nvme0n1", True),
        ("node_disk_read_bytes_total", "nvme0n1p2", False),
        ("node_disk_read_bytes_total", "sda", True),
        ("node_disk_read_bytes_total", "sda1", False),
        ("node_disk_read_bytes_total", "dm-0", False),
        ("node_network_receive_bytes_total", "eth0", True),
        ("node_network_receive_bytes_total", "lo", False),
    ],
)
def test_what_repeats_another_device_does_not_count_twice(
    name: str,
    device: str,
    *,
    ours: bool,
) -> None:
    place = map_series({"__name__": name, "device": device, "instance": "n01:9100"})

    assert (place.metric is not None) is ours


def test_anything_else_keeps_its_name_and_its_labels_in_order() -> None:
    entity, name, _ = placed(
        "vllm:num_requests_running", model_name="x", engine="0", instance="n01:8000", job="vllm"
    )

    assert (entity, name) == ('n01{engine="0",model_name="x"}', "vllm:num_requests_running")


def test_a_series_from_nowhere_is_of_an_unknown_node() -> None:
    assert placed("up")[0] == "unknown"


def test_a_series_without_a_name_is_refused() -> None:
    with pytest.raises(StewardError, match="no name"):
        map_series({"instance": "n01"})


def test_every_metric_of_ours_comes_back_from_prometheus() -> None:
    entities = {"job": "job:812", "share": "n01/gpu3@812", "gpu": "n01/gpu3", "node": "n01"}

    for metric in METRICS:
        entity = entities.get(metric.of, "n01")
        labels = {"job": "steward", "instance": "s:8787", "tenant": "bio", **labels_of(entity)}
        place = map_series({"__name__": exposed_name(metric.name), **labels})
        assert (place.entity, place.name, place.metric) == (entity, metric.name, metric)


def test_exposed_names_are_as_many_as_metrics() -> None:
    assert len({exposed_name(each.name) for each in METRICS}) == len(METRICS)


def test_the_job_that_holds_a_gpu_is_not_part_of_the_gpu() -> None:
    labels = {"node": "n01", "gpu": "3", "job_id": "812"}

    assert placed("steward_gpu_busy_share", **labels)[0] == "n01/gpu3"
    assert placed("steward_share_busy_share", **labels)[0] == "n01/gpu3@812"


# -- OpenTelemetry -------------------------------------------------------------------------------

HOST = {"host.name": "n01"}


def test_conventions_for_gpus_are_known() -> None:
    by_index = map_point("hw.gpu.utilization", HOST, {"hw.id": "3"}, per_second=False)
    by_id = map_point("hw.gpu.utilization", HOST, {"hw.id": "GPU-1f"}, per_second=False)
    encoder = map_point(
        "hw.gpu.utilization", HOST, {"hw.id": "3", "hw.gpu.task": "encoder"}, per_second=False
    )

    assert (by_index.entity, by_index.name) == ("n01/gpu3", "gpu.busy_share")
    assert by_id.entity == "n01/gpu:GPU-1f"
    assert encoder.metric is None


def test_power_of_something_else_is_not_a_gpus() -> None:
    place = map_point("hw.power", HOST, {"hw.id": "0", "hw.type": "fan"}, per_second=False)

    assert place.metric is None


def test_conventions_for_hosts_add_up_over_devices() -> None:
    attributes = {"direction": "read", "device": "sda"}
    place = map_point("system.disk.io", HOST, attributes, per_second=False)

    assert (place.entity, place.name) == ("n01", "host.disk.read_bytes_per_s")
    assert place.adds
    assert place.rises


def test_only_memory_that_is_used_is_memory_used() -> None:
    used, free = (
        map_point("system.memory.usage", HOST, {"state": state}, per_second=False)
        for state in ("used", "free")
    )

    assert used.name == "host.memory.used_bytes"
    assert free.entity == 'n01{state="free"}'


def test_a_change_is_a_rate_already() -> None:
    known = map_point("job.cpu_seconds", {}, {"job_id": "8"}, per_second=True)
    other = map_point("requests", HOST, {}, per_second=True)

    assert (known.entity, known.name, known.rises) == ("job:8", "job.cpu.busy_cores", False)
    assert other.name == "requests/rate"


def test_our_own_names_and_those_of_exporters_pass_through_a_collector() -> None:
    ours = map_point("gpu.power_watts", {}, {"node": "n01", "gpu": "3"}, per_second=False)
    dcgm = map_point("DCGM_FI_DEV_POWER_USAGE", HOST, {"gpu": "3"}, per_second=False)

    assert (ours.entity, ours.name) == (dcgm.entity, dcgm.name) == ("n01/gpu3", "gpu.power_watts")


def test_loopback_is_no_network() -> None:
    attributes = {"network.io.direction": "receive", "network.interface.name": "lo"}

    assert map_point("system.network.io", HOST, attributes, per_second=False).metric is None
