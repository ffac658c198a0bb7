"""Loads NVML, looks up its functions, and translates their error codes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from ctypes import byref, c_uint32, c_void_p
from typing import Any

from steward.errors import StewardError

__all__ = [
    "INSUFFICIENT_SIZE",
    "LOST",
    "NEVER",
    "NOT_FOUND",
    "DriverMissingError",
    "GpuLostError",
    "Library",
    "Module",
    "lost",
]

Function = Callable[..., int]
Module = Any  # pynvml, or a recording of it

NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
LOST = frozenset((15, 16, 28))  # is lost, requires a reset, not found
# Will not answer until something is changed: invalid argument, not supported, no permission,
# function not found, argument version mismatch, deprecated.
NEVER = frozenset((2, 3, 4, 13, 25, 26))
_HINTS = {
    9: "load the driver (`modprobe nvidia`), or pass the devices into this container",
    12: "install the NVIDIA driver, or pass its libraries into this container",
    18: "the driver was updated while loaded: reboot, or reload the kernel module",
    4: "run as a user who may read /dev/nvidia*",
}


class DriverMissingError(StewardError):
    """There is no NVIDIA driver; other sources work without it."""


class GpuLostError(StewardError):
    """One GPU does not answer any more; the others may."""


class Library:
    """NVML itself. `module` stands in for pynvml in tests."""

    def __init__(self, module: Module | None = None) -> None:
        self._module: Module = module
        self._open = False
        self._functions: dict[str, Function | None] = {}

    def open(self) -> None:
        """Start NVML if it is not, or raise `DriverMissingError`."""
        if self._open:
            return
        if self._module is None:
            try:
                self._module = importlib.import_module("pynvml")
            except ImportError as fault:
                hint = "pip install nvidia-ml-py"
                raise DriverMissingError("nvidia-ml-py is not installed", hint=hint) from fault
        try:
            self._module.nvmlInit()
        except self._module.NVMLError as fault:
            raise self._missing(int(getattr(fault, "value", 0))) from fault
        self._open = True

    def close(self) -> None:
        """Stop NVML. Handles and samples taken from it are worth nothing afterwards."""
        if not self._open:
            return
        self._open = False
        try:
            self._module.nvmlShutdown()
        except self._module.NVMLError:  # it is gone already
            return

    def function(self, name: str) -> Function | None:
        """Return a function of the library, or None where this driver does not have it."""
        if name not in self._functions:
            self.open()
            try:
                pointer = self._module._nvmlGetFunctionPointer(name)  # noqa: SLF001 - documented nowhere, but what its every call does
            except self._module.NVMLError:
                pointer = None
            self._functions[name] = pointer
        return self._functions[name]

    def call(self, name: str, *arguments: object) -> int:
        """Call a function once and return its code; 13 where there is none."""
        found = self.function(name)
        return 13 if found is None else int(found(*arguments))

    def number(self, name: str, *arguments: object) -> int | None:
        """Call a function whose last argument is one unsigned number, and return that."""
        answer = c_uint32()
        return None if self.call(name, *arguments, byref(answer)) else int(answer.value)

    def count(self) -> int:
        """Return how many GPUs there are."""
        self.open()
        answer = c_uint32()
        code = self.call("nvmlDeviceGetCount_v2", byref(answer))
        if code:
            self._open = False
            raise self._missing(code)
        return int(answer.value)

    def handle(self, index: int) -> c_void_p:
        """Return what the GPU is addressed by, or raise `GpuLostError`."""
        self.open()
        found = c_void_p()
        code = self.call("nvmlDeviceGetHandleByIndex_v2", c_uint32(index), byref(found))
        if code:
            raise lost(index, self.error_text(code))
        return found

    def error_text(self, code: int) -> str:
        """Return the text of an error code."""
        return str(self._module.NVMLError(code)) if self._module else f"NVML error {code}"

    def _missing(self, code: int) -> DriverMissingError:
        hint = _HINTS.get(code, "run nvidia-smi: it should list the GPUs")
        return DriverMissingError(
            f"the NVIDIA driver does not answer: {self.error_text(code)}", hint=hint
        )


def lost(index: int, why: str) -> GpuLostError:
    """Build the error of a GPU that does not answer."""
    hint = "look for XID errors in `dmesg`; reset the GPU, or drain the node"
    return GpuLostError(f"GPU {index} does not answer: {why}", hint=hint)
