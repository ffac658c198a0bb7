"""GPUs become rows; one that falls off the bus is silent, and the others go on."""

from __future__ import annotations

import pynvml
import pytest

from recorded_nvml import MIB, TRAINING, RecordedNvml, bus_id, process, sample
from steward.clients.nvml import Driver
from steward.model.cluster import Health
from steward.model.event import Observation
from steward.model.frame import check_frame
from steward.model.metrics import aliases_from
from steward.observe.collectors.nvml import Nvml
from steward.observe.normalise import Normaliser


def collector(library: RecordedNvml) -> Nvml:
    return Nvml(node="n1", driver=Driver(library))


def rows(seen: Observation) -> dict[str, dict[str, float | None]]:
    return {row.pop("entity"): row for row in seen.frame.to_dicts()}


def test_the_first_look_brings_the_gpus() -> None:
    seen = collector(RecordedNvml(2)).collect(5.0)

    assert seen.cluster is not None
    (node,) = seen.cluster.nodes
    assert [gpu.id for gpu in node.gpus] == ["n1/gpu0", "n1/gpu1"]
    model = node.gpus[0].model
    assert (model.name, model.generation, model.max_watts) == ("NVIDIA H200", "hopper", 700.0)
    assert 0 < model.idle_watts < model.max_watts


def test_the_hardware_is_told_once() -> None:
    nvml = collector(RecordedNvml())

    first, second = nvml.collect(5.0), nvml.collect(6.0)

    assert first.cluster is not None
    assert second.cluster is None
    assert second.frame.height == 2


def test_rows_are_in_the_drivers_words_and_every_word_is_known() -> None:
    library = RecordedNvml(1)
    library.values[0] = dict(TRAINING)
    library.processes[0] = [process(7, 500)]

    seen = collector(library).collect(5.0)

    check_frame(seen.frame, where="test")
    assert set(seen.frame.columns) - {"t_s", "entity"} <= set(aliases_from("nvml"))
    assert rows(seen)["n1/gpu0"]["utilization.gpu"] == 95.0
    assert rows(seen)["n1/gpu0"]["power.usage"] == 399_506.0


def test_what_was_read_arrives_in_our_units() -> None:
    library = RecordedNvml(1)
    library.values[0] = dict(TRAINING)
    normaliser = Normaliser(source="nvml", vocabulary="nvml")
    nvml = collector(library)

    normaliser.normalise(nvml.collect(0.0).frame)
    library.values[0]["energy"] += 4_000_000
    frame, events = normaliser.normalise(nvml.collect(10.0).frame)

    (row,) = frame.to_dicts()
    assert events == ()
    assert row["gpu.busy_share"] == pytest.approx(0.95)
    assert row["gpu.power_watts"] == pytest.approx(399.506)
    assert row["gpu.memory.used_bytes"] == (9381.0 - 615.0) * MIB
    assert row["gpu.clock.sm_hz"] == 1.98e9
    assert row["gpu.energy.mean_watts"] == pytest.approx(400.0)


def test_each_process_has_a_row_of_its_own_part() -> None:
    library = RecordedNvml(1)
    library.processes[0] = [process(7, 500)]
    library.utilisation[0] = [sample(7, 10, 40), sample(9, 10, 2)]

    seen = rows(collector(library).collect(5.0))

    assert seen["n1/gpu0@pid:7"]["process.sm_util"] == 40.0
    assert seen["n1/gpu0@pid:7"]["process.used_memory"] == 500.0 * MIB
    assert seen["n1/gpu0@pid:9"]["process.used_memory"] is None
    assert seen["n1/gpu0@pid:7"]["utilization.gpu"] is None


def test_a_gpu_that_falls_off_the_bus_is_silent_and_the_others_go_on() -> None:
    library = RecordedNvml(2)
    nvml = collector(library)
    nvml.collect(5.0)
    library.lost = {0}

    seen, later = nvml.collect(6.0), nvml.collect(7.0)

    assert set(rows(seen)) == {"n1/gpu1"}
    assert [(e.kind, e.subject, e.t_s) for e in seen.events] == [("gpu.failed", "n1/gpu0", 6.0)]
    assert "GPU is lost" in seen.events[0].text
    assert seen.health == {"n1/gpu0": Health.BAD}
    assert later.events == ()
    assert set(rows(later)) == {"n1/gpu1"}


