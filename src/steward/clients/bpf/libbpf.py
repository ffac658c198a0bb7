"""Binds libbpf: loads compiled objects, attaches their programs, reads and writes their maps.

The library is found at run time (`libbpf.so.1`). Nothing is pinned: programs and maps go away with
the process.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from collections import deque
from collections.abc import Callable, Collection, Mapping
from ctypes import POINTER, c_bool, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from functools import cache
from pathlib import Path

from steward.clients.bpf.loader import BpfMap, KernelTypes, ProbeSettings
from steward.clients.bpf.support import LIBRARY, VMLINUX, obstacle
from steward.errors import StewardError

__all__ = ["LibBpf", "last_reason"]

_BTF_ENUM, _BTF_TYPEDEF = 6, 8
_RUN_TIME_STATS = 0
_WARNING = 0  # level of a message


class LibBpf:
    """The running kernel, through libbpf."""

    def __init__(self, vmlinux: Path = VMLINUX) -> None:
        self._vmlinux = vmlinux

    def obstacle(self) -> StewardError | None:
        """Return why no program can be loaded here at all, or None; nothing is tried."""
        return obstacle(vmlinux=self._vmlinux)

    def types(self, tracepoints: Collection[str]) -> KernelTypes:
        """Look up tracepoints and controllers; the kernel's 10 MB of types are freed again."""
        lib = _library()
        btf = lib.btf__parse(os.fsencode(self._vmlinux), None)
        if not btf:
            raise _failure(f"cannot read the kernel's types in {self._vmlinux}")
        try:
            return KernelTypes(
                arguments={
                    name: count
                    for name in tracepoints
                    if (count := _argument_count(lib, btf, name)) is not None
                },
                controllers=_controllers(lib, btf),
            )
        finally:
            lib.btf__free(btf)

    def load(
        self, name: str, code: bytes, *, settings: ProbeSettings, maps: Mapping[str, BpfMap]
    ) -> _Object:
        """Load all programs of an object; `maps` are used in place of its own of the same name."""
        return _Object(name, code, settings=settings, maps=maps)

    def measure(self) -> int:
        """Have the kernel time its programs until the returned file descriptor is closed."""
        return _checked(_library().bpf_enable_stats(_RUN_TIME_STATS), "cannot measure programs")


class _Map:
    """A map of the running kernel, by a file descriptor of its own."""

    def __init__(self, fd: int) -> None:
        self.fd = os.dup(fd)
        self._lib = _library()

    def memory(self, size: int) -> mmap.mmap:
        """Return the memory of an array: what programs write is seen without a system call."""
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        return mmap.mmap(self.fd, pages, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)

    def update(self, key: bytes, value: bytes) -> None:
        got = self._lib.bpf_map_update_elem(self.fd, key or None, value, 0)
        _checked(got, "cannot write to a map")

    def delete(self, key: bytes) -> None:
        """Delete one key, if it is there."""
        got = self._lib.bpf_map_delete_elem(self.fd, key)
        if got != -errno.ENOENT:
            _checked(got, "cannot delete from a map")

    def items(self, *, key: int, value: int, entries: int) -> dict[bytes, bytes]:
        """Return a whole hash map in one call."""
        keys = ctypes.create_string_buffer(key * entries)
        values = ctypes.create_string_buffer(value * entries)
        cursor = ctypes.create_string_buffer(max(key, 8))
        count = c_uint32(entries)
        got = self._lib.bpf_map_lookup_batch(
            self.fd, None, cursor, keys, values, ctypes.byref(count), None
        )
        if got != -errno.ENOENT:  # which means: that was all
            _checked(got, "cannot read a map")
        return {
            keys.raw[key * each : key * each + key]: values.raw[value * each : value * each + value]
            for each in range(count.value)
        }

    def close(self) -> None:
        os.close(self.fd)


