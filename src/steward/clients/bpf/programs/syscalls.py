"""How many of the system calls that data loaders live on a job makes, and how long they take."""

from __future__ import annotations

from steward.clients.bpf.assembler import FRAME, Code, Helper, Register
from steward.clients.bpf.programs.calls import COUNTED, TABLE_SIZE
from steward.clients.bpf.programs.shared import (
    Kit,
    ProbeSet,
    Program,
    cgroup_of,
    note,
    record_of,
    storage_of,
)

__all__ = ["SYSCALLS"]

R0, R1, R2, R5, R6, R7, R8, R9 = (Register(number) for number in (0, 1, 2, 5, 6, 7, 8, 9))
_SAVED = -40


def _build(kit: Kit) -> tuple[Program, ...]:
    return (
        Program(name="sys_enter", code=_enter(kit), tracepoint="sys_enter"),
        Program(name="sys_exit", code=_exit(kit), tracepoint="sys_exit"),
    )


def _enter(kit: Kit) -> Code:
    """Remember which counted call a task is in, and since when. Others cost a look at a table."""
    at = kit.task_offsets
    code = Code("sys_enter")
    code.load(R1, R1, 8)
    _look_up(code, kit, R6)
    code.call(Helper.CURRENT_TASK)
    code.move(R7, R0)
    storage_of(code, kit, R7, create=True)
    code.jump_if(R0, "==", 0, "lost")
    code.move(R7, R0)
    code.call(Helper.KTIME_NS)
    code.store(R7, at["call"], R6)
    code.store(R7, at["call_ns"], R0)
    code.label("out")
    code.leave()
    code.label("lost")
    note(code, kit, "lost_tasks")
    code.jump("out")
    return code


def _exit(kit: Kit) -> Code:
    """Book the call that a task comes back from, if it is a counted one.

    The registers say which call it was, so that all others are left at once.
    """
    at, offsets = kit.task_offsets, kit.places.offsets
    code = Code("sys_exit")
    code.load(R1, R1, 0)
    if kit.machine == "x86_64":
        code.load(R1, R1, kit.types.field("pt_regs", "orig_ax").offset)
    else:
        code.load(R1, R1, kit.types.field("pt_regs", "syscallno").offset, size=4)
    _look_up(code, kit, R1)
    code.call(Helper.CURRENT_TASK)
    code.move(R6, R0)
    storage_of(code, kit, R6, create=False)
    code.jump_if(R0, "==", 0, "out")
    code.load(R7, R0, at["call"])
    code.jump_if(R7, "==", 0, "out")
    code.load(R8, R0, at["call_ns"])
    code.move(R1, 0)
    code.store(R0, at["call"], R1)
    code.call(Helper.KTIME_NS)
    code.move(R9, R0)
    code.compute(R9, "-", R8)
    cgroup_of(code, kit, R6, R1)
    record_of(code, kit, R1, otherwise="out")
    code.jump_if(R7, ">", len(COUNTED), "out")
    code.compute(R7, "-", 1)
    code.compute(R7, "&", len(COUNTED) - 1)
    code.compute(R7, "<<", 3)
    code.compute(R7, "+", R0)
    code.move(R5, 1)
    code.add_to(R7, offsets["calls.ns"], R9)
    code.add_to(R7, offsets["calls.count"], R5)
    code.label("out")
    code.leave()
    return code


def _look_up(code: Code, kit: Kit, into: Register) -> None:
    """Put in a register which counted call R1 is; go to `out` if it is none of them."""
    code.jump_if(R1, ">=", TABLE_SIZE, "out")
    code.store(FRAME, _SAVED, R1)
    code.map(R1, kit.calls)
    code.move(R2, FRAME)
    code.compute(R2, "+", _SAVED)
    code.call(Helper.MAP_LOOKUP)
    code.jump_if(R0, "==", 0, "out")
    code.load(into, R0, 4, size=4)
    code.jump_if(into, "==", 0, "out")


SYSCALLS = ProbeSet(
    name="syscalls",
    meaning="system calls of data loaders",
    tracepoints={"sys_enter": ("pt_regs *", "long int"), "sys_exit": ("pt_regs *",)},
    counters={"calls.count": len(COUNTED), "calls.ns": len(COUNTED)},
    build=_build,
    remembers=("call", "call_ns"),
)
