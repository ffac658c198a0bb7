"""What loads programs into a kernel: libbpf (`libbpf.py`), or a fake in tests."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from steward.errors import StewardError

__all__ = ["BpfMap", "KernelTypes", "LoadedObject", "Loader", "ProbeSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTypes:
    """What is read from the kernel's own types: its tracepoints and its cgroup controllers."""

    arguments: Mapping[str, int]  # number of arguments of each tracepoint that exists
    controllers: Mapping[str, int]  # index of each cgroup controller


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """What is set in an object before it is loaded: `config` of `counters.h`, sizes of maps."""

    slots: int
    stripes: int  # a power of two
    controller: int  # -1: cgroup v2
    switch_has_state: bool

    @property
    def config(self) -> bytes:
        return struct.pack(
            "<IIiI", self.slots, self.stripes - 1, self.controller, self.switch_has_state
        )

    @property
    def max_entries(self) -> Mapping[str, int]:
        # owners without a slot of their own are in the map `slots` too
        return {
            "slots": 16 * self.slots,
            "free_slots": self.slots,
            "rows": self.slots * self.stripes,
        }


class BpfMap(Protocol):
    """A map. Keys and values are bytes; a stack has empty keys."""

    def memory(self, size: int) -> bytearray | mmap.mmap: ...
    def update(self, key: bytes, value: bytes) -> None: ...
    def delete(self, key: bytes) -> None: ...
    def items(self, *, key: int, value: int, entries: int) -> dict[bytes, bytes]: ...
    def close(self) -> None: ...


class LoadedObject(Protocol):
    """The programs of one object, checked by the kernel but not running until attached."""

    @property
    def maps(self) -> Mapping[str, BpfMap]: ...
    def attach(self, programs: Collection[str]) -> None: ...
    def run(self, program: str) -> None: ...
    def attach_uprobe(self, program: str, path: str, offset: int, *, at_return: bool) -> None: ...
    def costs(self) -> dict[str, tuple[int, int]]: ...
    def close(self) -> None: ...


class Loader(Protocol):
    """Loads objects into a kernel: the running one, or a fake one in tests."""

    def obstacle(self) -> StewardError | None: ...
    def types(self, tracepoints: Collection[str]) -> KernelTypes: ...
    def load(
        self, name: str, code: bytes, *, settings: ProbeSettings, maps: Mapping[str, BpfMap]
    ) -> LoadedObject: ...
