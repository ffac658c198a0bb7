"""Processes of a GPU: those with a context on it, and the driver's samples of them."""

from __future__ import annotations

from collections.abc import Iterable
from ctypes import byref, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass

from steward.clients.nvml.library import INSUFFICIENT_SIZE, LOST, NOT_FOUND, Library, lost
from steward.clients.nvml.structs import ProcessSample, RunningProcess

__all__ = ["DriverProcess", "GpuProcesses", "running_pids"]

_UNKNOWN_BYTES = 2**64 - 1
_NO_INSTANCE = 2**32 - 1
_CALLS = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
_TRIES = 3  # processes may start between the call for their number and that for the list


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverProcess:
    """What one process has of one GPU. The driver counts pids outside of any container."""

    pid: int
    busy_percent: float | None
    memory_used_bytes: float | None
    gpu_instance: int | None = None  # in MIG mode


class GpuProcesses:
    """The processes of one GPU, looked at again and again."""

    def __init__(self, library: Library, index: int) -> None:
        self._library = library
        self._index = index
        self._seen_us = 0  # newest sample that was counted

    def read(self) -> tuple[DriverProcess, ...]:
        """Return the processes by pid, with their use since the last time."""
        handle = self._library.handle(self._index)
        running = {int(each.pid): each for each in _running(self._library, self._index, handle)}
        busy = self._busy(handle)
        # Where the driver samples processes at all, one without a sample did not run.
        quiet = None if busy is None else 0.0
        return tuple(
            _process(pid, running.get(pid), (busy or {}).get(pid, quiet))
            for pid in sorted({*running, *(busy or {})})
        )

    def _busy(self, handle: c_void_p) -> dict[int, float] | None:
        room, since = c_uint32(0), c_uint64(self._seen_us)
        call = "nvmlDeviceGetProcessUtilization"
        code = self._library.call(call, handle, None, byref(room), since)
        if code == INSUFFICIENT_SIZE and room.value:
            samples = (ProcessSample * room.value)()
            code = self._library.call(call, handle, samples, byref(room), since)
            if not code:
                return self._mean(samples[: room.value])
        return {} if code in (0, NOT_FOUND) else None

    def _mean(self, samples: Iterable[ProcessSample]) -> dict[int, float]:
        new = [each for each in samples if each.timestamp_us > self._seen_us and each.pid]
        self._seen_us = max((int(each.timestamp_us) for each in new), default=self._seen_us)
        by_pid: dict[int, list[float]] = {}
        for each in new:
            if each.sm_percent <= 100:  # the driver leaves rubbish in unused entries
                by_pid.setdefault(int(each.pid), []).append(float(each.sm_percent))
        return {pid: sum(values) / len(values) for pid, values in by_pid.items()}


def _process(pid: int, running: RunningProcess | None, busy: float | None) -> DriverProcess:
    known = running is not None and running.memory_bytes != _UNKNOWN_BYTES
    sliced = running is not None and running.gpu_instance != _NO_INSTANCE
    return DriverProcess(
        pid=pid,
        busy_percent=busy,
        memory_used_bytes=float(running.memory_bytes) if running and known else None,
        gpu_instance=int(running.gpu_instance) if running and sliced else None,
    )


def running_pids(library: Library, index: int) -> tuple[int, ...]:
    """Return the processes with a context on one GPU, or raise `GpuLostError`."""
    handle = library.handle(index)
    return tuple(sorted(int(each.pid) for each in _running(library, index, handle)))


def _running(library: Library, index: int, handle: c_void_p) -> list[RunningProcess]:
    call = next((name for name in _CALLS if library.function(name)), _CALLS[0])
    room = c_uint32(0)
    code = library.call(call, handle, byref(room), None)
    for _ in range(_TRIES):
        if code != INSUFFICIENT_SIZE:
            break
        room = c_uint32(room.value * 2 + 5)
        found = (RunningProcess * room.value)()
        code = library.call(call, handle, byref(room), found)
        if not code:
            return list(found[: room.value])
    if code in LOST:
        raise lost(index, library.error_text(code))
    return []
