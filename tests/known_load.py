"""A program whose use of the machine is known: it spins, sleeps, faults, reads, writes, sends.

Run as `python known_load.py KEY=NUMBER …`; it prints what it has done as JSON. Waits for a line on
standard input first, so that whoever watches it can put it where it belongs.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import sys
import tempfile
import time
from pathlib import Path

PAGE = mmap.PAGESIZE
BLOCK = 1 << 20


def spin(cpu_s: float) -> None:
    """Use processor time, most of it in the program and not in the kernel."""
    until_s = time.process_time() + cpu_s
    while time.process_time() < until_s:
        sum(range(20_000))


def touch(pages: int) -> mmap.mmap:
    """Write to fresh pages, one fault each: huge pages are declined."""
    area = mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, pages * PAGE, PAGE):
        area[at] = 1
    return area


def write_and_read(file: Path, size: int) -> None:
    """Write a file and read it again, past the page cache."""
    buffer = mmap.mmap(-1, BLOCK)  # aligned, as O_DIRECT wants it
    fd = os.open(file, os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o600)
    try:
        for at in range(0, size, BLOCK):
            os.pwritev(fd, [buffer], at)
        os.fsync(fd)
        for at in range(0, size, BLOCK):
            os.preadv(fd, [buffer], at)
    finally:
        os.close(fd)


def send(size: int, address: str) -> None:
    """Send bytes over UDP, which nobody needs to receive."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(size // 1000):
        sender.sendto(b"x" * 1000, (address, 9))


def main(arguments: list[str]) -> None:
    wanted = dict(each.split("=", 1) for each in arguments)
    print("ready", flush=True)  # noqa: T201 - that is its answer
    sys.stdin.readline()
    began_s = time.monotonic()
    own_s = time.process_time()
    spin(float(wanted.get("spin_s", 0)))
    time.sleep(float(wanted.get("sleep_s", 0)))
    area = touch(int(wanted["pages"])) if "pages" in wanted else None
    if "disk_bytes" in wanted:
        with tempfile.TemporaryDirectory(dir=wanted.get("folder")) as folder:
            write_and_read(Path(folder) / "block", int(wanted["disk_bytes"]))
    if "net_bytes" in wanted:
        send(int(wanted["net_bytes"]), wanted["address"])
    done = {"cpu_s": time.process_time() - own_s, "took_s": time.monotonic() - began_s}
    print(json.dumps(done), flush=True)  # noqa: T201 - that is its answer
    sys.stdin.readline()  # keep what it holds until it has been looked at
    del area


if __name__ == "__main__":
    main(sys.argv[1:])
