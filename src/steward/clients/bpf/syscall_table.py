"""System calls: which of them wait for what, and which ones data loaders live on.

Numbers are those of the two processors' tables (`arch/x86/entry/syscalls/syscall_64.tbl` and
`include/uapi/asm-generic/unistd.h`); None means that arm64 has no such call.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CAUSES", "COUNTED", "TABLE_SIZE", "call_table"]

TABLE_SIZE = 512
CAUSES = (
    "other",
    "preempted",
    "disk",
    "uninterruptible",
    "lock",
    "network",
    "file",
    "sleep",
)

# name: (x86_64, aarch64, what a task that sleeps in it waits for)
_CALLS: Mapping[str, tuple[int, int | None, str]] = {
    "read": (0, 63, "file"),
    "write": (1, 64, "file"),
    "pread64": (17, 67, "file"),
    "pwrite64": (18, 68, "file"),
    "readv": (19, 65, "file"),
    "writev": (20, 66, "file"),
    "preadv": (295, 69, "file"),
    "pwritev": (296, 70, "file"),
    "preadv2": (327, 286, "file"),
    "pwritev2": (328, 287, "file"),
    "sendfile": (40, 71, "file"),
    "splice": (275, 76, "file"),
    "copy_file_range": (326, 285, "file"),
    "openat": (257, 56, "file"),
    "open": (2, None, "file"),
    "newfstatat": (262, 79, "file"),
    "stat": (4, None, "file"),
    "getdents64": (217, 61, "file"),
    "fsync": (74, 82, "file"),
    "fdatasync": (75, 83, "file"),
    "flock": (73, 32, "lock"),
    "mmap": (9, 222, "other"),
    "io_getevents": (208, 4, "file"),
    "io_pgetevents": (333, 292, "file"),
    "io_uring_enter": (426, 426, "file"),
    "futex": (202, 98, "lock"),
    "futex_waitv": (449, 449, "lock"),
    "futex_wait": (455, 455, "lock"),
    "semop": (65, 193, "lock"),
    "semtimedop": (220, 192, "lock"),
    "poll": (7, None, "network"),
    "ppoll": (271, 73, "network"),
    "select": (23, None, "network"),
    "pselect6": (270, 72, "network"),
    "epoll_wait": (232, None, "network"),
    "epoll_pwait": (281, 22, "network"),
    "epoll_pwait2": (441, 441, "network"),
    "connect": (42, 203, "network"),
    "accept": (43, 202, "network"),
    "accept4": (288, 242, "network"),
    "sendto": (44, 206, "network"),
    "recvfrom": (45, 207, "network"),
    "sendmsg": (46, 211, "network"),
    "recvmsg": (47, 212, "network"),
    "sendmmsg": (307, 269, "network"),
    "recvmmsg": (299, 243, "network"),
    "nanosleep": (35, 101, "sleep"),
    "clock_nanosleep": (230, 115, "sleep"),
    "pause": (34, None, "sleep"),
}

# calls whose number and time are counted; what an older program uses instead counts as the same
COUNTED: tuple[str, ...] = (
    "read",
    "pread64",
    "readv",
    "openat",
    "newfstatat",
    "mmap",
    "io_uring_enter",
    "getdents64",
)
_SAME = {"open": "openat", "stat": "newfstatat", "preadv": "readv", "preadv2": "readv"}


def call_table(machine: str) -> list[tuple[int, int]]:
    """Return for each system call its cause (place in CAUSES) and 1 + its place in COUNTED, or 0.

    >>> table = call_table("x86_64")
    >>> CAUSES[table[202][0]], COUNTED[table[17][1] - 1], table[202][1]
    ('lock', 'pread64', 0)
    """
    table = [(0, 0)] * TABLE_SIZE
    for name, (x86_64, aarch64, cause) in _CALLS.items():
        number = x86_64 if machine == "x86_64" else aarch64
        if number is not None:
            counted = _SAME.get(name, name)
            place = COUNTED.index(counted) + 1 if counted in COUNTED else 0
            table[number] = (CAUSES.index(cause), place)
    return table
