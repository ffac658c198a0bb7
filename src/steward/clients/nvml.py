"""Asks the NVIDIA driver about its GPUs, through nvidia-ml-py, in NVML's words and units.

A call that a GPU does not support gives None. A GPU that is gone raises `GpuLostError`, and the
others can still be asked.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from steward.errors import StewardError

__all__ = [
    "SWITCH",
    "Device",
    "Driver",
    "DriverMissingError",
    "DriverProcess",
    "GpuLostError",
    "GpuReading",
]

Library = Any  # the module pynvml, or a recording of it

SWITCH = "switch"  # the far end of a link to an NVSwitch
GENERATIONS = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
_NOT_FOUND = 6
_MEMORY_V2 = 0x02000028  # nvmlMemory_v2: the version and the size of the struct that is filled
_LOST = (15, 16, 28)  # is lost, requires a reset, not found
_HINTS = {
    9: "load the driver (`modprobe nvidia`), or pass the devices into this container",
    12: "install the NVIDIA driver, or pass its libraries into this container",
    18: "the driver was updated while loaded: reboot, or reload the kernel module",
    4: "run as a user who may read /dev/nvidia*",
}
_REMOTE_IS_SWITCH = 2


class DriverMissingError(StewardError):
    """There is no driver to ask; other sources go on."""


class GpuLostError(StewardError):
    """One GPU does not answer any more; the others may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What does not change about a GPU. `peers` are bus ids at the other end of its NVLinks."""

    index: int
    name: str
    uuid: str
    generation: str
    memory_bytes: int
    max_watts: float
    bus_id: str
    peers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One look at a GPU, in NVML's units."""

    busy_percent: float | None
    copy_percent: float | None
    memory_used_bytes: float | None
    memory_free_bytes: float | None
    memory_total_bytes: float | None
    power_milliwatts: float | None
    energy_millijoules: float | None
    temperature_celsius: float | None
    sm_clock_mhz: float | None
    throttle_bits: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverProcess:
    """What one process has of one GPU. The driver counts pids outside of any container."""

    pid: int
    busy_percent: float | None
    memory_used_bytes: float | None


