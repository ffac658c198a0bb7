"""Speaks bpf(2) and perf_event_open(2): maps, programs, and where they hang.

Each call fills the part of the kernel's `union bpf_attr` that it uses; numbers and places of
fields are those of `linux/bpf.h`. File descriptors close with the process: nothing is pinned, so
nothing stays behind.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import struct
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Protocol

from steward.clients.bpf.btf import VMLINUX
from steward.clients.bpf.support import obstacle
from steward.errors import StewardError

__all__ = ["Bpf", "Kernel", "MapKind", "ProgramKind"]

_NUMBERS = {"x86_64": (321, 298), "aarch64": (280, 241)}  # bpf, perf_event_open
_UPROBES = Path("/sys/bus/event_source/devices/uprobe")

# The kernel lets programs that say so use all it offers. The instructions are our own and may be
# had under either licence; the rest of steward is not affected.
LICENCE = b"Dual BSD/GPL\0"
_LOG_BYTES = 1 << 18


class Command(IntEnum):
    """What bpf(2) is asked to do."""

    MAP_CREATE = 0
    MAP_LOOKUP = 1
    MAP_UPDATE = 2
    MAP_DELETE = 3
    PROGRAM_LOAD = 5
    DESCRIBE = 15
    RAW_TRACEPOINT_OPEN = 17
    BTF_LOAD = 18
    MAP_LOOKUP_BATCH = 24
    LINK_CREATE = 28
    ENABLE_STATS = 32
    ITERATOR_CREATE = 33


class MapKind(IntEnum):
    """A stack hands out what was put in last; a task storage keeps a value with each task."""

    HASH = 1
    ARRAY = 2
    STACK = 23
    TASK_STORAGE = 29


class ProgramKind(IntEnum):
    """A probe runs at a function of a program; a tracing program at a hook of the kernel."""

    PROBE = 2
    TRACING = 26


class Kernel(Protocol):
    """What the programs are handed to: the real one, or one that is made up for tests."""

    @property
    def types(self) -> Path: ...
    def obstacle(self) -> StewardError | None: ...

    def map(self, kind: MapKind, name: str, *, key: int, value: int, entries: int) -> int: ...
    def shared(self, fd: int, size: int) -> bytearray | mmap.mmap: ...
    def update(self, fd: int, key: bytes, value: bytes) -> None: ...
    def delete(self, fd: int, key: bytes) -> None: ...
    def items(self, fd: int, *, key: int, value: int, entries: int) -> dict[bytes, bytes]: ...
    def load(
        self, kind: ProgramKind, name: str, code: bytes, *, hook: int = 0, attach: int = 0
    ) -> int: ...
    def attach(self, program: int) -> int: ...
    def iterator(self, program: int) -> int: ...
    def run_through(self, link: int) -> None: ...
    def uprobe(self, program: int, path: str, offset: int, *, returning: bool) -> int: ...
    def cost(self, program: int) -> tuple[int, int]: ...
    def close(self, fd: int) -> None: ...


MMAPABLE = 1 << 10
NO_PREALLOC = 1
RAW_TRACEPOINT, ITERATOR = 23, 28  # how a tracing program is attached


class Bpf:
    """The running kernel. `types` is where it describes its own."""

    def __init__(self, types: Path = VMLINUX) -> None:
        self.types = types
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._types = 0  # BTF of our own values; task storage insists on it
        self._walks: dict[int, ctypes.Array[ctypes.c_char]] = {}  # of each link, what starts one

    def obstacle(self) -> StewardError | None:
        """Return why no program can be loaded here at all, or None; nothing is tried."""
        return obstacle(types=self.types)

    # -- maps ------------------------------------------------------------------------------------

    def map(self, kind: MapKind, name: str, *, key: int, value: int, entries: int) -> int:
        """Make a map and return its file descriptor. Arrays can be shared with this process."""
        flags = {MapKind.ARRAY: MMAPABLE, MapKind.TASK_STORAGE: NO_PREALLOC}.get(kind, 0)
        storage = kind is MapKind.TASK_STORAGE
        described = (self._described(value), 1, 3) if storage else (0, 0, 0)
        attr = struct.pack(
            "<IIIIIII16sIIII",
            *(kind, key, value, 0 if storage else entries, flags, 0, 0),
            _short(name),
            0,
            *described,
        )
        return self._bpf(Command.MAP_CREATE, attr, what=f"the map {name}")

    def shared(self, fd: int, size: int) -> mmap.mmap:
        """Return the memory of an array: what the kernel counts is seen without a call."""
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        return mmap.mmap(fd, pages, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)

    def update(self, fd: int, key: bytes, value: bytes) -> None:
        """Set one value; a stack has no key."""
        self._element(Command.MAP_UPDATE, fd, key, value)

    def delete(self, fd: int, key: bytes) -> None:
        """Delete one key, if it is there."""
        try:
            self._element(Command.MAP_DELETE, fd, key, b"")
        except StewardError as fault:
            if getattr(fault.__cause__, "errno", 0) != errno.ENOENT:
                raise

    def items(self, fd: int, *, key: int, value: int, entries: int) -> dict[bytes, bytes]:
        """Return a whole hash map in one call."""
        keys = ctypes.create_string_buffer(key * entries)
        values = ctypes.create_string_buffer(value * entries)
        cursor = ctypes.create_string_buffer(max(key, 8))
        attr = bytearray(
            struct.pack(
                "<QQQQIIQQ",
                0,
                ctypes.addressof(cursor),
                ctypes.addressof(keys),
                ctypes.addressof(values),
                *(entries, fd, 0, 0),
            )
        )
        try:
            self._bpf(Command.MAP_LOOKUP_BATCH, attr, what="a map")
        except StewardError as fault:
            if getattr(fault.__cause__, "errno", 0) != errno.ENOENT:  # which means: that was all
                raise
        count = struct.unpack_from("<I", attr, 32)[0]
        return {
            keys.raw[key * each : key * each + key]: values.raw[value * each : value * each + value]
            for each in range(count)
        }

    def _element(self, command: Command, fd: int, key: bytes, value: bytes) -> None:
        keyed = ctypes.create_string_buffer(key, len(key)) if key else None
        valued = ctypes.create_string_buffer(value, len(value)) if value else None
        attr = struct.pack(
            "<IIQQQ",
            *(fd, 0),
            ctypes.addressof(keyed) if keyed is not None else 0,
            ctypes.addressof(valued) if valued is not None else 0,
            0,
        )
        self._bpf(command, attr, what="an element of a map")

    def _described(self, value: int) -> int:
        """Tell the kernel the type of our values: an array of 64-bit numbers."""
        if not self._types:
            names = b"\0int\0u64\0"
            types = struct.pack("<IIII", 1, 1 << 24, 4, 1 << 24 | 32)
            types += struct.pack("<IIII", 5, 1 << 24, 8, 64)
            types += struct.pack("<IIIIII", 0, 3 << 24, 0, 2, 1, value // 8)
            header = struct.pack(
                "<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(names)
            )
            blob = ctypes.create_string_buffer(header + types + names)
            attr = struct.pack("<QQIIII", ctypes.addressof(blob), 0, len(blob) - 1, 0, 0, 0)
            self._types = self._bpf(Command.BTF_LOAD, attr, what="the types of its values")
        return self._types

    # -- programs --------------------------------------------------------------------------------

    def load(
        self, kind: ProgramKind, name: str, code: bytes, *, hook: int = 0, attach: int = 0
    ) -> int:
        """Have a program checked and kept; what the verifier says is in the error."""
        try:
            return self._load(kind, name, code, hook=hook, attach=attach, log_bytes=0)
        except StewardError as fault:
            if getattr(fault.__cause__, "errno", 0) not in (errno.EINVAL, errno.EACCES):
                raise
        return self._load(kind, name, code, hook=hook, attach=attach, log_bytes=_LOG_BYTES)

    def _load(
        self, kind: ProgramKind, name: str, code: bytes, *, hook: int, attach: int, log_bytes: int
    ) -> int:
        instructions = ctypes.create_string_buffer(code, len(code))
        licence = ctypes.create_string_buffer(LICENCE)
        log = ctypes.create_string_buffer(max(log_bytes, 1))
        attr = struct.pack(
            "<IIQQIIQII16sIIIIQIIQII",
            *(kind, len(code) // 8),
            ctypes.addressof(instructions),
            ctypes.addressof(licence),
            *(1 if log_bytes else 0, log_bytes, ctypes.addressof(log) if log_bytes else 0),
            *(0, 0, _short(name), 0, attach),
            *(0, 0, 0, 0, 0, 0, 0, hook),
        )
        try:
            return self._bpf(Command.PROGRAM_LOAD, attr, what=f"the program {name}")
        except StewardError as fault:
            said = _last_words(log.value.decode(errors="replace"))
            if not said:
                raise
            raise StewardError(f"{fault.problem}: {said}", where=fault.where) from fault.__cause__

    def attach(self, program: int) -> int:
        """Start a tracing program at the hook that it was loaded for."""
        attr = struct.pack("<QII", 0, program, 0)
        return self._bpf(Command.RAW_TRACEPOINT_OPEN, attr, what="a hook")

    def iterator(self, program: int) -> int:
        """Return a link from which runs over all tasks are started (see `run_through`)."""
        attr = struct.pack("<IIIIQIIQQ", program, 0, ITERATOR, 0, 0, 0, 0, 0, 0)
        link = self._bpf(Command.LINK_CREATE, attr, what="an iterator")
        self._walks[link] = ctypes.create_string_buffer(struct.pack("<II", link, 0), 8)
        return link

    def run_through(self, link: int) -> None:
        """Let an iterator's program see every task once: ten times a second, so without detours."""
        fd = self._libc.syscall(_numbers()[0], int(Command.ITERATOR_CREATE), self._walks[link], 8)
        if fd < 0:
            raise _refused("an iterator", ctypes.get_errno())
        try:
            while os.read(fd, 1):  # the program says nothing
                pass
        finally:
            os.close(fd)

    def uprobe(self, program: int, path: str, offset: int, *, returning: bool) -> int:
        """Start a probe at a place of a file, in every process that has it mapped."""
        named = ctypes.create_string_buffer(path.encode())
        kind = int((_UPROBES / "type").read_text())
        attr = ctypes.create_string_buffer(
            struct.pack(
                "<IIQQQQQIIQQ",
                *(kind, 112, 1 if returning else 0, 0, 0, 0, 0, 0, 0),
                *(ctypes.addressof(named), offset),
            ).ljust(112, b"\0"),
            112,
        )
        fd = self._libc.syscall(_numbers()[1], attr, -1, 0, -1, 8)  # any process, close on exec
        if fd < 0:
            raise _refused(f"a probe of {path}+{offset:#x}", ctypes.get_errno())
        for request, value in ((0x40042408, program), (0x2400, 0)):  # SET_BPF, ENABLE
            if self._libc.ioctl(fd, request, value) < 0:
                number = ctypes.get_errno()
                os.close(fd)
                raise _refused(f"a probe of {path}+{offset:#x}", number)
        return int(fd)

    # -- cost ------------------------------------------------------------------------------------

    def measure(self) -> int:
        """Let the kernel measure its programs for as long as the returned descriptor is open."""
        return self._bpf(Command.ENABLE_STATS, struct.pack("<I", 0), what="statistics")

    def cost(self, program: int) -> tuple[int, int]:
        """Return nanoseconds and runs of a program, zeros unless they are measured."""
        about = ctypes.create_string_buffer(232)
        attr = struct.pack("<IIQ", program, 232, ctypes.addressof(about))
        self._bpf(Command.DESCRIBE, attr, what="a program")
        spent_ns, runs = struct.unpack_from("<QQ", about, 192)
        return spent_ns, runs

    def close(self, fd: int) -> None:
        os.close(fd)

    def _bpf(self, command: Command, attr: bytes | bytearray, *, what: str) -> int:
        buffer = ctypes.create_string_buffer(bytes(attr), len(attr))
        got = self._libc.syscall(_numbers()[0], int(command), buffer, len(attr))
        number = ctypes.get_errno()
        if isinstance(attr, bytearray):
            attr[:] = buffer.raw
        if got < 0:
            raise _refused(what, number)
        return int(got)


@cache
def _numbers() -> tuple[int, int]:
    return _NUMBERS[platform.machine()]  # others do not come so far: see `support.py`


def _short(name: str) -> bytes:
    return name.replace("-", "_").encode()[:15]


def _refused(what: str, number: int) -> StewardError:
    denied = number in (errno.EPERM, errno.EACCES)
    fault = StewardError(
        f"the kernel refuses {what}: {os.strerror(number)}",
        where="bpf",
        hint="it needs root, or CAP_BPF and CAP_PERFMON" if denied else "",
    )
    fault.__cause__ = OSError(number, os.strerror(number))
    return fault


def _last_words(log: str) -> str:
    """Return what the verifier objected to: its last lines before its statistics."""
    lines = [line for line in log.splitlines() if line and not line.startswith("processed ")]
    return " / ".join(lines[-3:])
