"""How long tasks wait to run, and what they wait for while they do not want to run.

A task that leaves a processor is stamped with the time and the cause, and with a second stamp when
it is woken; both are booked when it runs again. Waits that last are booked by a walk over all
tasks at every reading, so that an hour of waiting is 3,600 seconds of it and not one big step.
"""

from __future__ import annotations

from steward.clients.bpf.assembler import FRAME, Code, Helper, Register
from steward.clients.bpf.histogram import BUCKETS, count_into
from steward.clients.bpf.programs.calls import CAUSES, TABLE_SIZE
from steward.clients.bpf.programs.shared import (
    Kit,
    ProbeSet,
    Program,
    cgroup_of,
    note,
    record_of,
    storage_of,
)

__all__ = ["SCHED"]

R0, R1, R2, R3, R4, R5, R6, R7, R8, R9 = (Register(number) for number in range(10))

_KERNEL_THREAD = 0x00200000
_UNINTERRUPTIBLE = 0x2
_DEAD = 0x10 | 0x20 | 0x80
_STARVING_NS = 100_000_000
_SAVED_CAUSE = -48
_SAVED = -40  # on the stack, below what `record_of` uses


def _build(kit: Kit) -> tuple[Program, ...]:
    return (
        Program(name="sched_switch", code=_switch(kit), tracepoint="sched_switch"),
        Program(name="sched_wakeup", code=_wakeup(kit, new=False), tracepoint="sched_wakeup"),
        Program(
            name="sched_wakeup_new", code=_wakeup(kit, new=True), tracepoint="sched_wakeup_new"
        ),
        Program(name="sched_waits", code=_waits(kit), iterator="task"),
    )


def _switch(kit: Kit) -> Code:
    """Stamp the task that leaves, book the waits of the one that comes."""
    code = Code("sched_switch")
    pid = kit.types.field("task_struct", "pid").offset
    code.move(R9, R1)
    code.load(R6, R9, 8)  # who leaves
    code.load(R7, R9, 16)  # who comes
    code.call(Helper.KTIME_NS)
    code.move(R8, R0)
    code.load(R1, R6, pid, size=4)
    code.jump_if(R1, "==", 0, "comes")  # the idle task
    storage_of(code, kit, R6, create=True)
    code.jump_if(R0, "==", 0, "lost")
    _make_up(code, kit)
    _stamp(code, kit)
    code.label("comes")
    code.load(R1, R7, pid, size=4)
    code.jump_if(R1, "==", 0, "out")
    storage_of(code, kit, R7, create=False)
    code.jump_if(R0, "==", 0, "out")
    _book(code, kit)
    code.label("out")
    code.leave()
    code.label("lost")
    note(code, kit, "lost_tasks")
    code.jump("comes")
    return code


def _make_up(code: Code, kit: Kit) -> None:
    """Book the sleep of the task in R6, remembered at R0, if nobody saw it begin to run.

    Kernels do not call the hook at every switch: on a Linux 6.18 guest, a few in a second are
    missing, by the kernel's own count. A task that stops running with its stamps still on is one.
    """
    at, offsets = kit.task_offsets, kit.places.offsets
    code.load(R1, R0, at["off_ns"])
    code.jump_if(R1, "==", 0, "clean")
    code.load(R2, R0, at["ready_ns"])
    code.jump_if(R2, "<=", R1, "clean")
    code.compute(R2, "-", R1)
    code.store(FRAME, _SAVED, R2)
    code.load(R1, R0, at["cause"])
    code.store(FRAME, _SAVED_CAUSE, R1)
    cgroup_of(code, kit, R6, R1)
    record_of(code, kit, R1, otherwise="comes")
    code.load(R1, FRAME, _SAVED_CAUSE)
    code.jump_if(R1, ">=", len(CAUSES), "comes")
    code.compute(R1, "<<", 3)
    code.compute(R1, "+", R0)
    code.load(R2, FRAME, _SAVED)
    code.add_to(R1, offsets["wait.ns"], R2)
    code.move(R2, 1)
    code.add_to(R1, offsets["wait.count"], R2)
    storage_of(code, kit, R6, create=False)
    code.jump_if(R0, "==", 0, "comes")
    code.label("clean")


