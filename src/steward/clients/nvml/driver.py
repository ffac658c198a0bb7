"""The driver of this machine: which GPUs there are, their meters, processes and errors.

A call that a GPU does not support costs its own value alone. A GPU that is gone raises
`GpuLostError`, and the others can still be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from ctypes import c_uint32, create_string_buffer
from pathlib import Path

from steward.clients.nvml.devices import Device, Slice, describe, slices
from steward.clients.nvml.library import GpuLostError, Library, Module
from steward.clients.nvml.processes import DriverProcess, GpuProcesses, running_pids
from steward.clients.nvml.readers import DeviceReader
from steward.clients.nvml.xids import Xid, XidQueue

__all__ = ["Driver"]


class Driver:
    """All GPUs of one machine. `module` stands in for pynvml in tests."""

    def __init__(
        self,
        module: Module | None = None,
        *,
        plugged: Path = Path("/proc/driver/nvidia/gpus"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self.library = Library(module)
        self._plugged = plugged
        self._processes: dict[int, GpuProcesses] = {}
        self._xids: XidQueue | None = None

    def count(self) -> int:
        """Return how many GPUs there are, or raise `DriverMissingError`."""
        return self.library.count()

    def version(self) -> str:
        """Return the driver's own version, e.g. `580.159`."""
        text = create_string_buffer(96)
        if self.library.call("nvmlSystemGetDriverVersion", text, c_uint32(96)):
            return "of unknown version"
        return text.value.decode("ascii", "replace")

    def plugged(self) -> tuple[str, ...]:
        """Return the bus ids that the kernel has given to the driver.

        NVML counts GPUs once, when it is started; this detects when it has to be restarted.
        """
        try:
            return tuple(sorted(each.name for each in self._plugged.iterdir()))
        except OSError:  # not Linux, or a container that does not see it
            return ()

    def close(self) -> None:
        """Shut NVML down; the next call starts it again and finds GPUs that have come.

        Every reader that was made before is void afterwards.
        """
        if self._xids is not None:
            self._xids.close()
            self._xids = None
        self._processes.clear()
        self.library.close()

    def device(self, index: int) -> Device:
        """Return what does not change about a GPU, or raise `GpuLostError`."""
        return describe(self.library, index)

    def slices(self, index: int) -> tuple[Slice, ...]:
        """Return the GPU instances of a GPU in MIG mode, by id."""
        return tuple(sorted(slices(self.library, index), key=lambda each: each.id))

    def meters(self, index: int) -> tuple[DeviceReader, ...]:
        """Return what reads a GPU and its slices, or raise `GpuLostError`."""
        whole = DeviceReader(self.library, self.library.handle(index), of=index)
        parts = slices(self.library, index)
        return whole, *(
            DeviceReader(self.library, parts[each], of=each)
            for each in sorted(parts, key=lambda each: each.id)
        )

    def processes(self, index: int) -> tuple[DriverProcess, ...]:
        """Return the processes on one GPU, by pid, with their use since the last time."""
        if index not in self._processes:
            self._processes[index] = GpuProcesses(self.library, index)
        return self._processes[index].read()

    def pids(self, index: int) -> tuple[int, ...]:
        """Return the processes with a context on one GPU, or raise `GpuLostError`."""
        return running_pids(self.library, index)

    def listen(self, indices: Iterable[int]) -> None:
        """Register for Xid events of these GPUs from now on."""
        if self._xids is not None:
            self._xids.close()
        handles = {}
        for index in indices:
            try:
                handles[index] = self.library.handle(index)
            except GpuLostError:
                continue  # it reports no more errors
        self._xids = XidQueue(self.library, handles)

    def xids(self) -> tuple[Xid, ...]:
        """Return the errors that were queued since the last time."""
        return self._xids.take() if self._xids is not None else ()