class _Object:
    """An object of the running kernel. Its maps are named as in the C source."""

    def __init__(
        self, name: str, code: bytes, *, settings: ProbeSettings, maps: Mapping[str, BpfMap]
    ) -> None:
        self._lib = _library()
        self._name = name
        self._links: list[int] = []
        self.maps: dict[str, BpfMap] = {}
        self._object = self._lib.bpf_object__open_mem(code, len(code), None)
        if not self._object:
            raise _failure(f"{name} is not an object that libbpf can open")
        try:
            self._configure(settings, maps)
            got = self._lib.bpf_object__load(self._object)
            _checked(got, f"the kernel refuses {name}")
        except StewardError:
            self.close()
            raise
        self._programs = self._named(self._lib.bpf_object__next_program, "bpf_program__name")
        self._fds = {
            each: self._lib.bpf_program__fd(program) for each, program in self._programs.items()
        }
        self.maps = {
            each: _Map(self._lib.bpf_map__fd(pointer))
            for each, pointer in self._map_pointers().items()
        }

    def attach(self, programs: Collection[str]) -> None:
        """Start each of these programs at the tracepoint that its section names."""
        for name in programs:
            link = self._lib.bpf_program__attach(self._programs[name])
            self._keep(link, f"cannot attach {name}")

    def run(self, program: str) -> None:
        """Run a program once, here and now."""
        got = self._lib.bpf_prog_test_run_opts(self._fds[program], _RUN_OPTIONS)
        _checked(got, f"cannot run {program}")

    def attach_uprobe(self, program: str, path: str, offset: int, *, at_return: bool) -> None:
        """Start a program at an offset of a file, in every process that has it mapped."""
        link = self._lib.bpf_program__attach_uprobe(
            self._programs[program], at_return, -1, os.fsencode(path), offset
        )
        self._keep(link, f"cannot attach {program} to {path}+{offset:#x}")

    def costs(self) -> dict[str, tuple[int, int]]:
        """Return nanoseconds and runs of each program, zeros unless they are measured."""
        return {name: self._cost(fd) for name, fd in self._fds.items()}

    def close(self) -> None:
        """Detach and unload the programs. Maps stay until they are closed themselves."""
        for link in reversed(self._links):
            self._lib.bpf_link__destroy(link)
        self._links.clear()
        self._lib.bpf_object__close(self._object)
        self._object = None

    # -- inside ----------------------------------------------------------------------------------

    def _configure(self, settings: ProbeSettings, maps: Mapping[str, BpfMap]) -> None:
        for name, pointer in self._map_pointers().items():
            shared = maps.get(name)
            if isinstance(shared, _Map):
                got = self._lib.bpf_map__reuse_fd(pointer, shared.fd)
                _checked(got, f"{self._name} cannot share the map {name}")
            elif name in settings.max_entries:
                entries = settings.max_entries[name]
                _checked(
                    self._lib.bpf_map__set_max_entries(pointer, entries), f"the size of {name}"
                )
        config = self._lib.bpf_object__find_map_by_name(self._object, b".rodata")
        got = self._lib.bpf_map__set_initial_value(config, settings.config, len(settings.config))
        _checked(got, f"cannot configure {self._name}")

    def _map_pointers(self) -> dict[str, int]:
        found = self._named(self._lib.bpf_object__next_map, "bpf_map__name")
        return {name: pointer for name, pointer in found.items() if "." not in name}

    def _named(self, following: Callable[..., int | None], name: str) -> dict[str, int]:
        """Return what an iterator of libbpf goes over, by name."""
        found: dict[str, int] = {}
        pointer = following(self._object, None)
        while pointer:
            found[getattr(self._lib, name)(pointer).decode()] = pointer
            pointer = following(self._object, pointer)
        return found

    def _keep(self, link: int | None, problem: str) -> None:
        if not link:
            raise _failure(problem)
        self._links.append(link)

    def _cost(self, fd: int) -> tuple[int, int]:
        about = ctypes.create_string_buffer(232)  # struct bpf_prog_info up to its run statistics
        size = c_uint32(len(about))
        got = self._lib.bpf_obj_get_info_by_fd(fd, about, ctypes.byref(size))
        _checked(got, "cannot look up a program")
        spent_ns, runs = struct.unpack_from("<QQ", about, 192)
        return spent_ns, runs


# -- types of the kernel -----------------------------------------------------------------------


class _BtfType(ctypes.Structure):
    """`struct btf_type`: what follows it depends on its kind."""

    _fields_ = (("name", c_uint32), ("info", c_uint32), ("size_or_type", c_uint32))

    @property
    def members(self) -> int:
        return int(self.info) & 0xFFFF


def _argument_count(lib: ctypes.CDLL, btf: int, tracepoint: str) -> int | None:
    """Return how many arguments a tracepoint gives to programs, None where it does not exist."""
    found = lib.btf__find_by_name_kind(btf, f"btf_trace_{tracepoint}".encode(), _BTF_TYPEDEF)
    if found < 0:
        return None
    pointer = lib.btf__type_by_id(btf, found).contents.size_or_type
    prototype = lib.btf__type_by_id(btf, pointer).contents.size_or_type
    return int(lib.btf__type_by_id(btf, prototype).contents.members) - 1  # the first is internal


def _controllers(lib: ctypes.CDLL, btf: int) -> dict[str, int]:
    found = lib.btf__find_by_name_kind(btf, b"cgroup_subsys_id", _BTF_ENUM)
    if found < 0:
        return {}
    pointer = lib.btf__type_by_id(btf, found)
    count = pointer.contents.members
    fields = ctypes.cast(pointer, POINTER(c_uint32))[3 : 3 + 2 * count]
    names = (lib.btf__name_by_offset(btf, name).decode() for name in fields[::2])
    return {
        name.removesuffix("_cgrp_id"): index
        for name, index in zip(names, fields[1::2], strict=True)
    }


