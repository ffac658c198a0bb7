"""Functions of NVML that answer with unsigned numbers, called with prepared arguments."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, byref, c_uint32, c_uint64, c_void_p, sizeof
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.clients.nvml.library import INSUFFICIENT_SIZE, LOST, NEVER, Library
from steward.clients.nvml.structs import (
    MEMORY_V2,
    TEMPERATURE_V1,
    MemoryV1,
    MemoryV2,
    Temperature,
    Utilization,
)

__all__ = ["FAST", "RARE", "SLICE", "STEADY", "Calls", "NvmlQuery", "ProcessCount"]

WORD_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlQuery:
    """One function, and what we call the numbers that it answers with, in order; "" is skipped."""

    call: str
    answers: tuple[type[Any], ...]
    names: tuple[str, ...]
    about: int | None = None  # which clock, which sensor: an argument before the answers
    version: int = 0  # what the first answer has to start with


Choices = tuple[NvmlQuery, ...]  # the first that a GPU answers is used


def _one(call: str, name: str, *, about: int | None = None, kind: type[Any] = c_uint32) -> Choices:
    return (NvmlQuery(call=call, answers=(kind,), names=(name,), about=about),)


_MEMORY: Choices = (
    NvmlQuery(
        call="nvmlDeviceGetMemoryInfo_v2",
        answers=(MemoryV2,),
        names=("", "memory.total", "memory.reserved", "memory.free", "memory.used"),
        version=MEMORY_V2,
    ),
    NvmlQuery(
        call="nvmlDeviceGetMemoryInfo",
        answers=(MemoryV1,),
        names=("memory.total", "memory.free", "memory.used"),
    ),
)
FAST: tuple[Choices, ...] = (
    (
        NvmlQuery(
            call="nvmlDeviceGetUtilizationRates",
            answers=(Utilization,),
            names=("utilization.gpu", "utilization.memory"),
        ),
    ),
    _one("nvmlDeviceGetPowerUsage", "power.usage"),
    _one("nvmlDeviceGetClockInfo", "clock.sm", about=1),
    (
        *_one("nvmlDeviceGetCurrentClocksEventReasons", "clocks.event_reasons", kind=c_uint64),
        *_one(  # the name before driver 535
            "nvmlDeviceGetCurrentClocksThrottleReasons", "clocks.event_reasons", kind=c_uint64
        ),
    ),
)
STEADY: tuple[Choices, ...] = (
    _MEMORY,
    (
        *_one("nvmlDeviceGetTemperature", "temperature.gpu", about=0),
        NvmlQuery(  # CUDA 14 will have only this one
            call="nvmlDeviceGetTemperatureV",
            answers=(Temperature,),
            names=("", "", "temperature.gpu"),
            version=TEMPERATURE_V1,
        ),
    ),
    _one("nvmlDeviceGetClockInfo", "clock.memory", about=2),
    _one("nvmlDeviceGetPerformanceState", "performance_state"),
    (
        NvmlQuery(
            call="nvmlDeviceGetEncoderUtilization",
            answers=(c_uint32, c_uint32),
            names=("utilization.encoder", ""),
        ),
    ),
    (
        NvmlQuery(
            call="nvmlDeviceGetDecoderUtilization",
            answers=(c_uint32, c_uint32),
            names=("utilization.decoder", ""),
        ),
    ),
)
RARE: tuple[Choices, ...] = (
    _one("nvmlDeviceGetEnforcedPowerLimit", "power.limit"),
    _one("nvmlDeviceGetFanSpeed", "fan.speed"),
    _one("nvmlDeviceGetCurrPcieLinkGeneration", "pcie.generation"),
    _one("nvmlDeviceGetCurrPcieLinkWidth", "pcie.width"),
)
SLICE: tuple[Choices, ...] = (_MEMORY,)


class Calls:
    """Some queries to one GPU. What it refused for good is not called again."""

    def __init__(self, library: Library, handle: c_void_p, queries: Sequence[Choices]) -> None:
        # One buffer, so that all answers become numbers in two steps.
        self._buffer = bytearray(
            WORD_BYTES * sum(_room(each) for choices in queries for each in choices)
        )
        self._end = 0
        self._calls: list[tuple[Any, tuple[object, ...]]] = []
        places: list[tuple[str, int, int, int]] = []  # name, size, byte, which call
        self.code = 0
        for choices in queries:
            for question in choices:
                if self._try(library, handle, question):
                    places += self._places(question)
                    break
        places.sort(key=lambda each: each[1])  # 4 bytes before 8: keeps the order else
        self.names = tuple(name for name, *_ in places)
        self._of = np.array([call for *_, call in places], dtype=np.intp)
        self._small = sum(size == 4 for _, size, *_ in places)
        self._from = np.array([byte // size for _, size, byte, _ in places], dtype=np.intp)
        self._u32 = np.frombuffer(self._buffer, dtype=np.uint32)
        self._u64 = np.frombuffer(self._buffer, dtype=np.uint64)
        self._silent: set[int] = set()  # calls without an answer just now
        self._gone: set[int] = set()  # calls that are refused for good

    def read(self, into: NDArray[np.float64], _now_s: float) -> int:
        """Call every function once; return the code of a GPU that is lost, else 0."""
        silent = self._silent
        for number, (function, arguments) in enumerate(self._calls):
            code = function(*arguments)
            if (code or number in silent) and self._refused(number, code):
                return int(code)
        small, places = self._small, self._from
        into[:small] = self._u32[places[:small]]
        into[small:] = self._u64[places[small:]]
        if silent:
            into[np.isin(self._of, list(silent))] = np.nan
        return 0

    def _refused(self, number: int, code: int) -> bool:
        """Note what a call answered. A GPU that is lost is lost for all of them."""
        if code in LOST:
            return True
        if code in NEVER:
            self._calls[number] = (_refuse, ())
            self._gone.add(number)
        if code or number in self._gone:
            self._silent.add(number)
        else:
            self._silent.discard(number)
        return False

    def _try(self, library: Library, handle: c_void_p, question: NvmlQuery) -> bool:
        function = library.function(question.call)
        if function is None:
            return False
        start, answers = self._end, []
        for kind in question.answers:
            answers.append(kind.from_buffer(self._buffer, self._end))
            self._end += WORD_BYTES * -(-sizeof(kind) // WORD_BYTES)
        if question.version:
            answers[0].version = question.version
        about = () if question.about is None else (c_uint32(question.about),)
        arguments = (handle, *about, *map(byref, answers))
        code = function(*arguments)
        if code in NEVER:
            self._end = start
            return False
        self.code = self.code or (code if code in LOST else 0)
        self._calls.append((function, arguments))
        return True

    def _places(self, question: NvmlQuery) -> list[tuple[str, int, int, int]]:
        """Return where the numbers of the last query are in the buffer."""
        byte = self._end - WORD_BYTES * _room(question)
        found: list[tuple[int, int]] = []
        for kind in question.answers:
            found += [(size, byte + at) for size, at in _parts(kind)]
            byte += WORD_BYTES * -(-sizeof(kind) // WORD_BYTES)
        return [
            (name, size, at, len(self._calls) - 1)
            for name, (size, at) in zip(question.names, found, strict=True)
            if name
        ]


class ProcessCount:
    """How many processes have a context on a GPU: the size of NVML's list."""

    names: tuple[str, ...]

    def __init__(self, library: Library, handle: c_void_p) -> None:
        call = library.function("nvmlDeviceGetComputeRunningProcesses_v3")
        self._function = (
            call or library.function("nvmlDeviceGetComputeRunningProcesses_v2") or _refuse
        )
        self._count = c_uint32(0)
        self._arguments = (handle, byref(self._count), None)
        self.code = self._function(*self._arguments)
        self.names = () if self.code in NEVER else ("processes.count",)

    def read(self, into: NDArray[np.float64], _now_s: float) -> int:
        self._count.value = 0
        code = self._function(*self._arguments)
        into[0] = self._count.value if code in (0, INSUFFICIENT_SIZE) else np.nan
        return int(code) if code in LOST else 0


def _refuse(*_arguments: object) -> int:
    return 3  # not supported


def _parts(kind: type[Any]) -> list[tuple[int, int]]:
    """Return size and offset of each number in an answer."""
    if not issubclass(kind, Structure):
        return [(sizeof(kind), 0)]
    fields = [getattr(kind, field[0]) for field in kind._fields_]
    return [(field.size, field.offset) for field in fields]


def _room(question: NvmlQuery) -> int:
    return sum(-(-sizeof(kind) // WORD_BYTES) for kind in question.answers)
