"""XID errors as the driver queues them: none is missed between two looks."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import byref, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass

from steward.clients.nvml.library import Library
from steward.clients.nvml.structs import EventFound

__all__ = ["Xid", "XidQueue"]

_XID = 8  # nvmlEventTypeXidCriticalError
_MOST = 256  # per read: a failing GPU can report thousands
_NO_INSTANCE = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """One error that the driver reported, by NVIDIA's number for it."""

    gpu: int
    code: int
    gpu_instance: int | None = None


class XidQueue:
    """The queue of the GPUs that can report errors; others are left out."""

    def __init__(self, library: Library, handles: Mapping[int, c_void_p]) -> None:
        self._library = library
        self._index = {handle.value: index for index, handle in handles.items()}
        self._set = c_void_p()
        code = library.call("nvmlEventSetCreate", byref(self._set))
        self.registered = () if code else tuple(i for i, h in handles.items() if self._register(h))

    def take(self) -> tuple[Xid, ...]:
        """Return what has been reported since the last time; never waits."""
        found: list[Xid] = []
        event = EventFound()
        call, now = "nvmlEventSetWait_v2", c_uint32(0)
        for _ in range(_MOST if self.registered else 0):
            if self._library.call(call, self._set, byref(event), now):
                break  # nothing more is queued, or the driver is unloaded: the next read fails then
            if event.kind == _XID and event.device in self._index:
                found.append(_xid(self._index[event.device], event))
        return tuple(found)

    def close(self) -> None:
        """Free the event set."""
        if self._set:
            self._library.call("nvmlEventSetFree", self._set)
            self._set = c_void_p()
        self.registered = ()

    def _register(self, handle: c_void_p) -> bool:
        return not self._library.call("nvmlDeviceRegisterEvents", handle, c_uint64(_XID), self._set)


def _xid(gpu: int, event: EventFound) -> Xid:
    instance = None if event.gpu_instance == _NO_INSTANCE else int(event.gpu_instance)
    return Xid(gpu=gpu, code=int(event.detail), gpu_instance=instance)
