"""What the programs have in common: whose event it was, and where its counters are.

Counters live in an array that this process maps: reading them is reading memory. A row belongs to
a slot (a job's cgroup, a disk), and there is one copy of all rows per stripe (a group of
processors), so that processors rarely meet on one cache line. A slot is taken by the first event
of its owner, inside the kernel: nothing is missed before user space has heard of a job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from steward.clients.bpf.assembler import FRAME, Code, Helper, Register
from steward.clients.bpf.btf import Btf
from steward.errors import StewardError

__all__ = [
    "CREATE",
    "DISK",
    "NOTES",
    "Kit",
    "Places",
    "ProbeSet",
    "Program",
    "cgroup_of",
    "note",
    "record_of",
    "storage_of",
]

R0, R1, R2, R3, R4 = (Register(number) for number in range(5))

NOTES = ("new_slots", "full_slots", "lost_tasks", "lost_requests")  # what went wrong, or came
CREATE = 1
DISK = 1 << 62  # added to the number of a disk, so that it is not mistaken for a cgroup
_NO_EXIST = 1
_EXISTS = -17
_KEY, _INDEX = -8, -16  # places on the stack; the programs themselves use what is below


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The maps from an owner to its row of counters, and where each counter is in a row."""

    slots: int  # map: owner -> slot
    free: int  # stack of slots that nobody has
    counters: int  # array: stripe and slot -> row
    count: int  # how many slots there are
    stripes: int
    offsets: Mapping[str, int]  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """All that a program is built from."""

    types: Btf
    machine: str  # x86_64, aarch64
    controller: str  # the v1 controller by which jobs are told apart; empty: the v2 hierarchy
    places: Places
    tasks: int  # map: task -> what is remembered about it
    task_offsets: Mapping[str, int]
    calls: int  # array: system call -> why it waits, and which of the counted calls it is
    requests: int  # map: block request -> when it was issued
    notes: int  # array with one element: NOTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program and its hook: a tracepoint, or an iterator over tasks."""

    name: str
    code: Code
    tracepoint: str = ""
    iterator: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSet:
    """Probes that are turned on and off together."""

    name: str
    meaning: str
    tracepoints: Mapping[str, tuple[str, ...]]  # with the types of the arguments that are used
    counters: Mapping[str, int]  # name: how many numbers
    build: Callable[[Kit], tuple[Program, ...]]
    remembers: tuple[str, ...] = ()  # per task

    def check(self, types: Btf) -> None:
        """Raise unless each hook is there and is given what the programs expect."""
        for tracepoint, expected in self.tracepoints.items():
            given = types.arguments(tracepoint)
            if given[: len(expected)] != expected:
                raise StewardError(
                    f"{tracepoint} is given ({', '.join(given)}), not ({', '.join(expected)}, ...)",
                    where=f"probe set {self.name}",
                    hint="this kernel changed the hook; steward has to learn it",
                )


def note(code: Code, kit: Kit, name: str) -> None:
    """Add one to a note. Loses R0 to R5 and uses the index on the stack."""
    end = code.fresh("noted")
    code.store(FRAME, _INDEX - 8, 0, size=4)
    code.map(R1, kit.notes)
    code.move(R2, FRAME)
    code.compute(R2, "+", _INDEX - 8)
    code.call(Helper.MAP_LOOKUP)
    code.jump_if(R0, "==", 0, end)
    code.move(R1, 1)
    code.add_to(R0, 8 * NOTES.index(name), R1)
    code.label(end)


def storage_of(code: Code, kit: Kit, task: Register, *, create: bool) -> None:
    """Put what is remembered about a task into R0, 0 where there is nothing."""
    code.map(R1, kit.tasks)
    code.move(R2, task)
    code.move(R3, 0)
    code.move(R4, CREATE if create else 0)
    code.call(Helper.TASK_STORAGE)


def cgroup_of(code: Code, kit: Kit, task: Register, into: Register) -> None:
    """Put the id of a task's cgroup into a register: the inode number of its folder."""
    field = kit.types.field
    code.load(into, task, field("task_struct", "cgroups").offset)
    if kit.controller:
        index = kit.types.enumerator("cgroup_subsys_id", f"{kit.controller}_cgrp_id")
        if index is None:
            problem = f"this kernel has no cgroup controller '{kit.controller}'"
            raise StewardError(problem, where="bpf")
        code.load(into, into, field("css_set", "subsys").offset + 8 * index)
        code.load(into, into, field("cgroup_subsys_state", "cgroup").offset)
    else:
        code.load(into, into, field("css_set", "dfl_cgrp").offset)
    code.load(into, into, field("cgroup", "kn").offset)
    code.load(into, into, field("kernfs_node", "id").offset)


def record_of(code: Code, kit: Kit, owner: Register, *, otherwise: str) -> None:
    """Put the row of an owner into R0, or go to `otherwise`. Loses R1 to R5."""
    places = kit.places
    found, new, full = (code.fresh(word) for word in ("found", "new", "full"))
    done = code.fresh("done")
    code.store(FRAME, _KEY, owner)
    _at(code, places.slots, _KEY)
    code.call(Helper.MAP_LOOKUP)
    code.jump_if(R0, "==", 0, new)
    code.load(R1, R0, 0, size=4)
    code.label(found)
    code.store(FRAME, _INDEX, R1)
    code.call(Helper.PROCESSOR)
    code.compute(R0, "&", places.stripes - 1)
    code.compute(R0, "*", places.count)
    code.load(R1, FRAME, _INDEX)
    code.compute(R1, "+", R0)
    code.store(FRAME, _INDEX, R1)
    _at(code, places.counters, _INDEX)
    code.call(Helper.MAP_LOOKUP)
    code.jump_if(R0, "==", 0, otherwise)
    code.jump(done)
    code.label(new)
    _take_slot(code, kit, full=full)
    code.load(R1, FRAME, _INDEX, size=4)
    code.jump(found)
    code.label(full)
    code.move(R1, 0)  # slot 0 is everybody who has none
    code.jump(found)
    code.label(done)


def _take_slot(code: Code, kit: Kit, *, full: str) -> None:
    """Give the owner on the stack a slot of its own; the slot's number is then on the stack."""
    places = kit.places
    none, kept = code.fresh("none"), code.fresh("kept")
    code.store(FRAME, _INDEX, 0)
    _at(code, places.free, _INDEX)
    code.call(Helper.MAP_POP)
    code.jump_if(R0, "!=", 0, none)
    _at(code, places.slots, _KEY)
    code.move(R3, FRAME)
    code.compute(R3, "+", _INDEX)
    code.move(R4, _NO_EXIST)
    code.call(Helper.MAP_UPDATE)
    code.jump_if(R0, "==", 0, kept)
    code.store(FRAME, _INDEX - 16, R0)
    _at(code, places.free, _INDEX)
    code.move(R3, 0)
    code.call(Helper.MAP_PUSH)
    code.load(R0, FRAME, _INDEX - 16)
    code.jump_if(R0, "==", _EXISTS, full)  # another processor was faster
    code.label(none)
    note(code, kit, "full_slots")
    code.jump(full)
    code.label(kept)
    note(code, kit, "new_slots")


def _at(code: Code, fd: int, place: int) -> None:
    code.map(R1, fd)
    code.move(R2, FRAME)
    code.compute(R2, "+", place)
