"""TCP: segments that had to be sent again, and the round-trip time that the kernel works with.

A socket knows its cgroup in the v2 hierarchy only. Where jobs are told apart by a v1 controller,
these figures are those of the machine.
"""

from __future__ import annotations

from steward.clients.bpf.assembler import Code, Helper, Register
from steward.clients.bpf.histogram import BUCKETS, count_into
from steward.clients.bpf.programs.shared import Kit, ProbeSet, Program, record_of

__all__ = ["TCP"]

R0, R1, R5, R6, R7, R8 = (Register(number) for number in (0, 1, 5, 6, 7, 8))


def _build(kit: Kit) -> tuple[Program, ...]:
    return (
        Program(name="tcp_retransmit", code=_retransmit(kit), tracepoint="tcp_retransmit_skb"),
        Program(name="tcp_probe", code=_round_trip(kit), tracepoint="tcp_probe"),
    )


def _retransmit(kit: Kit) -> Code:
    code = Code("tcp_retransmit")
    code.load(R6, R1, 0)
    _row(code, kit)
    code.move(R1, 1)
    code.add_to(R0, kit.places.offsets["tcp.retransmits"], R1)
    code.label("out")
    code.leave()
    return code


def _round_trip(kit: Kit) -> Code:
    """Count the smoothed round-trip time at each segment that arrives."""
    offsets = kit.places.offsets
    code = Code("tcp_probe")
    code.load(R6, R1, 0)
    code.move(R1, R6)
    code.call(Helper.TCP_SOCKET)
    code.jump_if(R0, "==", 0, "out")
    code.load(R8, R0, kit.types.field("tcp_sock", "srtt_us").offset, size=4)
    code.compute(R8, ">>", 3)  # the kernel keeps eighths
    code.compute(R8, "*", 1000)
    code.jump_if(R8, "==", 0, "out")  # not measured yet
    _row(code, kit)
    code.move(R7, R0)
    code.move(R5, 1)
    code.add_to(R7, offsets["tcp.rtt.count"], R5)
    count_into(code, record=R7, offset=offsets["tcp.rtt.histogram"], ns=R8, one=R5)
    code.label("out")
    code.leave()
    return code


def _row(code: Code, kit: Kit) -> None:
    """Put the row of the socket in R6 into R0."""
    if kit.controller:
        code.move(R1, 0)
    else:
        code.load(R1, R6, kit.types.field("sock", "sk_cgrp_data.cgroup").offset)
        code.load(R1, R1, kit.types.field("cgroup", "kn").offset)
        code.load(R1, R1, kit.types.field("kernfs_node", "id").offset)
    record_of(code, kit, R1, otherwise="out")


TCP = ProbeSet(
    name="tcp",
    meaning="TCP segments sent again, and round-trip times",
    tracepoints={"tcp_retransmit_skb": ("sock *",), "tcp_probe": ("sock *",)},
    counters={
        "tcp.retransmits": 1,
        "tcp.rtt.count": 1,
        "tcp.rtt.histogram": BUCKETS,
    },
    build=_build,
)
