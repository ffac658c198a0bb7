"""A real process with memory that it fills, registers for write tracking, writes and checks.

It reads commands from stdin, one to a line: `write FIRST COUNT`, `check`, `end`, and answers each
with a line. Every page begins with its number and a counter of writes.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np

from steward.clients.linux.pages.write_tracking import WriteTracking

PAGE = mmap.PAGESIZE


def main() -> None:
    size = int(sys.argv[1])
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    words = np.frombuffer(memory, np.int64).reshape(-1, PAGE // 8)
    pages = len(words)
    for first in range(0, pages, 4096):  # half random: zram cannot compress all of it away
        part = words[first : first + 4096]
        part[:, : PAGE // 16] = np.random.default_rng(first).integers(
            0, 2**62, (len(part), PAGE // 16)
        )
    words[:, 0] = np.arange(pages)
    words[:, 1] = 0
    written = np.zeros(pages, np.int64)
    sums = words[:, 2:].sum(axis=1)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    tracking = None
    if "untracked" not in sys.argv:
        tracking = WriteTracking()
        tracking.add(address, size)
    print(address, flush=True)  # noqa: T201 - its answer
    for line in sys.stdin:
        command, *numbers = line.split()
        if command == "end":
            break
        if command == "write":
            first, count = int(numbers[0]), int(numbers[1])
            words[first : first + count, 1] += 1
            written[first : first + count] += 1
            print("written", flush=True)  # noqa: T201 - its answer
        if command == "check":
            wrong = int(np.sum(words[:, 0] != np.arange(pages)))
            wrong += int(np.sum(words[:, 1] != written))
            wrong += int(np.sum(words[:, 2:].sum(axis=1) != sums))
            print(wrong, flush=True)  # noqa: T201 - its answer
    if tracking is not None:
        tracking.close()


main()