def _stamp(code: Code, kit: Kit) -> None:
    """Stamp the task in R6, remembered at R0, with the time in R8; the hook's arguments are at R9.

    A task that could go on running waits for a processor from now on; one that sleeps does so
    when it is woken. Tasks of the kernel wait for work most of the time, which says nothing.
    """
    at, field = kit.task_offsets, kit.types.field
    code.load(R1, R9, 0)
    code.compute(R1, "&", 0xFF)  # a bool
    code.jump_if(R1, "!=", 0, "preempted")
    if len(kit.types.arguments("sched_switch")) > 3:  # since 5.18; what the task says may be newer
        code.load(R1, R9, 24)
        code.compute(R1, "&", 0xFFFF)
    else:
        name = "__state" if kit.types.has("task_struct", "__state") else "state"
        code.load(R1, R6, field("task_struct", name).offset, size=4)
    code.jump_if(R1, "==", 0, "preempted")
    code.move(R2, 0)
    code.store(R0, at["ready_ns"], R2)
    code.store(R0, at["off_ns"], R2)
    code.jump_if(R1, "&", _DEAD, "comes")
    code.load(R2, R6, field("task_struct", "flags").offset, size=4)
    code.jump_if(R2, "&", _KERNEL_THREAD, "kernel_thread")
    code.move(R9, R0)
    _cause(code, kit)
    code.store(R9, at["cause"], R2)
    code.store(R9, at["off_ns"], R8)
    code.jump("comes")
    code.label("kernel_thread")
    code.move(R2, 1)
    code.store(R0, at["asleep"], R2)
    code.move(R2, CAUSES.index("other"))
    code.store(R0, at["cause"], R2)
    code.jump("comes")
    code.label("preempted")
    code.move(R2, CAUSES.index("preempted"))
    code.store(R0, at["cause"], R2)
    code.move(R2, 0)
    code.store(R0, at["off_ns"], R2)
    code.store(R0, at["ready_ns"], R8)


def _cause(code: Code, kit: Kit) -> None:
    """Put why the task in R6, whose state is in R1, goes to sleep into R2: a place in CAUSES."""
    waiting = kit.types.field("task_struct", "in_iowait")
    code.move(R2, CAUSES.index("disk"))
    code.load(R3, R6, waiting.offset, size=waiting.size)
    code.compute(R3, "&", waiting.mask << waiting.shift)
    code.jump_if(R3, "!=", 0, "known")
    code.move(R2, CAUSES.index("uninterruptible"))
    code.jump_if(R1, "&", _UNINTERRUPTIBLE, "known")
    code.move(R1, R6)
    code.call(Helper.TASK_REGISTERS)
    _call_number(code, kit)
    code.move(R2, CAUSES.index("other"))
    code.jump_if(R1, ">=", TABLE_SIZE, "known")  # no system call: -1
    code.store(FRAME, _SAVED, R1)
    code.map(R1, kit.calls)
    code.move(R2, FRAME)
    code.compute(R2, "+", _SAVED)
    code.call(Helper.MAP_LOOKUP)
    code.move(R2, CAUSES.index("other"))
    code.jump_if(R0, "==", 0, "known")
    code.load(R2, R0, 0, size=4)
    code.label("known")


def _call_number(code: Code, kit: Kit) -> None:
    """Put the system call of the registers at R0 into R1."""
    if kit.machine == "x86_64":
        code.load(R1, R0, kit.types.field("pt_regs", "orig_ax").offset)
    else:
        code.load(R1, R0, kit.types.field("pt_regs", "syscallno").offset, size=4)


def _book(code: Code, kit: Kit) -> None:
    """Book the waits of the task in R7, remembered at R0, that runs from now (R8) on."""
    at = kit.task_offsets
    code.move(R6, 0)
    code.exchange(R0, at["off_ns"], R6)  # since when it slept
    code.move(R9, 0)
    code.exchange(R0, at["ready_ns"], R9)  # since when it could run
    code.load(R1, R0, at["cause"])
    code.move(R2, 0)
    code.store(R0, at["asleep"], R2)
    code.move(R2, R6)
    code.compute(R2, "|", R9)
    code.jump_if(R2, "==", 0, "out")
    code.store(FRAME, _SAVED, R1)
    cgroup_of(code, kit, R7, R1)
    record_of(code, kit, R1, otherwise="out")
    code.move(R7, R0)
    code.move(R5, 1)
    _book_ready(code, kit)
    _book_sleep(code, kit)


def _book_ready(code: Code, kit: Kit) -> None:
    """Book how long it could run and did not (since R9), in the row at R7. Leaves R8 at that."""
    offsets = kit.places.offsets
    code.jump_if(R9, "==", 0, "slept")
    code.jump_if(R9, ">", R8, "slept")
    code.compute(R8, "-", R9)  # how long
    code.add_to(R7, offsets["runq.ns"], R8)
    code.add_to(R7, offsets["runq.count"], R5)
    count_into(code, record=R7, offset=offsets["runq.histogram"], ns=R8, one=R5)
    code.load(R1, FRAME, _SAVED)
    code.jump_if(R1, "!=", CAUSES.index("preempted"), "woken")
    place = 8 * CAUSES.index("preempted")
    code.add_to(R7, offsets["wait.ns"] + place, R8)
    code.add_to(R7, offsets["wait.count"] + place, R5)
    code.label("woken")
    code.move(R8, R9)  # its sleep ended when it was woken
    code.label("slept")