# -- the library -------------------------------------------------------------------------------

_POINTERS: Mapping[str, tuple[object, ...]] = {  # functions that return one, NULL on failure
    "bpf_object__open_mem": (c_char_p, c_size_t, c_void_p),
    "bpf_object__next_program": (c_void_p, c_void_p),
    "bpf_object__next_map": (c_void_p, c_void_p),
    "bpf_object__find_map_by_name": (c_void_p, c_char_p),
    "bpf_program__attach": (c_void_p,),
    "bpf_program__attach_uprobe": (c_void_p, c_bool, c_int, c_char_p, c_size_t),
    "btf__parse": (c_char_p, c_void_p),
}
_NUMBERS: Mapping[str, tuple[object, ...]] = {  # functions that return an int, negative on failure
    "bpf_object__load": (c_void_p,),
    "bpf_object__close": (c_void_p,),
    "bpf_map__fd": (c_void_p,),
    "bpf_map__reuse_fd": (c_void_p, c_int),
    "bpf_map__set_max_entries": (c_void_p, c_uint32),
    "bpf_map__set_initial_value": (c_void_p, c_char_p, c_size_t),
    "bpf_map_update_elem": (c_int, c_char_p, c_char_p, ctypes.c_uint64),
    "bpf_map_delete_elem": (c_int, c_char_p),
    "bpf_map_lookup_batch": (c_int, *(c_void_p,) * 6),
    "bpf_program__fd": (c_void_p,),
    "bpf_link__destroy": (c_void_p,),
    "bpf_prog_test_run_opts": (c_int, c_void_p),
    "bpf_obj_get_info_by_fd": (c_int, c_void_p, c_void_p),
    "bpf_enable_stats": (c_int,),
    "btf__find_by_name_kind": (c_void_p, c_char_p, c_uint32),
    "btf__free": (c_void_p,),
}
# `struct bpf_test_run_opts` of libbpf 1.0, with nothing in it but its size
_RUN_OPTIONS = ctypes.create_string_buffer(struct.pack("<Q72x", 80), 80)
_messages: deque[str] = deque(maxlen=100)  # that libbpf has written since it last failed


@cache
def _library() -> ctypes.CDLL:
    try:
        lib = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError as fault:
        raise StewardError(f"{LIBRARY} cannot be loaded: {fault}", where="bpf") from fault
    for name, arguments in _POINTERS.items():
        function = getattr(lib, name)
        function.argtypes, function.restype = arguments, c_void_p
    for name, arguments in _NUMBERS.items():
        function = getattr(lib, name)
        function.argtypes, function.restype = arguments, c_int
    for name in ("bpf_program__name", "bpf_map__name"):
        getattr(lib, name).argtypes, getattr(lib, name).restype = (c_void_p,), c_char_p
    lib.btf__name_by_offset.argtypes = (c_void_p, c_uint32)
    lib.btf__name_by_offset.restype = c_char_p
    lib.btf__type_by_id.argtypes = (c_void_p, c_uint32)
    lib.btf__type_by_id.restype = POINTER(_BtfType)
    lib.libbpf_set_print(_print)
    return lib


def _keep_message(level: int, template: int, arguments: int) -> int:
    """Keep what libbpf would write to stderr: it is the only place with the verifier's reason."""
    if level == _WARNING:
        buffer = ctypes.create_string_buffer(1 << 16)
        ctypes.CDLL(None).vsnprintf(
            buffer, c_size_t(len(buffer)), c_void_p(template), c_void_p(arguments)
        )
        _messages.append(buffer.value.decode(errors="replace"))
    return 0


# The third argument is a va_list: on both processors, its address is what is passed.
_print = ctypes.CFUNCTYPE(c_int, c_int, c_void_p, c_void_p)(_keep_message)


def _checked(got: int, problem: str) -> int:
    if got < 0:
        raise _failure(problem)
    return got


def _failure(problem: str) -> StewardError:
    number = ctypes.get_errno()
    denied = number in (errno.EPERM, errno.EACCES)
    reason = last_reason("".join(_messages))
    _messages.clear()
    return StewardError(
        f"{problem}: {os.strerror(number)}" + (f": {reason}" if reason else ""),
        where="bpf",
        hint="it needs root, or CAP_BPF and CAP_PERFMON" if denied else "",
    )


def last_reason(messages: str) -> str:
    """Return what the verifier objected to, or else the first thing that libbpf reported."""
    _, found, log = messages.partition("-- BEGIN PROG LOAD LOG --")
    if found:
        log = log.partition("-- END PROG LOAD LOG --")[0]
        lines = [line.strip() for line in log.splitlines()]
        objections = [line for line in lines if line and not line.startswith("processed ")]
        return " / ".join(objections[-3:])
    return messages.partition("\n")[0].removeprefix("libbpf: ").strip()
