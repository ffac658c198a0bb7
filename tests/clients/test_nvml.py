"""The driver is read call by call; an unknown function costs its value only."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorded_nvml import (
    MIB,
    TOTAL_BYTES,
    TRAINING,
    ULONGLONG,
    RecordedNvml,
    RefusedError,
    ReplayedNvml,
    bus_id,
    process,
    sample,
)
from steward.clients.nvml import (
    SWITCH,
    DeviceReader,
    DeviceReaders,
    Driver,
    DriverMissingError,
    GpuLostError,
    structs,
)
from steward.clients.nvml.fields import FieldQuery, FieldReader
from steward.clients.nvml.library import Library


def read(meter: DeviceReader, now_s: float = 0.0, times: int = 1) -> dict[str, float]:
    row = np.full(len(meter.names), -1.0)
    for _ in range(times):
        meter.read(row, now_s)
    return dict(zip(meter.names, row.tolist(), strict=True))


def unknown(values: dict[str, float]) -> set[str]:
    return {name for name, value in values.items() if np.isnan(value)}


def test_a_gpu_is_described() -> None:
    device = Driver(RecordedNvml()).device(1)

    assert (device.name, device.generation, device.uuid) == ("NVIDIA H200", "hopper", "GPU-1")
    assert device.memory_bytes == TOTAL_BYTES
    assert device.max_watts == 700.0
    assert device.bus_id == bus_id(1).lower()
    assert device.peers == ()
    assert device.has_counters


def test_a_reading_has_the_drivers_units() -> None:
    library = RecordedNvml(1)
    library.values[0] = dict(TRAINING)

    values = read(Driver(library).meters(0)[0])

    assert values["utilization.gpu"] == 95.0
    assert values["memory.used"] == (9381.0 - 615.0) * MIB  # as nvidia-smi shows it
    assert values["power.usage"] == 399_506.0
    assert values["power.limit"] == 650_000.0
    assert values["power.instant"] == 399_506.0
    assert (values["temperature.gpu"], values["temperature.memory"]) == (44.0, 41.0)
    assert (values["clock.sm"], values["clock.memory"]) == (1980.0, 3201.0)
    assert (values["pcie.generation"], values["pcie.width"]) == (5.0, 16.0)
    assert values["clocks.event_reasons"] == 0.0


def test_structs_are_as_large_as_those_of_nvidia() -> None:
    same = {
        structs.Utilization: pynvml.c_nvmlUtilization_t,
        structs.MemoryV1: pynvml.c_nvmlMemory_t,
        structs.MemoryV2: pynvml.c_nvmlMemory_v2_t,
        structs.FieldValue: pynvml.c_nvmlFieldValue_t,
        structs.Temperature: pynvml.c_nvmlTemperature_v1_t,
        structs.GpmMetric: pynvml.c_nvmlGpmMetric_t,
        structs.GpmSupport: pynvml.c_nvmlGpmSupport_t,
        structs.PciAddress: pynvml.nvmlPciInfo_t,
        structs.RunningProcess: pynvml.c_nvmlProcessInfo_v2_t,
        structs.ProcessSample: pynvml.c_nvmlProcessUtilizationSample_t,
        structs.EventFound: pynvml.c_nvmlEventData_t,
    }

    for ours, theirs in same.items():
        assert ctypes.sizeof(ours) == ctypes.sizeof(theirs), ours
    assert structs.GpmMetricsGet.metrics.offset == pynvml.c_nvmlGpmMetricsGet_t.metrics.offset


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("nvmlDeviceGetUtilizationRates", {"utilization.gpu", "utilization.memory"}),
        ("nvmlDeviceGetPowerUsage", {"power.usage"}),
        ("nvmlDeviceGetTemperature", {"temperature.gpu"}),
        ("nvmlDeviceGetClockInfo", {"clock.sm", "clock.memory"}),
        ("nvmlDeviceGetComputeRunningProcesses_v3", {"processes.count"}),
    ],
)
@pytest.mark.parametrize(
    "code",
    [
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    ],
)
def test_what_a_gpu_refuses_is_queried_once_and_the_rest_is_read(
    call: str, names: set[str], code: int
) -> None:
    library = RecordedNvml(1)
    every = set(Driver(library).meters(0)[0].names)
    library.refuses[call] = code

    (meter,) = Driver(library).meters(0)
    queried = library.calls[call]
    values = read(meter, times=3)

    assert every - set(values) == names
    assert library.calls[call] == queried


def test_what_fails_for_a_moment_is_unknown_and_read_again() -> None:
    library = RecordedNvml(1)
    (meter,) = Driver(library).meters(0)
    library.refuses = {
        "nvmlDeviceGetPowerUsage": pynvml.NVML_ERROR_TIMEOUT,
        "nvmlDeviceGetFieldValues": pynvml.NVML_ERROR_UNKNOWN,
        "nvmlGpmSampleGet": pynvml.NVML_ERROR_IN_USE,
    }

    failed = unknown(read(meter, times=2))
    library.refuses.clear()
    later = unknown(read(meter, now_s=100.0, times=2))

    assert {"power.usage", "power.instant", "temperature.memory", "gpm.sm_util"} <= failed
    assert "utilization.gpu" not in failed
    assert later == {  # these need a reading before
        "throttle.power",
        "throttle.thermal",
        "energy.mean",
        "gpm.graphics_util",
    }


def test_what_is_refused_for_good_while_running_is_not_read_again() -> None:
    library = RecordedNvml(1)
    (meter,) = Driver(library).meters(0)
    library.refuses["nvmlDeviceGetPowerUsage"] = pynvml.NVML_ERROR_NO_PERMISSION
    read(meter)
    queried = library.calls["nvmlDeviceGetPowerUsage"]
    library.refuses.clear()

    values = read(meter, times=3)

    assert np.isnan(values["power.usage"])
    assert library.calls["nvmlDeviceGetPowerUsage"] == queried


def test_older_drivers_call_throttling_by_another_name() -> None:
    class Older(RecordedNvml):
        do_DeviceGetCurrentClocksEventReasons = None  # type: ignore[assignment]  # noqa: N815

        def do_DeviceGetCurrentClocksThrottleReasons(self, _of: Any, answer: Any) -> None:  # noqa: N802
            answer._obj.value = 4

    assert read(Driver(Older(1)).meters(0)[0])["clocks.event_reasons"] == 4.0


def test_newer_drivers_may_report_the_temperature_in_another_way_only() -> None:
    class Newer(RecordedNvml):
        do_DeviceGetTemperature = None  # type: ignore[assignment]  # noqa: N815

        def do_DeviceGetTemperatureV(self, _of: Any, answer: Any) -> None:  # noqa: N802
            assert answer._obj.version == pynvml.nvmlTemperature_v1
            answer._obj.celsius = 51

    assert read(Driver(Newer(1)).meters(0)[0])["temperature.gpu"] == 51.0


def test_an_old_driver_is_requested_memory_in_the_old_way() -> None:
    library = RecordedNvml(1)
    library.values[0] = dict(TRAINING)
    library.old_driver = True

    (meter,) = Driver(library).meters(0)

    assert read(meter)["memory.used"] == 9381.0 * MIB
    assert "memory.reserved" not in meter.names


@pytest.mark.parametrize(
    ("code", "expected", "hint"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "Shared Library Not Found", "install the NVIDIA"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded", "modprobe"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "version mismatch", "reboot"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "Insufficient Permissions", "/dev/nvidia"),
        (pynvml.NVML_ERROR_UNKNOWN, "Unknown Error", "nvidia-smi"),
    ],
)
def test_a_missing_driver_has_a_reason_and_a_hint(code: int, expected: str, hint: str) -> None:
    library = RecordedNvml()
    library.refuses["nvmlInit"] = code

    with pytest.raises(DriverMissingError, match=expected) as caught:
        Driver(library).count()

    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "code",
    [
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
    ],
)
def test_a_lost_gpu_is_an_error_of_its_own_and_the_others_answer(code: int) -> None:
    library = RecordedNvml()
    driver = Driver(library)
    first, second = (driver.meters(index)[0] for index in (0, 1))
    library.lost, library.lost_code = {0}, code

    with pytest.raises(GpuLostError, match="GPU 0 does not answer") as caught:
        read(first)

    assert "dmesg" in caught.value.hint
    assert read(second)["utilization.gpu"] == 0.0


def test_a_lost_gpu_is_left_alone_and_its_part_of_the_row_is_unknown() -> None:
    library = RecordedNvml()
    driver = Driver(library)
    meters = DeviceReaders([*driver.meters(0), *driver.meters(1)])
    row = np.zeros(meters.width)
    library.lost = {0}
    meters.read(row, 0.0)
    queried = library.calls.total()

    meters.read(row, 0.1)

    half = len(meters.meters[0].names)
    assert np.isnan(row[:half]).all()
    assert row[half:][meters.meters[1].names.index("power.usage")] == 78_578.0
    assert list(meters.lost) == [0]
    assert library.calls.total() - queried < 10  # one GPU's worth of a fast tick


@pytest.mark.parametrize(
    "call", ["nvmlDeviceGetFieldValues", "nvmlGpmSampleGet", "nvmlDeviceGetFanSpeed"]
)
def test_whichever_call_finds_it_first_a_gpu_is_lost_for_all(call: str) -> None:
    class Fans(RecordedNvml):
        def do_DeviceGetFanSpeed(self, _of: Any, answer: Any) -> None:  # noqa: N802
            answer._obj.value = 30

    library = Fans(1)
    (meter,) = Driver(library).meters(0)
    library.refuses[call] = pynvml.NVML_ERROR_GPU_IS_LOST

    with pytest.raises(GpuLostError):
        read(meter)


@pytest.mark.parametrize(
    "call", ["nvmlDeviceGetFieldValues", "nvmlGpmSampleGet", "nvmlDeviceGetPowerUsage"]
)
def test_a_gpu_that_is_lost_while_it_is_looked_at_first_is_lost(call: str) -> None:
    library = RecordedNvml(1)
    library.refuses[call] = pynvml.NVML_ERROR_GPU_IS_LOST

    with pytest.raises(GpuLostError):
        Driver(library).meters(0)

    assert library.calls["nvmlGpmSampleFree"] == library.calls["nvmlGpmSampleAlloc"]


def test_one_field_is_enough_to_find_a_gpu_lost() -> None:
    library = RecordedNvml(1)
    (meter,) = Driver(library).meters(0)
    library.field_code = pynvml.NVML_ERROR_GPU_IS_LOST

    with pytest.raises(GpuLostError):
        read(meter)


def test_what_fails_for_a_moment_at_the_first_look_is_queried_again() -> None:
    library = RecordedNvml(1)
    library.refuses = dict.fromkeys(
        ["nvmlDeviceGetFieldValues", "nvmlGpmSampleGet", "nvmlDeviceGetPowerUsage"],
        pynvml.NVML_ERROR_UNKNOWN,
    )
    (meter,) = Driver(library).meters(0)
    library.refuses.clear()

    values = read(meter, times=2)

    assert (values["power.instant"], values["power.usage"]) == (78_578.0, 78_578.0)
    assert values["gpm.sm_util"] == 88.4


def test_a_driver_without_room_for_samples_has_no_counters() -> None:
    library = RecordedNvml(1)
    library.refuses["nvmlGpmSampleAlloc"] = pynvml.NVML_ERROR_MEMORY

    (meter,) = Driver(library).meters(0)

    assert not [name for name in meter.names if name.startswith("gpm.")]
    assert read(meter)["power.usage"] == 78_578.0


def test_a_gpu_that_comes_back_is_read_again() -> None:
    library = RecordedNvml()
    driver = Driver(library)
    library.lost = {0}
    with pytest.raises(GpuLostError):
        driver.device(0)

    library.lost = set()

    assert driver.device(0).name == "NVIDIA H200"


def test_a_driver_that_comes_late_is_opened_then() -> None:
    library = RecordedNvml()
    library.refuses["nvmlInit"] = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    driver = Driver(library)
    with pytest.raises(DriverMissingError):
        driver.count()

    library.refuses.clear()

    assert driver.count() == 2
    assert library.inits == 1


def test_a_driver_that_goes_away_is_opened_again() -> None:
    library = RecordedNvml()
    driver = Driver(library)
    driver.count()
    library.refuses["nvmlDeviceGetCount_v2"] = pynvml.NVML_ERROR_UNINITIALIZED
    with pytest.raises(DriverMissingError):
        driver.count()

    library.refuses.clear()

    assert driver.count() == 2
    assert library.inits == 2


def test_without_nvidias_package_the_error_has_a_hint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    with pytest.raises(DriverMissingError, match="not installed") as caught:
        Driver().count()

    assert "pip install" in caught.value.hint


# -- how often ---------------------------------------------------------------------------------


def test_what_changes_slowly_is_queried_less_often_and_keeps_its_value() -> None:
    library = RecordedNvml(1)
    (meter,) = Driver(library).meters(0)
    read(meter, now_s=0.0)
    before = dict(library.calls)

    for tick in range(1, 101):  # ten seconds
        values = read(meter, now_s=tick / 10)

    queried = {name: count - before.get(name, 0) for name, count in library.calls.items()}
    assert queried["nvmlDeviceGetPowerUsage"] == 100
    assert 9 <= queried["nvmlDeviceGetTemperature"] <= 12
    assert queried["nvmlDeviceGetEnforcedPowerLimit"] == 1
    assert values["power.limit"] == 650_000.0


def test_what_keeps_the_processor_busy_is_queried_seldom_and_is_a_mean() -> None:
    """On an H200 reading the energy takes 4 to 13 ms, and the graphics engine 1.4 ms."""
    library = RecordedNvml(1)
    (meter,) = Driver(library).meters(0)
    queried = 0

    for tick in range(301):  # half a minute
        library.values[0]["energy"] = 1_000_000 + 40_000 * tick  # mJ: 400 W
        before = library.fields_read[83]
        values = read(meter, now_s=tick / 10)
        queried += library.fields_read[83] - before

    assert queried == 2
    assert values["energy.mean"] == pytest.approx(400_000.0)  # mW
    assert values["gpm.graphics_util"] == 96.1


def test_gpus_take_turns_at_what_is_rare() -> None:
    library = RecordedNvml(4)
    driver = Driver(library)
    meters = DeviceReaders([driver.meters(index)[0] for index in range(4)])
    row = np.zeros(meters.width)
    meters.read(row, 0.0)
    most = 0

    for tick in range(1, 200):
        before = library.calls["nvmlDeviceGetEnforcedPowerLimit"]
        meters.read(row, tick / 10)
        most = max(most, library.calls["nvmlDeviceGetEnforcedPowerLimit"] - before)

    assert most == 1


# -- hardware counters -------------------------------------------------------------------------


def test_counters_need_two_samples() -> None:
    library = RecordedNvml(1)
    (meter,) = Driver(library).meters(0)

    first, second = read(meter), read(meter)

    assert np.isnan(first["gpm.sm_util"])
    assert (second["gpm.sm_util"], second["gpm.pcie_tx_per_sec"]) == (88.4, 120.5)


def test_a_counter_that_this_gpu_does_not_have_is_left_out() -> None:
    library = RecordedNvml(1)
    assert library.counters is not None
    del library.counters[9]

    (meter,) = Driver(library).meters(0)

    assert "gpm.imma_tensor_util" not in meter.names
    assert read(meter, times=2)["gpm.fp16_util"] == 0.2


def test_a_gpu_without_counters_has_traffic_from_its_fields() -> None:
    library = RecordedNvml(1)
    library.counters = None
    library.fields[138, 2**32 - 1] = (ULONGLONG, 1000)
    (meter,) = Driver(library).meters(0)

    first = read(meter, now_s=0.0)
    library.fields[138, 2**32 - 1] = (ULONGLONG, 5000)
    second = read(meter, now_s=2.0)

    assert not [name for name in meter.names if name.startswith("gpm.")]
    assert np.isnan(first["nvlink.tx"])
    assert second["nvlink.tx"] == 2000.0  # KiB per second


def test_samples_are_given_back() -> None:
    library = RecordedNvml(1)
    (meter,) = Driver(library).meters(0)

    meter.close()

    assert library.calls["nvmlGpmSampleFree"] == library.calls["nvmlGpmSampleAlloc"] == 4


# -- fields ------------------------------------------------------------------------------------


def fields(library: RecordedNvml, *wanted: FieldQuery) -> FieldReader:
    opened = Library(library)
    return FieldReader(opened, opened.handle(0), wanted)


def one(part: FieldReader, now_s: float) -> float:
    row = np.zeros(1)
    part.read(row, now_s)
    return float(row[0])


def test_a_share_of_throttled_time_comes_from_a_counter() -> None:
    library = RecordedNvml(1)
    (meter,) = Driver(library).meters(0)
    read(meter, now_s=0.0)
    library.fields[74, 0] = (ULONGLONG, 500_000_000)  # ns

    assert read(meter, now_s=1.0)["throttle.power"] == 0.5
    assert read(meter, now_s=1.1)["throttle.power"] == 0.5  # kept until it is due
    library.fields[74, 0] = (ULONGLONG, 2_000_000_000)
    assert read(meter, now_s=2.0)["throttle.power"] == 1.0


def test_a_counter_that_was_reset_is_unknown_for_a_period() -> None:
    library = RecordedNvml(1)
    library.fields[1, 0] = (ULONGLONG, 100)
    part = fields(library, FieldQuery(name="a", choices=(((1, 0),),), per_s=True))

    seen = []
    for now_s, value in ((0.0, 100), (1.0, 150), (2.0, 10), (3.0, 30)):
        library.fields[1, 0] = (ULONGLONG, value)
        seen.append(one(part, now_s))

    assert seen[1::2] == [50.0, 20.0]
    assert np.isnan(seen[0::2]).all()


@given(value=st.integers(0, 2**32 - 1))
def test_only_the_bytes_of_its_type_count(value: int) -> None:
    library = RecordedNvml(1)
    library.fields[1, 0] = (1, value)  # the recording leaves rubbish above

    assert one(fields(library, FieldQuery(name="a", choices=(((1, 0),),))), 0.0) == value


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [(5, 2**32 - 7, -7.0), (4, 2**64 - 7, -7.0), (0, 0x4004000000000000, 2.5), (6, 65535, 65535.0)],
)
def test_fields_have_seven_types(kind: int, raw: int, value: float) -> None:
    library = RecordedNvml(1)
    library.fields[1, 0] = (kind, raw)

    assert one(fields(library, FieldQuery(name="a", choices=(((1, 0),),))), 0.0) == value


def test_errors_of_all_links_are_added_and_a_silent_link_does_not_hide_the_others() -> None:
    library = RecordedNvml(1)
    library.links = {0: [(2, "")] * 3}
    library.fields |= {(163, link): (ULONGLONG, 10 + link) for link in range(3)}
    (meter,) = Driver(library).meters(0)
    whole = read(meter, now_s=0.0)["nvlink.crc_errors"]
    del library.fields[163, 1]

    assert whole == 33.0
    assert read(meter, now_s=20.0)["nvlink.crc_errors"] == 22.0


def test_gpus_before_hopper_report_errors_of_links_in_all() -> None:
    library = RecordedNvml(1)
    library.links = {0: [(2, "")] * 6}
    library.fields |= {(38, 0): (ULONGLONG, 3), (45, 0): (ULONGLONG, 4), (52, 0): (ULONGLONG, 5)}

    values = read(Driver(library).meters(0)[0])

    assert (values["nvlink.crc_errors"], values["nvlink.replays"]) == (7.0, 5.0)
    assert "nvlink.recoveries" not in values


# -- slices ------------------------------------------------------------------------------------


def test_slices_have_meters_of_their_own() -> None:
    library = RecordedNvml(1)
    library.parts = {0: [5, 3]}
    driver = Driver(library)

    whole, *parts = driver.meters(0)

    assert [part.of for part in parts] == list(driver.slices(0))
    assert [each.id for each in driver.slices(0)] == [3, 5]
    assert "utilization.gpu" not in whole.names  # NVML does not have it in MIG mode
    assert read(parts[0], times=2)["gpm.sm_util"] == 88.4
    assert "memory.used" in parts[0].names


def test_two_devices_of_one_gpu_instance_are_one_slice() -> None:
    library = RecordedNvml(1)
    library.parts = {0: [1, 1, 2]}

    assert [each.id for each in Driver(library).slices(0)] == [1, 2]


# -- processes ---------------------------------------------------------------------------------


def test_a_process_has_the_mean_of_its_new_samples() -> None:
    library = RecordedNvml(1)
    library.processes[0] = [process(7, 500), process(8, None)]
    library.utilisation[0] = [sample(7, 10, 40), sample(7, 20, 60), sample(8, 20, 5)]
    driver = Driver(library)

    first = driver.processes(0)
    library.utilisation[0].append(sample(7, 30, 90))
    second = driver.processes(0)

    assert [(p.pid, p.busy_percent, p.memory_used_bytes) for p in first] == [
        (7, 50.0, 500.0 * MIB),
        (8, 5.0, None),
    ]
    assert [(p.pid, p.busy_percent) for p in second] == [(7, 90.0), (8, 0.0)]


def test_a_process_without_new_samples_did_not_run() -> None:
    library = RecordedNvml(1)
    library.processes[0] = [process(7, 500)]

    (only,) = Driver(library).processes(0)

    assert only.busy_percent == 0.0


def test_where_the_driver_does_not_sample_processes_their_use_is_unknown() -> None:
    library = RecordedNvml(1)
    library.processes[0] = [process(7, 500)]
    library.refuses["nvmlDeviceGetProcessUtilization"] = pynvml.NVML_ERROR_NOT_SUPPORTED

    (only,) = Driver(library).processes(0)

    assert only.busy_percent is None
    assert only.memory_used_bytes == 500.0 * MIB


def test_rubbish_among_the_samples_is_left_out() -> None:
    library = RecordedNvml(1)
    library.utilisation[0] = [sample(0, 10, 40), sample(7, 10, 4_000_000), sample(7, 11, 30)]

    (only,) = Driver(library).processes(0)

    assert (only.pid, only.busy_percent) == (7, 30.0)


def test_processes_that_keep_starting_are_not_waited_for_for_ever() -> None:
    class Busy(RecordedNvml):
        def do_DeviceGetComputeRunningProcesses_v3(self, _of: Any, room: Any, _to: Any) -> int:  # noqa: N802
            raise RefusedError(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)

    assert Driver(Busy(1)).processes(0) == ()


# -- links and errors --------------------------------------------------------------------------


def test_links_name_their_far_ends() -> None:
    library = RecordedNvml(2)
    library.links = {0: [(0, bus_id(1)), (0, bus_id(1)), (2, "")], 1: []}
    driver = Driver(library)

    assert driver.device(0).peers == (bus_id(1).lower(), SWITCH)
    assert driver.device(1).peers == ()


def test_errors_are_taken_once_and_never_waited_for() -> None:
    library = RecordedNvml(2)
    library.queued = [(1, 79), (0, 13)]
    driver = Driver(library)
    driver.listen([0, 1])

    first, second = driver.xids(), driver.xids()

    assert [(xid.gpu, xid.code) for xid in first] == [(1, 79), (0, 13)]
    assert second == ()


def test_a_gpu_that_reports_no_errors_is_not_listened_to() -> None:
    library = RecordedNvml(1)
    library.refuses["nvmlDeviceRegisterEvents"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    library.queued = [(0, 13)]
    driver = Driver(library)
    driver.listen([0])

    assert driver.xids() == ()


def test_it_needs_no_more_than_numpy_and_nvidias_file() -> None:
    """The benchmark on a bare GPU machine has nothing else."""
    program = (
        "import sys, types\n"
        "for name in ('polars', 'pydantic', 'typer', 'numba', 'psutil', 'httpx', 'pyarrow'):\n"
        "    sys.modules[name] = None\n"
        f"package = types.ModuleType('steward'); package.__path__ = ['{SOURCE}']\n"
        "sys.modules['steward'] = package\n"
        "import steward.clients.nvml, steward.model.layout\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


# -- tapes -------------------------------------------------------------------------------------


def tape_class() -> Any:
    file = SOURCE.parents[1] / "benchmarks" / "h200" / "nvml_tape.py"
    spec = importlib.util.spec_from_file_location("nvml_tape", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Tape


def queried(library: Any, ticks: int = 5) -> list[object]:
    """Call every function that the readers use, some of them many times."""
    driver = Driver(library)
    answers: list[object] = [driver.count(), driver.version(), driver.device(0), driver.slices(0)]
    (meter,) = driver.meters(0)
    answers.append(meter.names)
    for tick in range(ticks):
        if isinstance(getattr(library, "_module", None), RecordedNvml):
            library._module.values[0]["power"] = 100_000 + tick
        answers.append({k: repr(v) for k, v in read(meter, now_s=float(tick)).items()})
    answers.append(driver.processes(0))
    driver.listen([0])
    return [*answers, driver.xids()]


def test_what_was_recorded_is_played_back_byte_by_byte(tmp_path: Path) -> None:
    library = RecordedNvml(1)
    library.processes[0] = [process(7, 500)]
    library.utilisation[0] = [sample(7, 10, 40)]
    library.queued = [(0, 79)]
    library.links = {0: [(2, "")] * 4}
    tape = tape_class()(library)
    message = queried(tape)
    tape.save(tmp_path / "tape.json.gz", driver="580.159")

    again = queried(ReplayedNvml(tmp_path / "tape.json.gz"))

    assert again == message
    assert message[5]["power.usage"] == "100000.0"  # type: ignore[index]


SOURCE = Path(__file__).parents[2] / "src" / "steward"
