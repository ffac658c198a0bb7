"""A driver that answers like one H200 host did: the functions of NVML, with recorded values.

The values are those that were measured on an H200 (driver 580.159): at rest, and in training.
Functions are those of the C library: they fill what they get a reference to and return a code.
`ReplayedNvml` plays back what `benchmarks/h200/nvml_tape.py` recorded, byte by byte.
"""

from __future__ import annotations

import ctypes
import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
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
    "memory_clock": 3201,
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
    "memory_clock": 3201,
    "throttle": 0,
}
# What GPM said in training, in percent and MiB/s.
COUNTERS = {1: 96.1, 2: 88.4, 3: 31.2, 4: 12.5, 5: 47.9, 6: 0.0, 7: 47.9, 9: 0.0, 10: 62.7}
COUNTERS |= {11: 0.0, 12: 8.1, 13: 0.2, 20: 120.5, 21: 33.0, 60: 0.0, 61: 0.0}
TOTAL_BYTES = 143_771 * MIB
RESERVED_BYTES = 615 * MIB  # of the driver: `used` in the first form of the call, not in the second
UINT, ULONGLONG = 1, 3
NO_INSTANCE = 2**32 - 1
GPU, PART = 0x1000, 0x2000  # where the handles of GPUs and of MIG devices begin


