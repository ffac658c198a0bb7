"""The driver is asked call by call; one that it does not know costs that value alone."""

from __future__ import annotations

from typing import Any

import pynvml
import pytest

from recorded_nvml import MIB, TOTAL_BYTES, TRAINING, RecordedNvml, bus_id, process, sample
from steward.clients.nvml import SWITCH, Driver, DriverMissingError, GpuLostError


def test_a_gpu_is_described() -> None:
    driver = Driver(RecordedNvml())

    device = driver.device(1)

    assert (device.name, device.generation, device.uuid) == ("NVIDIA H200", "hopper", "GPU-1")
    assert device.memory_bytes == TOTAL_BYTES
    assert device.max_watts == 700.0
    assert device.bus_id == bus_id(1).lower()
    assert device.peers == ()


def test_a_reading_has_the_drivers_units() -> None:
    library = RecordedNvml(1)
    library.values[0] = dict(TRAINING)

    reading = Driver(library).reading(0)

    assert reading.busy_percent == 95.0
    assert reading.memory_used_bytes == (9381.0 - 615.0) * MIB  # as nvidia-smi shows it
    assert reading.power_milliwatts == 399_506.0
    assert reading.energy_millijoules == 79_250_822.0
    assert reading.temperature_celsius == 44.0
    assert reading.sm_clock_mhz == 1980.0
    assert reading.throttle_bits == 0.0


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        ("nvmlDeviceGetUtilizationRates", {"busy_percent", "copy_percent"}),
        (
            "nvmlDeviceGetMemoryInfo",
            {"memory_used_bytes", "memory_free_bytes", "memory_total_bytes"},
        ),
        ("nvmlDeviceGetPowerUsage", {"power_milliwatts"}),
        ("nvmlDeviceGetTotalEnergyConsumption", {"energy_millijoules"}),
        ("nvmlDeviceGetTemperature", {"temperature_celsius"}),
        ("nvmlDeviceGetClockInfo", {"sm_clock_mhz"}),
    ],
)
@pytest.mark.parametrize(
    "code",
    [
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_UNKNOWN,
    ],
)
def test_what_the_driver_refuses_is_unknown_and_the_rest_is_read(
    call: str, fields: set[str], code: int
) -> None:
    library = RecordedNvml(1)
    library.refuses[call] = code

    reading = Driver(library).reading(0)

    names = reading.__dataclass_fields__
    assert {name for name in names if getattr(reading, name) is None} == fields


def test_older_drivers_call_throttling_by_another_name() -> None:
    class Older(RecordedNvml):
        def nvmlDeviceGetCurrentClocksThrottleReasons(self, _handle: Any) -> int:  # noqa: N802
            return 4

    library = Older(1)
    library.refuses["nvmlDeviceGetCurrentClocksEventReasons"] = 13

    assert Driver(library).reading(0).throttle_bits == 4.0


@pytest.mark.parametrize(
    ("code", "says", "hint"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "Shared Library Not Found", "install the NVIDIA"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded", "modprobe"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "version mismatch", "reboot"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "Insufficient Permissions", "/dev/nvidia"),
        (pynvml.NVML_ERROR_UNKNOWN, "Unknown Error", "nvidia-smi"),
    ],
)
def test_a_missing_driver_says_why_and_what_would_help(code: int, says: str, hint: str) -> None:
    library = RecordedNvml()
    library.refuses["nvmlInit"] = code

    with pytest.raises(DriverMissingError, match=says) as caught:
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
    driver.reading(0)
    library.lost, library.lost_code = {0}, code

    with pytest.raises(GpuLostError, match="GPU 0 does not answer") as caught:
        driver.reading(0)

    assert "dmesg" in caught.value.hint
    assert driver.reading(1).busy_percent == 0.0


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
    library.refuses["nvmlDeviceGetCount"] = pynvml.NVML_ERROR_UNINITIALIZED
    with pytest.raises(DriverMissingError):
        driver.count()

    library.refuses.clear()

    assert driver.count() == 2
    assert library.inits == 2


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


# -- links -------------------------------------------------------------------------------------


def test_links_name_their_far_ends() -> None:
    library = RecordedNvml(2)
    library.links = {0: [(0, bus_id(1)), (0, bus_id(1)), (2, "")], 1: []}
    driver = Driver(library)

    assert driver.device(0).peers == (bus_id(1).lower(), SWITCH)
    assert driver.device(1).peers == ()


def test_an_old_driver_is_asked_for_memory_in_the_old_way() -> None:
    library = RecordedNvml(1)
    library.values[0] = dict(TRAINING)
    library.old_driver = True

    assert Driver(library).reading(0).memory_used_bytes == 9381.0 * MIB
