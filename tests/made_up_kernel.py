"""A kernel that keeps maps in dictionaries and takes every program, for tests without root."""

from __future__ import annotations

import struct
from pathlib import Path

from steward.clients.bpf.syscalls import MapKind, ProgramKind
from steward.errors import StewardError

INT, PTR, ARRAY, STRUCT, UNION, ENUM, TYPEDEF, CONST, PROTO = 1, 2, 3, 4, 5, 6, 8, 10, 13


class Blob:
    """BTF in the making: types get numbers in the order in which they are added."""

    def __init__(self) -> None:
        self.strings = b"\0"
        self.types = b""
        self.count = 0

    def name(self, text: str) -> int:
        if not text:
            return 0
        place = len(self.strings)
        self.strings += text.encode() + b"\0"
        return place

    def add(
        self, name: str, kind: int, size: int, *more: int, members: int = 0, flag: bool = False
    ) -> int:
        about = int(flag) << 31 | kind << 24 | members
        words = (self.name(name), about, size, *more)
        self.types += struct.pack(f"<{len(words)}I", *words)
        self.count += 1
        return self.count

    def struct(
        self, name: str, size: int, *members: tuple[str, int, int], kind: int = STRUCT
    ) -> int:
        words = [word for member, of, bits in members for word in (self.name(member), of, bits)]
        flag = any(bits >> 24 for _, _, bits in members)
        return self.add(name, kind, size, *words, members=len(members), flag=flag)

    def bytes(self) -> bytes:
        header = struct.pack("<HBBIII", 0xEB9F, 1, 0, 24, 0, len(self.types))
        return (
            header
            + struct.pack("<II", len(self.types), len(self.strings))
            + (self.types + self.strings)
        )


def small_kernel() -> bytes:
    """Describe a kernel that has just what the page-fault probes need."""
    blob = Blob()
    u64 = blob.add("u64", INT, 8, 64)
    node = blob.struct("kernfs_node", 16, ("id", u64, 64))
    cgroup = blob.struct("cgroup", 16, ("kn", blob.add("", PTR, node), 0))
    state = blob.struct("cgroup_subsys_state", 8, ("cgroup", blob.add("", PTR, cgroup), 0))
    states = blob.add("", ARRAY, 0, blob.add("", PTR, state), u64, 4)
    groups = blob.struct(
        "css_set", 64, ("subsys", states, 0), ("dfl_cgrp", blob.add("", PTR, cgroup), 256)
    )
    blob.struct("task_struct", 64, ("cgroups", blob.add("", PTR, groups), 128))
    proto = blob.add("", PROTO, 0, 0, blob.add("", PTR, 0), 0, u64, members=2)
    blob.add("btf_trace_page_fault_user", TYPEDEF, blob.add("", PTR, proto))
    blob.add("cgroup_subsys_id", ENUM, 4, blob.name("memory_cgrp_id"), 1, members=1)
    return blob.bytes()


class MadeUpKernel:
    """Implements `Kernel`. Programs whose name is in `refuses` are refused."""

    def __init__(
        self,
        *,
        types: Path = Path("/nowhere"),
        refuses: tuple[str, ...] = (),
        hinders: StewardError | None = None,
    ) -> None:
        self.types = types
        self.refuses = refuses
        self.hinders = hinders
        self.maps: dict[int, dict[bytes, bytes]] = {}
        self.stacks: dict[int, list[bytes]] = {}
        self.memory: dict[int, bytearray] = {}
        self.programs: dict[int, str] = {}
        self.open: set[int] = set()
        self.walks = 0
        self._next = 100

    def obstacle(self) -> StewardError | None:
        return self.hinders

    def map(self, kind: MapKind, name: str, *, key: int, value: int, entries: int) -> int:
        fd = self._opened()
        if kind is MapKind.STACK:
            self.stacks[fd] = []
        else:
            self.maps[fd] = {}
        return fd

    def shared(self, fd: int, size: int) -> bytearray:
        return self.memory.setdefault(fd, bytearray(size))

    def update(self, fd: int, key: bytes, value: bytes) -> None:
        if fd in self.stacks:
            self.stacks[fd].append(value)
        else:
            self.maps[fd][key] = value

    def delete(self, fd: int, key: bytes) -> None:
        self.maps[fd].pop(key, None)

    def items(self, fd: int, *, key: int, value: int, entries: int) -> dict[bytes, bytes]:
        return dict(self.maps[fd])

    def load(
        self, kind: ProgramKind, name: str, code: bytes, *, hook: int = 0, attach: int = 0
    ) -> int:
        if name in self.refuses:
            raise StewardError(f"the kernel refuses the program {name}: Permission denied")
        fd = self._opened()
        self.programs[fd] = name
        return fd

    def attach(self, program: int) -> int:
        return self._opened()

    def iterator(self, program: int) -> int:
        return self._opened()

    def run_through(self, link: int) -> None:
        assert link in self.open
        self.walks += 1

    def uprobe(self, program: int, path: str, offset: int, *, returning: bool) -> int:
        return self._opened()

    def cost(self, program: int) -> tuple[int, int]:
        return 0, 0

    def close(self, fd: int) -> None:
        self.open.remove(fd)

    def _opened(self) -> int:
        self._next += 1
        self.open.add(self._next)
        return self._next