def test_a_gpu_that_comes_back_is_heard_again() -> None:
    library = RecordedNvml(2)
    nvml = collector(library)
    nvml.collect(5.0)
    library.lost = {1}
    nvml.collect(6.0)
    library.lost = set()

    seen = nvml.collect(7.0)

    assert [(e.kind, e.subject) for e in seen.events] == [("gpu.repaired", "n1/gpu1")]
    assert seen.health == {"n1/gpu1": Health.GOOD}
    assert seen.cluster is None


def test_a_gpu_that_is_lost_from_the_start_joins_when_it_comes_back() -> None:
    library = RecordedNvml(2)
    library.lost = {0}
    nvml = collector(library)

    first = nvml.collect(5.0)
    library.lost = set()
    second = nvml.collect(6.0)

    assert first.cluster is not None
    assert [gpu.id for gpu in first.cluster.gpus] == ["n1/gpu1"]
    assert second.cluster is not None
    assert [gpu.id for gpu in second.cluster.gpus] == ["n1/gpu0", "n1/gpu1"]


def test_a_missing_driver_is_said_once_and_asked_again() -> None:
    library = RecordedNvml(1)
    library.refuses["nvmlInit"] = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    nvml = collector(library)

    first, second = nvml.collect(5.0), nvml.collect(6.0)
    library.refuses.clear()
    third = nvml.collect(7.0)

    assert [event.kind for event in first.events] == ["collector.missing"]
    assert "modprobe" in first.events[0].text
    assert (second.events, second.frame.height) == ((), 0)
    assert third.frame.height == 1


def test_gpus_of_a_driver_that_went_away_are_unknown_not_healthy() -> None:
    library = RecordedNvml(2)
    nvml = collector(library)
    nvml.collect(5.0)
    library.refuses["nvmlDeviceGetCount"] = pynvml.NVML_ERROR_UNKNOWN

    seen = nvml.collect(6.0)

    assert seen.health == {"n1/gpu0": Health.UNKNOWN, "n1/gpu1": Health.UNKNOWN}


# -- what doctor asks --------------------------------------------------------------------------


def test_a_working_driver_is_available() -> None:
    state = collector(RecordedNvml(2)).available()

    assert state.status == "ok"
    assert "2 GPUs (NVIDIA H200), 580.159" in state.reason


def test_without_a_driver_it_is_missing_with_a_hint() -> None:
    library = RecordedNvml()
    library.refuses["nvmlInit"] = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND

    state = collector(library).available()

    assert state.status == "missing"
    assert state.hint


def test_a_driver_without_gpus_is_missing() -> None:
    state = collector(RecordedNvml(0)).available()

    assert state.status == "missing"
    assert "no GPU" in state.reason


def test_a_lost_gpu_makes_it_limited() -> None:
    library = RecordedNvml(2)
    library.lost = {1}

    state = collector(library).available()

    assert state.status == "limited"
    assert "GPU 1 does not answer" in state.reason


# -- NVLink ------------------------------------------------------------------------------------


def domains(library: RecordedNvml) -> list[str]:
    seen = collector(library).collect(0.0)
    assert seen.cluster is not None
    return [gpu.nvlink_domain for gpu in seen.cluster.gpus]


def test_gpus_on_switches_are_one_domain() -> None:
    library = RecordedNvml(4)
    library.links = {i: [(2, "")] * 18 for i in range(4)}

    assert domains(library) == ["n1/nvlink0"] * 4


def test_bridged_pairs_are_domains_of_their_own() -> None:
    library = RecordedNvml(4)
    library.links = {
        0: [(0, bus_id(2))],
        2: [(0, bus_id(0))],
        1: [(0, bus_id(3))],
        3: [(0, bus_id(1))],
    }

    assert domains(library) == ["n1/nvlink0", "n1/nvlink1", "n1/nvlink0", "n1/nvlink1"]


def test_without_links_there_is_no_domain() -> None:
    assert domains(RecordedNvml(2)) == ["", ""]