class RefusedError(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


class RecordedNvml:
    """Stands in for the module pynvml. `refuses` maps a call to the error code it fails with."""

    NVMLError = pynvml.NVMLError

    def __init__(self, gpus: int = 2) -> None:
        self.gpus = gpus
        self.values: list[dict[str, int]] = [dict(REST) for _ in range(gpus)]
        self.uuids = [f"GPU-{index}" for index in range(gpus)]
        self.bus_ids: list[str] = []  # by index where they are not those of the indices
        self.refuses: dict[str, int] = {}
        self.lost: set[int] = set()
        self.lost_code = pynvml.NVML_ERROR_GPU_IS_LOST
        self.processes: dict[int, list[tuple[int, int | None, int]]] = {}
        self.utilisation: dict[int, list[tuple[int, int, int]]] = {}
        self.links: dict[int, list[tuple[int, str]]] = {}  # per GPU: kind of far end, its bus id
        self.parts: dict[int, list[int]] = {}  # per GPU: GPU instance ids, in MIG mode
        self.counters: dict[int, float] | None = dict(COUNTERS)  # None: no GPM
        self.fields: dict[tuple[int, int], tuple[int, int]] = {  # field, scope: type, value
            (82, 0): (UINT, 41),
            (3, 0): (ULONGLONG, 0),
            (4, 0): (ULONGLONG, 0),
            (74, 0): (ULONGLONG, 0),
            (75, 0): (ULONGLONG, 0),
            (94, 0): (UINT, 0),
            (142, 0): (UINT, 0),
            (143, 0): (UINT, 0),
            (144, 0): (UINT, 0),
            (145, 0): (UINT, 0),
        }
        self.field_code = 0  # what every field answers with, when not 0
        self.fields_read: Counter[int] = Counter()
        self.queued: list[tuple[int, int]] = []  # GPU, XID
        self.limits: dict[int, int] = {}  # milliwatts, as set; 700 W where nobody has
        self.obeys = True  # False: limits are taken and not kept
        self.inits = 0
        self.shutdowns = 0
        self.calls: Counter[str] = Counter()
        self.old_driver = False

    def nvmlInit(self) -> None:  # noqa: N802 - these are NVML's names
        code = self.refuses.get("nvmlInit")
        if code is not None:
            raise pynvml.NVMLError(code)
        self.inits += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.shutdowns += 1

    def _nvmlGetFunctionPointer(self, name: str) -> Callable[..., int]:  # noqa: N802
        answer = getattr(self, f"do_{name.removeprefix('nvml')}", None)
        if answer is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

        def call(*arguments: Any) -> int:
            self.calls[name] += 1
            if name in self.refuses:
                return self.refuses[name]
            try:
                return int(answer(*arguments) or 0)
            except RefusedError as refused:
                return refused.code

        return call

    # -- which GPUs ----------------------------------------------------------------------------

    def do_SystemGetDriverVersion(self, text: Any, _room: Any) -> None:  # noqa: N802
        text.value = b"580.159"

    def do_DeviceGetCount_v2(self, count: Any) -> None:  # noqa: N802
        count._obj.value = self.gpus

    def do_DeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> None:  # noqa: N802
        if index.value >= self.gpus:
            raise RefusedError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        handle._obj.value = GPU + index.value
        self._of(handle._obj)

    def do_DeviceGetName(self, handle: Any, text: Any, _room: Any) -> None:  # noqa: N802
        self._of(handle)
        text.value = b"NVIDIA H200"

    def do_DeviceGetUUID(self, handle: Any, text: Any, _room: Any) -> None:  # noqa: N802
        text.value = self.uuids[self._of(handle)].encode()

    def do_DeviceGetArchitecture(self, handle: Any, answer: Any) -> None:  # noqa: N802
        answer._obj.value = pynvml.NVML_DEVICE_ARCH_HOPPER

    def do_DeviceGetPciInfo_v3(self, handle: Any, answer: Any) -> None:  # noqa: N802
        index = self._of(handle)
        answer._obj.bus_id = (self.bus_ids[index] if self.bus_ids else bus_id(index)).encode()

    def do_DeviceGetPowerManagementDefaultLimit(self, handle: Any, answer: Any) -> None:  # noqa: N802
        answer._obj.value = 700_000

    def do_DeviceGetEnforcedPowerLimit(self, handle: Any, answer: Any) -> None:  # noqa: N802
        answer._obj.value = min(self.limits.get(self._of(handle), 700_000), 650_000)

    def do_DeviceGetPowerManagementLimit(self, handle: Any, answer: Any) -> None:  # noqa: N802
        answer._obj.value = self.limits.get(self._of(handle), 700_000)

    def do_DeviceGetPowerManagementLimitConstraints(  # noqa: N802
        self, handle: Any, least: Any, most: Any
    ) -> None:
        self._of(handle)
        least._obj.value, most._obj.value = 200_000, 700_000

    def do_DeviceSetPowerManagementLimit(self, handle: Any, limit: Any) -> None:  # noqa: N802
        index = self._of(handle)
        if not 200_000 <= limit.value <= 700_000:
            raise RefusedError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if self.obeys:
            self.limits[index] = limit.value

    # -- plain numbers -------------------------------------------------------------------------

    def do_DeviceGetMemoryInfo_v2(self, handle: Any, answer: Any) -> None:  # noqa: N802
        if self.old_driver or answer._obj.version != pynvml.nvmlMemory_v2:
            raise RefusedError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        used = self.values[self._of(handle)]["used"] - RESERVED_BYTES
        answer._obj.total, answer._obj.used = TOTAL_BYTES, used
        answer._obj.reserved, answer._obj.free = RESERVED_BYTES, TOTAL_BYTES - used

    def do_DeviceGetMemoryInfo(self, handle: Any, answer: Any) -> None:  # noqa: N802
        used = self.values[self._of(handle)]["used"]
        answer._obj.total, answer._obj.used = TOTAL_BYTES, used
        answer._obj.free = TOTAL_BYTES - used

    def do_DeviceGetUtilizationRates(self, handle: Any, answer: Any) -> None:  # noqa: N802
        values = self.values[self._of(handle)]
        if self.parts.get(self._of(handle)):
            raise RefusedError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        answer._obj.gpu, answer._obj.memory = values["gpu"], values["memory"]

    def do_DeviceGetPowerUsage(self, handle: Any, answer: Any) -> None:  # noqa: N802
        answer._obj.value = self.values[self._of(handle)]["power"]

    def do_DeviceGetTemperature(self, handle: Any, sensor: Any, answer: Any) -> None:  # noqa: N802
        assert sensor.value == pynvml.NVML_TEMPERATURE_GPU
        answer._obj.value = self.values[self._of(handle)]["temperature"]

    def do_DeviceGetClockInfo(self, handle: Any, kind: Any, answer: Any) -> None:  # noqa: N802
        word = {pynvml.NVML_CLOCK_SM: "clock", pynvml.NVML_CLOCK_MEM: "memory_clock"}[kind.value]
        answer._obj.value = self.values[self._of(handle)][word]

    def do_DeviceGetCurrentClocksEventReasons(self, handle: Any, answer: Any) -> None:  # noqa: N802
        answer._obj.value = self.values[self._of(handle)]["throttle"]

    def do_DeviceGetPerformanceState(self, handle: Any, answer: Any) -> None:  # noqa: N802
        answer._obj.value = 0

    def do_DeviceGetEncoderUtilization(self, handle: Any, answer: Any, period: Any) -> None:  # noqa: N802
        answer._obj.value, period._obj.value = 0, 167_000

    def do_DeviceGetDecoderUtilization(self, handle: Any, answer: Any, period: Any) -> None:  # noqa: N802
        answer._obj.value, period._obj.value = 0, 167_000

    def do_DeviceGetCurrPcieLinkGeneration(self, handle: Any, answer: Any) -> None:  # noqa: N802
        answer._obj.value = 5

    def do_DeviceGetCurrPcieLinkWidth(self, handle: Any, answer: Any) -> None:  # noqa: N802
        answer._obj.value = 16

    def do_DeviceGetFieldValues(self, handle: Any, count: Any, places: Any) -> None:  # noqa: N802
        values = self.values[self._of(handle)]
        own = {(186, 0): (UINT, values["power"]), (83, 0): (ULONGLONG, values["energy"])}
        for place in places[: count.value]:
            self.fields_read[place.field] += 1
            found = (self.fields | own).get((place.field, place.scope))
            refused = pynvml.NVML_ERROR_NOT_SUPPORTED if found is None else 0
            place.code = self.field_code or refused
            if found is not None:
                # The union's other bytes are whatever was there before.
                place.kind = found[0]
                place.value = found[1] | (0xABCD << 48 if found[0] == UINT else 0)

    # -- links ---------------------------------------------------------------------------------

    def do_DeviceGetNvLinkState(self, handle: Any, link: Any, answer: Any) -> None:  # noqa: N802
        if link.value >= len(self.links.get(self._of(handle), [])):
            raise RefusedError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        answer._obj.value = 1

    def do_DeviceGetNvLinkRemoteDeviceType(self, handle: Any, link: Any, answer: Any) -> None:  # noqa: N802
        answer._obj.value = self.links[self._of(handle)][link.value][0]

    def do_DeviceGetNvLinkRemotePciInfo_v2(self, handle: Any, link: Any, answer: Any) -> None:  # noqa: N802
        answer._obj.bus_id = self.links[self._of(handle)][link.value][1].encode()

    # -- slices --------------------------------------------------------------------------------

    def do_DeviceGetMigMode(self, handle: Any, now: Any, later: Any) -> None:  # noqa: N802
        now._obj.value = later._obj.value = int(self._of(handle) in self.parts)

    def do_DeviceGetMaxMigDeviceCount(self, handle: Any, answer: Any) -> None:  # noqa: N802
        answer._obj.value = 7

    def do_DeviceGetMigDeviceHandleByIndex(self, handle: Any, place: Any, part: Any) -> None:  # noqa: N802
        index = self._of(handle)
        if place.value >= len(self.parts[index]):
            raise RefusedError(pynvml.NVML_ERROR_NOT_FOUND)
        part._obj.value = PART + 16 * index + place.value

    def do_DeviceGetGpuInstanceId(self, part: Any, answer: Any) -> None:  # noqa: N802
        index, place = divmod(part.value - PART, 16)
        answer._obj.value = self.parts[index][place]

    # -- hardware counters ---------------------------------------------------------------------

    def do_GpmQueryDeviceSupport(self, handle: Any, answer: Any) -> None:  # noqa: N802
        assert answer._obj.version == pynvml.NVML_GPM_SUPPORT_VERSION
        answer._obj.supported = int(self.counters is not None)

    def do_GpmSampleAlloc(self, sample: Any) -> None:  # noqa: N802
        sample._obj.value = 0x9000 + self.calls["nvmlGpmSampleAlloc"]

    def do_GpmSampleFree(self, sample: Any) -> None:  # noqa: N802
        assert sample.value

    def do_GpmSampleGet(self, handle: Any, sample: Any) -> None:  # noqa: N802
        self._of(handle)
        if self.counters is None:
            raise RefusedError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def do_GpmMigSampleGet(self, handle: Any, instance: Any, sample: Any) -> None:  # noqa: N802
        assert instance.value in self.parts[self._of(handle)]

    def do_GpmMetricsGet(self, get: Any) -> None:  # noqa: N802
        wanted = get._obj
        assert wanted.before
        assert wanted.after
        assert wanted.before != wanted.after
        for place in wanted.metrics[: wanted.count]:
            known = (self.counters or {}).get(place.metric)
            place.code = pynvml.NVML_ERROR_NOT_SUPPORTED if known is None else 0
            place.value = known or 0.0

    # -- processes and errors ------------------------------------------------------------------

    def do_DeviceGetComputeRunningProcesses_v3(self, handle: Any, room: Any, found: Any) -> int:  # noqa: N802
        known = self.processes.get(self._of(handle), [])
        if len(known) > room._obj.value:
            room._obj.value = len(known)
            return pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        for place, (pid, used, instance) in enumerate(known):
            found[place].pid, found[place].gpu_instance = pid, instance
            found[place].memory_bytes = 2**64 - 1 if used is None else used
        room._obj.value = len(known)
        return 0

    def do_DeviceGetProcessUtilization(  # noqa: N802
        self, handle: Any, found: Any, room: Any, since: Any
    ) -> int:
        known = self.utilisation.get(self._of(handle), [])
        new = [each for each in known if each[1] > since.value]
        if not new:
            return pynvml.NVML_ERROR_NOT_FOUND
        if len(new) > room._obj.value:
            room._obj.value = len(new)
            return pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        for place, (pid, t_us, percent) in enumerate(new):
            found[place].pid, found[place].timestamp_us = pid, t_us
            found[place].sm_percent = percent
        room._obj.value = len(new)
        return 0

    def do_EventSetCreate(self, queue: Any) -> None:  # noqa: N802
        queue._obj.value = 0x7000

    def do_EventSetFree(self, queue: Any) -> None:  # noqa: N802
        assert queue.value == 0x7000

    def do_DeviceRegisterEvents(self, handle: Any, kinds: Any, queue: Any) -> None:  # noqa: N802
        assert (kinds.value, queue.value) == (pynvml.nvmlEventTypeXidCriticalError, 0x7000)

    def do_EventSetWait_v2(self, queue: Any, event: Any, wait_ms: Any) -> int:  # noqa: N802
        assert wait_ms.value == 0
        if not self.queued:
            return pynvml.NVML_ERROR_TIMEOUT
        gpu, code = self.queued.pop(0)
        event._obj.device, event._obj.detail = GPU + gpu, code
        event._obj.kind = pynvml.nvmlEventTypeXidCriticalError
        event._obj.gpu_instance = NO_INSTANCE
        return 0

    def _of(self, handle: Any) -> int:
        """Return whose a handle is, unless that GPU is lost."""
        value = handle.value
        index = (value - PART) // 16 if value >= PART else value - GPU
        if index in self.lost:
            raise RefusedError(self.lost_code)
        return int(index)


class ReplayedNvml:
    """Plays a tape back: the same answers in the same order; the last one again and again."""

    NVMLError = pynvml.NVMLError

    def __init__(self, tape: Path) -> None:
        with gzip.open(tape, "rt") as file:
            self.tape: dict[str, Any] = json.load(file)
        self._at: Counter[str] = Counter()

    def nvmlInit(self) -> None:  # noqa: N802
        """The tape begins after it."""

    def nvmlShutdown(self) -> None:  # noqa: N802
        """The tape ends before it."""

    def _nvmlGetFunctionPointer(self, name: str) -> Callable[..., int]:  # noqa: N802
        asked = any(key.split(" ")[0] == name for key in self.tape["answers"])
        if name in self.tape["missing"] or not asked:  # not when the tape was recorded
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return lambda *arguments: self._answer(name, arguments)

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> int:
        key = tape_key(name, arguments)
        answers = self.tape["answers"].get(key)
        assert answers is not None, f"{key} is not on the tape"
        code, filled = answers[min(self._at[key], len(answers) - 1)]
        self._at[key] += 1
        places = [each for each in map(target, arguments) if each is not None]
        for place, text in zip(places, filled, strict=True):
            size = min(len(text) // 2, ctypes.sizeof(place))
            ctypes.memmove(ctypes.addressof(place), bytes.fromhex(text), size)
        return int(code)


def target(argument: Any) -> Any:
    """Return what a call may fill: something passed by reference, an array, a text."""
    if isinstance(argument, ctypes.Array):
        return argument
    return getattr(argument, "_obj", None)


def tape_key(name: str, arguments: tuple[Any, ...]) -> str:
    """Name a question: the function, the plain arguments, and the fields that are asked for."""
    plain = [
        "-" if each is None else f"{each.value or 0:x}"
        for each in arguments
        if target(each) is None and (each is None or hasattr(each, "value"))
    ]
    if name == "nvmlDeviceGetFieldValues":
        plain += [f"{place.field}.{place.scope}" for place in arguments[2]]
    elif name == "nvmlGpmMetricsGet":
        get = target(arguments[0])
        plain += [str(metric.metric) for metric in get.metrics[: get.count]]
    return f"{name} {' '.join(plain)}"


def bus_id(index: int) -> str:
    return f"00000000:{index:02X}:00.0"


def process(
    pid: int, used_mib: int | None, instance: int = NO_INSTANCE
) -> tuple[int, int | None, int]:
    return pid, None if used_mib is None else used_mib * MIB, instance


def sample(pid: int, t_us: int, percent: int) -> tuple[int, int, int]:
    return pid, t_us, percent