def _book_sleep(code: Code, kit: Kit) -> None:
    """Book how long it slept (R6 to R8) under its cause, in the row at R7."""
    offsets = kit.places.offsets
    code.jump_if(R6, "==", 0, "out")
    code.jump_if(R6, ">", R8, "out")
    code.compute(R8, "-", R6)
    code.load(R1, FRAME, _SAVED)
    code.jump_if(R1, ">=", len(CAUSES), "out")
    code.compute(R1, "<<", 3)
    code.compute(R1, "+", R7)
    code.add_to(R1, offsets["wait.ns"], R8)
    code.add_to(R1, offsets["wait.count"], R5)


def _wakeup(kit: Kit, *, new: bool) -> Code:
    """Stamp a task that could run from now on. One that runs already is woken too, for nothing."""
    at = kit.task_offsets
    code = Code("sched_wakeup_new" if new else "sched_wakeup")
    code.load(R6, R1, 0)
    storage_of(code, kit, R6, create=new)
    code.jump_if(R0, "==", 0, "unknown")
    code.move(R7, R0)
    if not new:
        code.load(R1, R7, at["off_ns"])
        code.load(R2, R7, at["asleep"])
        code.compute(R1, "|", R2)
        code.jump_if(R1, "==", 0, "out")
    code.call(Helper.KTIME_NS)
    code.store(R7, at["ready_ns"], R0)
    code.jump("out")
    code.label("unknown")
    if new:  # others have slept since before we came
        note(code, kit, "lost_tasks")
    code.label("out")
    code.leave()
    return code


def _waits(kit: Kit) -> Code:
    """Book what each task has waited up to now; the rest is booked when its wait ends.

    The task may start to run on another processor meanwhile: a stamp is moved on only if it is
    what it was, and then nobody else has booked the time before it.
    """
    at = kit.task_offsets
    code = Code("sched_waits")
    code.load(R6, R1, 8)
    code.jump_if(R6, "==", 0, "out")
    code.load(R1, R6, kit.types.field("task_struct", "on_cpu").offset, size=4)
    code.jump_if(R1, "!=", 0, "out")  # it runs, whatever its stamps say: see `_make_up`
    storage_of(code, kit, R6, create=False)
    code.jump_if(R0, "==", 0, "out")
    code.move(R7, R0)
    code.load(R1, R7, at["off_ns"])
    code.load(R2, R7, at["ready_ns"])
    code.compute(R1, "|", R2)
    code.jump_if(R1, "==", 0, "out")
    cgroup_of(code, kit, R6, R1)
    record_of(code, kit, R1, otherwise="out")
    code.move(R9, R0)
    code.call(Helper.KTIME_NS)
    code.move(R8, R0)
    code.load(R0, R7, at["ready_ns"])
    code.jump_if(R0, "!=", 0, "ready")
    _move_on(code, at["off_ns"])
    code.load(R1, R7, at["cause"])
    code.jump_if(R1, ">=", len(CAUSES), "out")
    code.compute(R1, "<<", 3)
    code.compute(R1, "+", R9)
    code.add_to(R1, kit.places.offsets["wait.ns"], R2)
    code.jump("out")
    code.label("ready")
    code.load(R1, R7, at["off_ns"])
    code.jump_if(R1, "!=", 0, "out")  # woken, about to run: booked then, for both stamps are needed
    code.move(R1, R8)
    code.compute(R1, "-", R0)
    code.jump_if(R1, "<", _STARVING_NS, "out")  # so that the histogram sees common waits whole
    _move_on(code, at["ready_ns"])
    code.add_to(R9, kit.places.offsets["runq.ns"], R2)
    code.load(R1, R7, at["cause"])
    code.jump_if(R1, "!=", CAUSES.index("preempted"), "out")
    code.add_to(R9, kit.places.offsets["wait.ns"] + 8 * CAUSES.index("preempted"), R2)
    code.label("out")
    code.leave()
    return code


def _move_on(code: Code, offset: int) -> None:
    """Move the stamp at `offset` of R7 to now (R8) and put how old it was into R2, or give up."""
    code.load(R0, R7, offset)
    code.jump_if(R0, "==", 0, "out")
    code.jump_if(R0, ">", R8, "out")
    code.move(R1, R0)
    code.exchange_if(R7, offset, R8)
    code.jump_if(R0, "!=", R1, "out")
    code.move(R2, R8)
    code.compute(R2, "-", R1)


SCHED = ProbeSet(
    name="sched",
    meaning="waiting for a processor, and why tasks sleep",
    tracepoints={
        "sched_switch": ("bool", "task_struct *", "task_struct *"),
        "sched_wakeup": ("task_struct *",),
        "sched_wakeup_new": ("task_struct *",),
    },
    counters={
        "runq.count": 1,
        "runq.ns": 1,
        "runq.histogram": BUCKETS,
        "wait.ns": len(CAUSES),
        "wait.count": len(CAUSES),
    },
    build=_build,
    remembers=("off_ns", "ready_ns", "cause", "asleep"),
)
