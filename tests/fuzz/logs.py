"""One case for fuzzers: any bytes are read without a fault, in both modes, in whatever pieces."""

from __future__ import annotations

import io

from steward.errors import StewardError
from steward.model.rules import LogBlock, Mode, Stream
from steward.observe.logs import Reading, Tally, read_blocks

STREAM = Stream(name="fuzz")


def one_case(data: bytes) -> None:
    """Read `data` after its first two bytes, which choose the mode and the size of pieces."""
    head, data = data[:2].ljust(2, b"\0"), data[2:]
    mode = Mode.STRICT if head[0] & 1 else Mode.COMPAT
    reading = Reading(
        now_s=1.75e9,
        block_bytes=16 + 8 * head[1],
        longest_bytes=4096,
        held_bytes=8192,
        window_ns=(head[0] >> 1) * 10**8,
    )
    tally = Tally()
    try:
        blocks = list(
            read_blocks(io.BytesIO(data), mode=mode, stream=STREAM, tally=tally, reading=reading)
        )
    except StewardError:
        return  # `compat` refuses what has no time
    for block in blocks:
        check(block)
    if sum(map(len, blocks)) != tally.entries:
        raise AssertionError(f"{tally.entries} entries counted, {sum(map(len, blocks))} given")


def check(block: LogBlock) -> None:
    """Check what every block promises."""
    inside = (block.start >= 0) & (block.start <= block.end) & (block.end <= len(block.buffer))
    if not inside.all() or (block.start[1:] < block.end[:-1]).any():
        raise AssertionError("entries overlap, or lie outside of their bytes")
    columns = (block.end, block.t_ns, block.line, block.joined, block.timed)
    if any(len(column) != len(block) for column in columns):
        raise AssertionError("columns differ in length")