class Driver:
    """The driver of this machine. `library` stands in for pynvml in tests."""

    def __init__(self, library: Library | None = None) -> None:
        self._library = library
        self._ready = False
        self._handles: dict[int, Any] = {}
        self._seen_us: dict[int, int] = {}  # newest process sample of each GPU

    def count(self) -> int:
        """Return how many GPUs there are, or raise `DriverMissingError`."""
        library = self._open()
        try:
            return int(library.nvmlDeviceGetCount())
        except library.NVMLError as fault:
            self._ready = False
            raise _missing(fault) from fault

    def version(self) -> str:
        """Return the driver's own version, e.g. `580.159`."""
        return _text(self._ask("nvmlSystemGetDriverVersion")) or "of unknown version"

    def device(self, index: int) -> Device:
        """Return what does not change about a GPU."""
        handle = self._handle(index)
        memory = self._memory(handle)
        limit = self._ask("nvmlDeviceGetPowerManagementDefaultLimit", handle) or self._ask(
            "nvmlDeviceGetEnforcedPowerLimit", handle
        )
        architecture = self._ask("nvmlDeviceGetArchitecture", handle)
        return Device(
            index=index,
            name=_text(self._ask("nvmlDeviceGetName", handle)) or "unknown",
            uuid=_text(self._ask("nvmlDeviceGetUUID", handle)),
            generation=GENERATIONS.get(architecture, "unknown"),
            memory_bytes=int(memory.total) if memory is not None else 0,
            max_watts=float(limit or 0) / 1000,
            bus_id=_bus_id(self._ask("nvmlDeviceGetPciInfo", handle)),
            peers=self._peers(handle),
        )

    def reading(self, index: int) -> GpuReading:
        """Look at one GPU."""
        handle = self._handle(index)
        busy = self._ask("nvmlDeviceGetUtilizationRates", handle)
        memory = self._memory(handle)
        return GpuReading(
            busy_percent=_field(busy, "gpu"),
            copy_percent=_field(busy, "memory"),
            memory_used_bytes=_field(memory, "used"),
            memory_free_bytes=_field(memory, "free"),
            memory_total_bytes=_field(memory, "total"),
            power_milliwatts=_number(self._ask("nvmlDeviceGetPowerUsage", handle)),
            energy_millijoules=_number(self._ask("nvmlDeviceGetTotalEnergyConsumption", handle)),
            temperature_celsius=_number(self._ask("nvmlDeviceGetTemperature", handle, 0)),
            sm_clock_mhz=_number(self._ask("nvmlDeviceGetClockInfo", handle, 1)),
            throttle_bits=_number(self._throttle(handle)),
        )

    def processes(self, index: int) -> tuple[DriverProcess, ...]:
        """Return the processes on one GPU, by pid, with their use since the last time."""
        handle = self._handle(index)
        running = self._ask("nvmlDeviceGetComputeRunningProcesses", handle) or ()
        memory = {int(each.pid): _field(each, "usedGpuMemory") for each in running}
        busy = self._busy_by_pid(index, handle)
        # Where the driver samples processes at all, one without a sample did not run.
        quiet = None if busy is None else 0.0
        return tuple(
            DriverProcess(
                pid=pid,
                busy_percent=(busy or {}).get(pid, quiet),
                memory_used_bytes=memory.get(pid),
            )
            for pid in sorted({*memory, *(busy or {})})
        )

    def _memory(self, handle: object) -> Any:  # noqa: ANN401 - a struct of NVML
        """Ask for memory as nvidia-smi shows it: what the driver keeps for itself is not `used`."""
        second = self._ask("nvmlDeviceGetMemoryInfo", handle, _MEMORY_V2)
        return second if second is not None else self._ask("nvmlDeviceGetMemoryInfo", handle)

    # -- calls ---------------------------------------------------------------------------------

    def _open(self) -> Library:
        if self._library is None:
            try:
                self._library = importlib.import_module("pynvml")
            except ImportError as fault:
                hint = "pip install nvidia-ml-py"
                raise DriverMissingError("nvidia-ml-py is not installed", hint=hint) from fault
        if not self._ready:
            try:
                self._library.nvmlInit()
            except self._library.NVMLError as fault:
                raise _missing(fault) from fault
            self._ready = True
            self._handles.clear()
        return self._library

    def _handle(self, index: int) -> Any:  # noqa: ANN401 - an opaque pointer
        library = self._open()
        if index not in self._handles:
            try:
                self._handles[index] = library.nvmlDeviceGetHandleByIndex(index)
            except library.NVMLError as fault:
                raise _lost(index, fault) from fault
        return self._handles[index]

    def _ask(self, name: str, *args: Any) -> Any:  # noqa: ANN401 - every call returns its own type
        library = self._open()
        try:
            return getattr(library, name)(*args)
        except AttributeError:
            return None  # an older nvidia-ml-py
        except library.NVMLError as fault:
            if getattr(fault, "value", None) in _LOST and args:
                index = self._index_of(args[0])
                self._handles.pop(index, None)
                raise _lost(index, fault) from fault
            return None

    def _index_of(self, handle: object) -> int:
        return next((index for index, each in self._handles.items() if each is handle), -1)

    def _throttle(self, handle: object) -> object:
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:  # the name before driver 535
            return self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return reasons

    def _peers(self, handle: object) -> tuple[str, ...]:
        found = set()
        for link in range(int(getattr(self._library, "NVML_NVLINK_MAX_LINKS", 18))):
            active = self._ask("nvmlDeviceGetNvLinkState", handle, link)
            if active is None:
                break  # there are no more links, or none at all
            if active:
                kind = self._ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
                remote = self._ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
                found.add(SWITCH if kind == _REMOTE_IS_SWITCH else _bus_id(remote))
        return tuple(sorted(found - {""}))

    def _busy_by_pid(self, index: int, handle: object) -> dict[int, float] | None:
        library = self._open()
        since_us = self._seen_us.get(index, 0)
        try:
            samples = library.nvmlDeviceGetProcessUtilization(handle, since_us)
        except library.NVMLError as fault:
            return {} if getattr(fault, "value", None) == _NOT_FOUND else None
        except AttributeError:
            return None
        new = [each for each in samples if each.timeStamp > since_us and each.pid > 0]
        self._seen_us[index] = max((int(each.timeStamp) for each in new), default=since_us)
        return _mean_by_pid((int(each.pid), float(each.smUtil)) for each in new)


def _mean_by_pid(samples: Iterable[tuple[int, float]]) -> dict[int, float]:
    by_pid: dict[int, list[float]] = {}
    for pid, percent in samples:
        if percent <= 100:  # the driver leaves rubbish in unused entries
            by_pid.setdefault(pid, []).append(percent)
    return {pid: sum(values) / len(values) for pid, values in by_pid.items()}


def _missing(fault: Exception) -> DriverMissingError:
    code = getattr(fault, "value", 0)
    hint = _HINTS.get(code, "run nvidia-smi: it should list the GPUs")
    return DriverMissingError(f"the NVIDIA driver does not answer: {fault}", hint=hint)


def _lost(index: int, fault: Exception) -> GpuLostError:
    hint = "look for XID errors in `dmesg`; reset the GPU, or drain the node"
    return GpuLostError(f"GPU {index} does not answer: {fault}", hint=hint)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value or "")


def _bus_id(pci: object) -> str:
    return _text(getattr(pci, "busId", "")).lower()


def _field(struct: object, name: str) -> float | None:
    return _number(getattr(struct, name, None))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
