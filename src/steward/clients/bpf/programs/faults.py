"""Page faults of programs. Those that need no disk are most of them, and the first touch of memory.

Only x86 and RISC-V have this hook; elsewhere the set is reported as missing.
"""

from __future__ import annotations

from steward.clients.bpf.assembler import Code, Helper, Register
from steward.clients.bpf.programs.shared import Kit, ProbeSet, Program, cgroup_of, record_of

__all__ = ["FAULTS"]

R0, R1 = Register.R0, Register.R1


def _build(kit: Kit) -> tuple[Program, ...]:
    code = Code("page_fault_user")
    code.call(Helper.CURRENT_TASK)
    cgroup_of(code, kit, R0, R1)
    record_of(code, kit, R1, otherwise="out")
    code.move(R1, 1)
    code.add_to(R0, kit.places.offsets["faults.count"], R1)
    code.label("out")
    code.leave()
    return (Program(name="page_fault_user", code=code, tracepoint="page_fault_user"),)


FAULTS = ProbeSet(
    name="faults",
    meaning="page faults",
    tracepoints={"page_fault_user": ()},
    counters={"faults.count": 1},
    build=_build,
)
