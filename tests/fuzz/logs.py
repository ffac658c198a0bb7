"""One case for fuzzers: any bytes are read without a fault, in both modes, in whatever pieces."""

from __future__ import annotations

import gzip
import io

from steward.errors import StewardError
from steward.model.rules import LogBlock, Mode, Stream
from steward.observe.logs import ReadCounts, Reading, read_blocks

STREAM = Stream(name="fuzz")
SUFFIXES = (".log", ".gz", ".zst")
_LINES = (
    b"2025-06-01 00:00:01,587 x\n",
    b"2025-06-01T00:00:01.123456789+02:00 x\n",
    b"2025-06-01T00:00:01Z stdout P part\n",
    b"2025-06-01T00:00:01Z stderr F rest\n",
    b'{"log":"a\\u00e9\\n","stream":"stdout","time":"2025-06-01T00:00:01Z"}\n',
    b'{"__REALTIME_TIMESTAMP":"1748736001000000","MESSAGE":[1,2]}\n',
    b'{"ts":1748736001.25,"level":"info"}\n',
    b"[  1.500000] NVRM: Xid\n",
    b"Jun  1 00:00:01 n01 kernel: x\n",
    b"Sun Jun  1 00:00:01 2025 x\n",
    b"E0601 00:00:01.5 klog\n",
    b"INFO 06-01 00:00:01 engine.py:1] x\n",
    b"[2025-06-01T00:00:01.123] slurm\n",
    b"n01:12:34 [0] NCCL INFO x\n",
    b"[rank1]: y\n",
    b"  indented\n",
)
SEEDS = (
    b"\1\1" + b"".join(_LINES),
    b"\0\2" + gzip.compress(_LINES[0] * 9, mtime=0),
    *(b"\1\1" + line * 3 for line in _LINES),
    *(b"\0\1" + line * 3 for line in _LINES),
)
PIECES = (
    *_LINES,
    *(b"\n", b"\r\n", b"\r", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"{", b'"'),
    *(
        b"9" * 30,
        b"-1",
        b"24:60:61",
        b"02-30",
        b"0000-00-00",
        b"9999-12-31 23:59:59",
        b"\x28\xb5\x2f\xfd",
    ),
)


def one_case(data: bytes) -> None:
    """Read `data` after its first two bytes, which choose the mode and the size of pieces."""
    head, data = data[:2].ljust(2, b"\0"), data[2:]
    mode = Mode.STRICT if head[0] & 1 else Mode.PREQ
    reading = Reading(
        now_s=1.75e9,
        block_bytes=16 + 8 * head[1],
        longest_bytes=4096,
        held_bytes=8192,
        window_ns=(head[0] >> 1) * 10**8,
    )
    tally = ReadCounts()
    try:
        blocks = list(
            read_blocks(io.BytesIO(data), mode=mode, stream=STREAM, tally=tally, reading=reading)
        )
    except StewardError:
        return  # `preq` refuses what has no time
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
