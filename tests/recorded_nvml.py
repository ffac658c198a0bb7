"""A driver that answers like one H200 host did: the calls of pynvml, with recorded values.

The values are those that were measured on an H200 (driver 580.159): at rest, and in training.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml

GIB = 2**30
MIB = 2**20
REST = {
    "gpu": 0,
    "memory": 0,
    "used": 615 * MIB,
    "power": 78_578,
    "energy": 11_803_024,
    "temperature": 34,
    "clock": 345,
    "throttle": 1,
}
TRAINING = {
    "gpu": 95,
    "memory": 71,
    "used": 9381 * MIB,
    "power": 399_506,
    "energy": 79_250_822,
    "temperature": 44,
    "clock": 1980,
    "throttle": 0,
}
TOTAL_BYTES = 143_771 * MIB
RESERVED_BYTES = 615 * MIB  # of the driver: `used` in the first form of the call, not in the second


class RecordedNvml:
    """Stands in for the module pynvml. `refuses` maps a call to the error code it fails with."""

    NVMLError = pynvml.NVMLError
    NVML_NVLINK_MAX_LINKS = 18

    def __init__(self, gpus: int = 2) -> None:
        self.gpus = gpus
        self.values: list[dict[str, int]] = [dict(REST) for _ in range(gpus)]
        self.refuses: dict[str, int] = {}
        self.lost: set[int] = set()
        self.lost_code = pynvml.NVML_ERROR_GPU_IS_LOST
        self.processes: dict[int, list[SimpleNamespace]] = {}
        self.utilisation: dict[int, list[SimpleNamespace]] = {}
        self.links: dict[int, list[tuple[int, str]]] = {}  # per GPU: kind of far end, its bus id
        self.inits = 0
        self.old_driver = False

    def __getattribute__(self, name: str) -> Any:
        """Refuse a call before it is made, as the driver does."""
        if name.startswith("nvml"):
            code = object.__getattribute__(self, "refuses").get(name)
            if code is not None:

                def refuse(*_args: object) -> None:
                    raise pynvml.NVMLError(code)

                return refuse
        return object.__getattribute__(self, name)

    def nvmlInit(self) -> None:  # noqa: N802 - these are NVML's names
        self.inits += 1

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.159"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.gpus

    def nvmlDeviceGetHandleByIndex(self, index: int) -> SimpleNamespace:  # noqa: N802
        handle = SimpleNamespace(index=index)
        return self._answer(handle, handle)

    def nvmlDeviceGetName(self, handle: Any) -> Any:  # noqa: N802
        return self._answer(handle, "NVIDIA H200")

    def nvmlDeviceGetUUID(self, handle: Any) -> Any:  # noqa: N802
        return self._answer(handle, f"GPU-{handle.index}")

    def nvmlDeviceGetArchitecture(self, handle: Any) -> Any:  # noqa: N802
        return self._answer(handle, pynvml.NVML_DEVICE_ARCH_HOPPER)

    def nvmlDeviceGetPciInfo(self, handle: Any) -> Any:  # noqa: N802
        return self._answer(handle, SimpleNamespace(busId=bus_id(handle.index).encode()))

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: Any) -> Any:  # noqa: N802
        return self._answer(handle, 700_000)

    def nvmlDeviceGetMemoryInfo(self, handle: Any, version: int | None = None) -> Any:  # noqa: N802
        if version is not None and self.old_driver:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        used = self.values[handle.index]["used"] - (0 if version is None else RESERVED_BYTES)
        memory = SimpleNamespace(total=TOTAL_BYTES, used=used, free=TOTAL_BYTES - used)
        return self._answer(handle, memory)

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:  # noqa: N802
        values = self.values[handle.index]
        return self._answer(handle, SimpleNamespace(gpu=values["gpu"], memory=values["memory"]))

    def nvmlDeviceGetPowerUsage(self, handle: Any) -> Any:  # noqa: N802
        return self._answer(handle, self.values[handle.index]["power"])

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any) -> Any:  # noqa: N802
        return self._answer(handle, self.values[handle.index]["energy"])

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> Any:  # noqa: N802
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return self._answer(handle, self.values[handle.index]["temperature"])

    def nvmlDeviceGetClockInfo(self, handle: Any, kind: int) -> Any:  # noqa: N802
        assert kind == pynvml.NVML_CLOCK_SM
        return self._answer(handle, self.values[handle.index]["clock"])

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any) -> Any:  # noqa: N802
        return self._answer(handle, self.values[handle.index]["throttle"])

    def nvmlDeviceGetNvLinkState(self, handle: Any, link: int) -> Any:  # noqa: N802
        if link >= len(self.links.get(handle.index, [])):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self._answer(handle, 1)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: Any, link: int) -> Any:  # noqa: N802
        return self.links[handle.index][link][0]

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: Any, link: int) -> Any:  # noqa: N802
        return SimpleNamespace(busId=self.links[handle.index][link][1].encode())

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> Any:  # noqa: N802
        return self._answer(handle, self.processes.get(handle.index, []))

    def nvmlDeviceGetProcessUtilization(self, handle: Any, since_us: int) -> Any:  # noqa: N802
        samples = self.utilisation.get(handle.index, [])
        new = [each for each in samples if each.timeStamp > since_us]
        if not new:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return self._answer(handle, new)

    def _answer(self, handle: Any, value: Any) -> Any:
        if handle.index in self.lost:
            raise pynvml.NVMLError(self.lost_code)
        return value


def bus_id(index: int) -> str:
    return f"00000000:{index:02X}:00.0"


def process(pid: int, used_mib: int | None) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=None if used_mib is None else used_mib * MIB)


def sample(pid: int, t_us: int, percent: int) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, timeStamp=t_us, smUtil=percent, memUtil=0)
