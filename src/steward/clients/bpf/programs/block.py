"""How long disks take, from handing a request to the device until it is done, by device."""

from __future__ import annotations

from steward.clients.bpf.assembler import FRAME, Code, Helper, Register
from steward.clients.bpf.histogram import BUCKETS, count_into
from steward.clients.bpf.programs.shared import DISK, Kit, ProbeSet, Program, note, record_of

__all__ = ["BLOCK", "DIRECTIONS"]

R0, R1, R2, R3, R4, R5, R6, R7, R8, R9 = (Register(number) for number in range(10))

DIRECTIONS = ("read", "write")  # by the lowest bit of a request's operation
_REQUEST, _WHEN, _BYTES = -40, -48, -56
_OPERATION = 0xFF
_LAST_DATA_OPERATION = 1  # reads are 0, writes are 1; flushes, discards and the like move no data


def _build(kit: Kit) -> tuple[Program, ...]:
    return (
        Program(name="block_rq_issue", code=_issue(kit), tracepoint="block_rq_issue"),
        Program(name="block_rq_complete", code=_complete(kit), tracepoint="block_rq_complete"),
    )


def _issue(kit: Kit) -> Code:
    """Remember when a request was handed to its device."""
    code = Code("block_rq_issue")
    code.load(R6, R1, 0)
    code.store(FRAME, _REQUEST, R6)
    code.call(Helper.KTIME_NS)
    code.store(FRAME, _WHEN, R0)
    code.map(R1, kit.requests)
    code.move(R2, FRAME)
    code.compute(R2, "+", _REQUEST)
    code.move(R3, FRAME)
    code.compute(R3, "+", _WHEN)
    code.move(R4, 0)
    code.call(Helper.MAP_UPDATE)
    code.jump_if(R0, "==", 0, "out")
    note(code, kit, "lost_requests")
    code.label("out")
    code.leave()
    return code


def _complete(kit: Kit) -> Code:
    """Book a request that is done. One that is done in parts has its time booked at the first."""
    code = Code("block_rq_complete")
    code.load(R6, R1, 0)
    code.load(R7, R1, 16)
    code.compute(R7, "<<", 32)  # an unsigned int
    code.compute(R7, ">>", 32)
    code.store(FRAME, _BYTES, R7)
    code.load(R1, R6, kit.types.field("request", "cmd_flags").offset, size=4)
    code.compute(R1, "&", _OPERATION)
    code.jump_if(R1, ">", _LAST_DATA_OPERATION, "out")
    code.move(R9, R1)
    code.compute(R9, "<<", 3)
    code.store(FRAME, _REQUEST, R6)
    _device(code, kit)
    record_of(code, kit, R1, otherwise="out")
    code.move(R7, R0)
    code.compute(R9, "+", R7)
    code.load(R1, FRAME, _BYTES)
    code.add_to(R9, kit.places.offsets["block.bytes"], R1)
    _book(code, kit)
    code.label("out")
    code.leave()
    return code


def _device(code: Code, kit: Kit) -> None:
    """Put the number of the device of the request in R6 into R1."""
    field = kit.types.field
    if kit.types.has("request_queue", "disk"):
        code.load(R1, R6, field("request", "q").offset)
        code.load(R1, R1, field("request_queue", "disk").offset)
    else:  # before 5.15
        code.load(R1, R6, field("request", "rq_disk").offset)
    code.load(R1, R1, field("gendisk", "part0").offset)
    code.load(R1, R1, field("block_device", "bd_dev").offset, size=4)
    code.move(R2, 1)
    code.compute(R2, "<<", DISK.bit_length() - 1)
    code.compute(R1, "|", R2)


def _book(code: Code, kit: Kit) -> None:
    """Book time and histogram of the request on the stack, in the row at R7 (R9: its column)."""
    offsets = kit.places.offsets
    code.map(R1, kit.requests)
    code.move(R2, FRAME)
    code.compute(R2, "+", _REQUEST)
    code.call(Helper.MAP_LOOKUP)
    code.jump_if(R0, "==", 0, "out")
    code.load(R8, R0, 0)
    code.map(R1, kit.requests)
    code.move(R2, FRAME)
    code.compute(R2, "+", _REQUEST)
    code.call(Helper.MAP_DELETE)
    code.call(Helper.KTIME_NS)
    code.jump_if(R8, ">", R0, "out")
    code.compute(R0, "-", R8)
    code.move(R8, R0)
    code.move(R5, 1)
    code.add_to(R9, offsets["block.count"], R5)
    code.add_to(R9, offsets["block.ns"], R8)
    count_into(code, record=R7, offset=offsets["block.histogram"], ns=R8, one=R5)


BLOCK = ProbeSet(
    name="block",
    meaning="how long disks take",
    tracepoints={
        "block_rq_issue": ("request *",),
        "block_rq_complete": ("request *", "blk_status_t", "unsigned int"),
    },
    counters={"block.count": 2, "block.bytes": 2, "block.ns": 2, "block.histogram": BUCKETS},
    build=_build,
)
