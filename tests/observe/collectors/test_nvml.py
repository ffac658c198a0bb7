"""GPUs become rows; one that falls off the bus is silent, and the others go on."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pynvml
import pytest

from recorded_nvml import MIB, TRAINING, RecordedNvml, bus_id, process, sample
from steward.clients.nvml import Driver, GpuRegistry, shared_registry
from steward.errors import StewardError
from steward.model.cluster import Health
from steward.model.event import Observation
from steward.model.frame import Frame, check_frame
from steward.model.identity import JobId
from steward.model.metrics import aliases_from
from steward.observe.collectors.nvml import JobOfPid, Nvml
from steward.observe.collectors.processes import Processes
from steward.observe.lines import EntityResolver, matched
from steward.observe.normalise import Normaliser
from steward.ports import Sampler


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def collector(library: RecordedNvml, *, clock: Hand | None = None, **of_pid: JobOfPid) -> Nvml:
    driver = Driver(library, plugged=Path("/nowhere"), clock=clock or Hand())
    return Nvml(node="n1", registry=GpuRegistry(driver), **of_pid)


def rows(seen: Observation) -> dict[str, dict[str, float | None]]:
    return {row.pop("entity"): row for row in seen.frame.to_dicts()}


def tick(nvml: Nvml) -> dict[str, dict[str, float]]:
    """Read once, as the pace does."""
    layout = nvml.layout()
    row = np.full(layout.width, -1.0)
    nvml.sample(row)
    values = iter(row.tolist())
    return {block.entity: {name: next(values) for name in block.names} for block in layout.blocks}


def frame(nvml: Nvml, t_s: float) -> Frame:
    """Return a tick as the frame that the pace makes of it."""
    read = [{"t_s": t_s, "entity": entity, **values} for entity, values in tick(nvml).items()]
    return pl.DataFrame(read).fill_nan(None)


def silent(values: dict[str, float]) -> bool:
    return bool(np.isnan(list(values.values())).all())


def test_it_is_a_sampler() -> None:
    assert isinstance(collector(RecordedNvml()), Sampler)


def test_the_first_look_brings_the_gpus() -> None:
    seen = collector(RecordedNvml(2)).collect(5.0)

    assert seen.cluster is not None
    (node,) = seen.cluster.nodes
    assert [gpu.id for gpu in node.gpus] == ["n1/gpu0", "n1/gpu1"]
    model = node.gpus[0].model
    assert (model.name, model.generation, model.max_watts) == ("NVIDIA H200", "hopper", 700.0)
    assert 0 < model.idle_watts < model.max_watts


def test_the_hardware_is_reported_once_also_when_a_tick_came_before() -> None:
    nvml = collector(RecordedNvml())
    tick(nvml)

    first, second = nvml.collect(5.0), nvml.collect(6.0)

    assert first.cluster is not None
    assert second.cluster is None


def test_rows_have_the_drivers_names_and_every_name_is_known() -> None:
    library = RecordedNvml(1)
    library.values[0] = dict(TRAINING)
    library.processes[0] = [process(7, 500)]
    library.links = {0: [(2, "")] * 18}
    nvml = collector(library)

    seen = nvml.collect(5.0)
    values = tick(nvml)["n1/gpu0"]

    check_frame(seen.frame, where="test")
    assert {*values, *seen.frame.columns} - {"t_s", "entity"} <= set(aliases_from("nvml"))
    assert values["utilization.gpu"] == 95.0
    assert values["power.usage"] == 399_506.0


def test_what_was_read_arrives_in_our_units() -> None:
    library = RecordedNvml(1)
    library.values[0] = dict(TRAINING)
    normaliser = Normaliser(source="nvml", vocabulary="nvml")
    clock = Hand()
    nvml = collector(library, clock=clock)

    normaliser.normalise(frame(nvml, 0.0))
    clock.now_s = 30.0
    library.values[0]["energy"] += 12_000_000
    got, events = normaliser.normalise(frame(nvml, 30.0))

    (row,) = got.to_dicts()
    assert events == ()
    assert row["gpu.busy_share"] == pytest.approx(0.95)
    assert row["gpu.power_watts"] == pytest.approx(399.506)
    assert row["gpu.power.limit_watts"] == pytest.approx(650.0)
    assert row["gpu.memory.used_bytes"] == (9381.0 - 615.0) * MIB
    assert row["gpu.clock.sm_hz"] == 1.98e9
    assert row["gpu.sm.active_share"] == pytest.approx(0.884)
    assert row["gpu.pcie.transmit_bytes_per_s"] == pytest.approx(120.5 * MIB)
    assert row["gpu.energy.mean_watts"] == pytest.approx(400.0)


def test_the_layout_stays_the_same_object() -> None:
    nvml = collector(RecordedNvml())

    first = nvml.layout()
    nvml.collect(5.0)

    assert nvml.layout() is first


# -- processes ---------------------------------------------------------------------------------


def test_a_process_of_no_job_has_a_row_of_its_own_part() -> None:
    library = RecordedNvml(1)
    library.processes[0] = [process(7, 500)]
    library.utilisation[0] = [sample(7, 10, 40), sample(9, 10, 2)]

    seen = rows(collector(library, job_of_pid=lambda _pid: None).collect(5.0))

    assert seen["n1/gpu0@pid:7"]["process.sm_util"] == 40.0
    assert seen["n1/gpu0@pid:7"]["process.used_memory"] == 500.0 * MIB
    assert seen["n1/gpu0@pid:9"]["process.used_memory"] is None


def test_a_job_that_borrows_has_a_row_beside_its_lender_who_uses_nothing() -> None:
    library = RecordedNvml(1)
    library.processes[0] = [process(7, 500)]
    library.utilisation[0] = [sample(7, 10, 70)]
    nvml = collector(
        library, job_of_pid=lambda _: JobId("12"), borrower_of_pid=lambda _: JobId("15")
    )

    seen = rows(nvml.collect(5.0))

    assert seen["n1/gpu0@15"]["process.sm_util"] == 70.0
    assert seen["n1/gpu0@12"]["process.sm_util"] == 0.0
    assert seen["n1/gpu0@12"]["process.used_memory"] == 0.0


def test_the_processes_of_one_job_are_one_row() -> None:
    library = RecordedNvml(1)
    library.processes[0] = [process(7, 500), process(8, 100), process(9, 1)]
    library.utilisation[0] = [sample(7, 10, 70), sample(8, 10, 60)]

    seen = rows(
        collector(library, job_of_pid=lambda pid: JobId("812") if pid < 9 else None).collect(5.0)
    )

    assert set(seen) == {"n1/gpu0@812", "n1/gpu0@pid:9"}
    assert seen["n1/gpu0@812"]["process.sm_util"] == 100.0  # no more than all of it
    assert seen["n1/gpu0@812"]["process.used_memory"] == 600.0 * MIB


def test_a_process_on_a_slice_has_a_part_of_the_slice() -> None:
    library = RecordedNvml(1)
    library.parts = {0: [3]}
    library.processes[0] = [process(7, 500, 3)]
    nvml = collector(library, job_of_pid=lambda _pid: None)

    assert set(rows(nvml.collect(5.0))) == {"n1/gpu0/mig3@pid:7"}
    assert set(tick(nvml)) == {"n1/gpu0", "n1/gpu0/mig3"}


# -- coming and going --------------------------------------------------------------------------


def test_a_gpu_that_falls_off_the_bus_is_silent_and_the_others_continue() -> None:
    library = RecordedNvml(2)
    nvml = collector(library)
    layout = nvml.layout()
    nvml.collect(5.0)
    library.lost = {0}

    values = tick(nvml)
    seen, later = nvml.collect(6.0), nvml.collect(7.0)

    assert silent(values["n1/gpu0"])
    assert values["n1/gpu1"]["power.usage"] == 78_578.0
    assert [(e.kind, e.subject, e.t_s) for e in seen.events] == [("gpu.failed", "n1/gpu0", 6.0)]
    assert "GPU is lost" in seen.events[0].text
    assert seen.health == {"n1/gpu0": Health.BAD}
    assert later.events == ()
    assert nvml.layout() is layout


def test_a_gpu_that_is_found_lost_between_ticks_is_reported_too() -> None:
    library = RecordedNvml(2)
    nvml = collector(library)
    nvml.collect(5.0)
    library.lost = {1}

    assert [event.kind for event in nvml.collect(6.0).events] == ["gpu.failed"]


def test_a_gpu_that_comes_back_is_received_again() -> None:
    library = RecordedNvml(2)
    nvml = collector(library)
    nvml.collect(5.0)
    layout = nvml.layout()
    library.lost = {1}
    tick(nvml)
    nvml.collect(6.0)
    library.lost = set()

    seen = nvml.collect(7.0)

    assert [(e.kind, e.subject) for e in seen.events] == [("gpu.repaired", "n1/gpu1")]
    assert seen.health == {"n1/gpu1": Health.GOOD}
    assert seen.cluster is None
    assert tick(nvml)["n1/gpu1"]["power.usage"] == 78_578.0
    assert nvml.layout() is layout


def test_a_gpu_may_report_more_after_a_reset() -> None:
    library = RecordedNvml(1)
    library.refuses["nvmlDeviceGetPowerUsage"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    nvml = collector(library)
    before = tick(nvml)["n1/gpu0"]
    library.lost = {0}
    tick(nvml)
    nvml.collect(6.0)
    library.lost = set()
    library.refuses.clear()

    nvml.collect(7.0)

    assert "power.usage" not in before
    assert tick(nvml)["n1/gpu0"]["power.usage"] == 78_578.0


def test_a_gpu_that_is_lost_from_the_start_joins_when_it_comes_back() -> None:
    library = RecordedNvml(2)
    library.lost = {0}
    nvml = collector(library)

    first = nvml.collect(5.0)
    library.lost = set()
    second = nvml.collect(6.0)

    assert first.cluster is not None
    assert [gpu.id for gpu in first.cluster.gpus] == ["n1/gpu1"]
    assert [(e.kind, e.subject) for e in first.events] == [("gpu.failed", "n1/gpu0")]
    assert second.cluster is not None
    assert [gpu.id for gpu in second.cluster.gpus] == ["n1/gpu0", "n1/gpu1"]


def test_a_gpu_that_fails_at_its_first_read_does_not_hide_the_others() -> None:
    class Dying(RecordedNvml):
        def do_DeviceGetPowerUsage(self, handle: Any, answer: Any) -> None:  # noqa: N802
            self.lost = {0}
            super().do_DeviceGetPowerUsage(handle, answer)

    nvml = collector(Dying(2))

    assert set(tick(nvml)) == {"n1/gpu1"}
    assert [event.subject for event in nvml.collect(5.0).events] == ["n1/gpu0"]


def test_a_gpu_that_is_plugged_in_gets_rows(tmp_path: Path) -> None:
    library = RecordedNvml(1)
    (tmp_path / bus_id(0)).touch()
    nvml = Nvml(node="n1", registry=GpuRegistry(Driver(library, plugged=tmp_path)))
    layout = nvml.layout()
    nvml.collect(5.0)
    (tmp_path / bus_id(1)).touch()
    library.gpus, library.values, library.uuids = 2, library.values * 2, ["GPU-0", "GPU-1"]

    seen = nvml.collect(6.0)

    assert library.shutdowns == 1  # NVML counts GPUs when it is started
    assert seen.cluster is not None
    assert [gpu.id for gpu in seen.cluster.gpus] == ["n1/gpu0", "n1/gpu1"]
    assert nvml.layout() is not layout
    assert set(tick(nvml)) == {"n1/gpu0", "n1/gpu1"}


class CountingNvml(RecordedNvml):
    """Counts users as NVML does: GPUs are enumerated by the first one after the last has left."""

    def __init__(self, gpus: int) -> None:
        super().__init__(gpus)
        self.users = 0
        self.plugged = gpus

    def nvmlInit(self) -> None:  # noqa: N802
        super().nvmlInit()
        if not self.users:
            self.gpus = self.plugged
            self.values = self.values[:1] * self.gpus
            self.uuids = [f"GPU-{index}" for index in range(self.gpus)]
        self.users += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        super().nvmlShutdown()
        self.users -= 1


def test_a_gpu_that_is_plugged_in_is_found_while_two_collectors_use_the_driver(
    tmp_path: Path,
) -> None:
    library = CountingNvml(1)
    (tmp_path / bus_id(0)).touch()
    registry = GpuRegistry(Driver(library, plugged=tmp_path))
    nvml, processes = Nvml(node="n1", registry=registry), Processes(node="n1", registry=registry)
    for each in (nvml, processes):
        each.available()
        each.collect(5.0)
    (tmp_path / bus_id(1)).touch()
    library.plugged = 2

    nvml.collect(6.0)
    processes.collect(6.0)

    assert set(tick(nvml)) == {"n1/gpu0", "n1/gpu1"}


def test_collectors_of_one_process_share_the_driver_and_shut_it_down_together() -> None:
    library = CountingNvml(1)
    registry = GpuRegistry(Driver(library, plugged=Path("/nowhere")))
    nvml, processes = Nvml(node="n1", registry=registry), Processes(node="n1", registry=registry)
    nvml.collect(5.0)
    processes.collect(5.0)

    processes.close()
    processes.close()
    still = library.users
    nvml.close()
    nvml.close()

    assert (still, library.users) == (1, 0)
    assert Nvml()._registry is Processes()._registry is shared_registry()


def test_an_error_names_the_same_gpu_everywhere_after_another_one_was_removed() -> None:
    library, clock = RecordedNvml(3), Hand()
    registry = GpuRegistry(Driver(library, plugged=Path("/nowhere"), clock=clock))
    nvml = Nvml(node="n1", registry=registry)
    nvml.collect(5.0)
    tick(nvml)
    library.lost = {1}
    tick(nvml)
    nvml.collect(6.0)
    # Started again, NVML counts the other two and calls the last one GPU 1.
    library.lost, library.gpus = set(), 2
    library.uuids, library.bus_ids = ["GPU-0", "GPU-2"], [bus_id(0), bus_id(2)]
    library.queued = [(1, 79)]
    library.processes = {1: [process(10, 1)]}
    clock.now_s = 31.0
    (kernel_line,) = [matched(f"NVRM: Xid (PCI:{bus_id(2)[4:-2]}): 79, pid=10, gone")]
    assert kernel_line is not None

    events = nvml.collect(37.0).events
    holders = registry.pids()
    by_the_kernel = EntityResolver("n1", gpu_at=registry.number_at).of(kernel_line)

    assert [(event.kind, event.subject) for event in events] == [("gpu.xid", "n1/gpu2")]
    assert holders == {0: (), 2: (10,)}
    assert by_the_kernel == "n1/gpu2"
    assert registry.number_at(bus_id(1)) == 1  # also of the one that is gone


def test_without_nvml_gpus_are_numbered_by_the_kernels_list_and_keep_their_numbers(
    tmp_path: Path,
) -> None:
    library = RecordedNvml(3)
    library.refuses["nvmlInit"] = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    for index in (0, 1, 2):
        (tmp_path / bus_id(index)).touch()
    registry = GpuRegistry(Driver(library, plugged=tmp_path))
    before = registry.number_at(bus_id(2))
    (tmp_path / bus_id(0)).unlink()

    assert before == registry.number_at(bus_id(2)) == 2
    assert registry.number_at(bus_id(7)) is None


def test_gpus_keep_their_numbers_when_one_is_gone_after_a_restart() -> None:
    library, clock = RecordedNvml(3), Hand()
    nvml = collector(library, clock=clock)
    nvml.collect(5.0)
    tick(nvml)
    library.lost = {1}
    tick(nvml)
    nvml.collect(6.0)
    # NVML, started again, does not count the lost one and numbers the others anew.
    library.lost, library.gpus, library.uuids = set(), 2, ["GPU-0", "GPU-2"]
    clock.now_s = 31.0

    seen = nvml.collect(37.0)

    assert library.shutdowns == 1
    assert seen.events == ()  # it was reported before
    assert set(tick(nvml)) == {"n1/gpu0", "n1/gpu2"}


def test_nvml_is_started_again_ever_more_rarely_for_a_lost_gpu() -> None:
    library, clock = RecordedNvml(2), Hand()
    nvml = collector(library, clock=clock)
    tick(nvml)
    library.lost = {1}
    tick(nvml)

    for second in range(3600):
        clock.now_s = float(second)
        nvml.collect(clock.now_s)

    assert 6 <= library.shutdowns <= 10
    library.lost = set()
    nvml.collect(clock.now_s)
    before = library.shutdowns
    clock.now_s += 10_000
    nvml.collect(clock.now_s)
    assert library.shutdowns == before


def test_what_a_restart_made_void_is_unknown_until_the_layout_is_requested() -> None:
    library, clock = RecordedNvml(2), Hand()
    nvml = collector(library, clock=clock)
    width = nvml.layout().width
    library.lost = {1}
    tick(nvml)
    nvml.collect(1.0)
    clock.now_s = 60.0
    nvml.collect(60.0)
    row = np.zeros(width)

    nvml.sample(row)

    assert np.isnan(row).all()
    assert set(tick(nvml)) == {"n1/gpu0"}


def test_a_tick_during_a_restart_is_a_gap_not_a_wait() -> None:
    nvml = collector(RecordedNvml(1))
    row = np.zeros(nvml.layout().width)
    held, done = threading.Event(), threading.Event()

    def restart() -> None:
        with nvml._registry._lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=restart)
    thread.start()
    held.wait(60)

    with pytest.raises(StewardError, match="started again"):
        nvml.sample(row)

    done.set()
    thread.join()


def test_slices_that_are_made_get_rows() -> None:
    library = RecordedNvml(1)
    nvml = collector(library)
    before = set(tick(nvml))
    library.parts = {0: [1, 2]}

    nvml.collect(6.0)

    assert before == {"n1/gpu0"}
    assert set(tick(nvml)) == {"n1/gpu0", "n1/gpu0/mig1", "n1/gpu0/mig2"}


def test_errors_of_the_driver_are_events() -> None:
    library = RecordedNvml(2)
    nvml = collector(library)
    nvml.collect(5.0)
    library.queued = [(1, 79)]

    (event,) = nvml.collect(6.0).events

    assert (event.kind, event.subject, event.text) == ("gpu.xid", "n1/gpu1", "XID 79")


def test_a_missing_driver_is_reported_once_and_tried_again() -> None:
    library = RecordedNvml(1)
    library.refuses["nvmlInit"] = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    nvml = collector(library)
    layout = nvml.layout()

    first, second = nvml.collect(5.0), nvml.collect(6.0)
    library.refuses.clear()
    third = nvml.collect(7.0)

    assert layout.width == 0
    assert [event.kind for event in first.events] == ["collector.missing"]
    assert "reboot" in first.events[0].text
    assert (second.events, second.frame.height) == ((), 0)
    assert third.cluster is not None
    assert tick(nvml)["n1/gpu0"]["power.usage"] == 78_578.0


def test_gpus_of_a_driver_that_went_away_are_unknown_not_healthy() -> None:
    library = RecordedNvml(2)
    nvml = collector(library)
    nvml.collect(5.0)
    tick(nvml)
    library.refuses["nvmlDeviceGetCount_v2"] = pynvml.NVML_ERROR_UNKNOWN

    seen = nvml.collect(6.0)

    assert seen.health == {"n1/gpu0": Health.UNKNOWN, "n1/gpu1": Health.UNKNOWN}
    assert tick(nvml) == {}


# -- for the doctor ----------------------------------------------------------------------------


def test_a_working_driver_is_available() -> None:
    state = collector(RecordedNvml(2)).available()

    assert state.status == "ok"
    assert "2 GPUs (NVIDIA H200), 580.159, with hardware counters" in state.reason


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
