"""The system calls that Python has no names for. Each raises `OSError` as the others do."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "COLD",
    "PAGEOUT",
    "WILLNEED",
    "move_pages",
    "process_madvise",
    "register",
    "userfaultfd",
]

COLD, PAGEOUT, WILLNEED = 20, 21, 3  # advice of madvise(2)
PAGE_BYTES = mmap.PAGESIZE
_MOST_RANGES = 1024  # of one call: IOV_MAX
_MOVE_OWN = 2  # MPOL_MF_MOVE: pages that only this process maps

# By machine: move_pages, process_madvise, userfaultfd.
_NUMBERS = {"x86_64": (279, 440, 323), "aarch64": (239, 440, 282)}
_libc = ctypes.CDLL(None, use_errno=True)


class _Range(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _numbers() -> tuple[int, int, int]:
    found = _NUMBERS.get(platform.machine())
    if found is None:
        raise OSError(38, f"numbers of system calls are not known for {platform.machine()}")
    return found


def _called(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def process_madvise(pid: int, ranges: Sequence[tuple[int, int]], advice: int) -> int:
    """Give advice about ranges (start, end) of a process; return how many bytes it was taken for.

    A call may stop early: what follows is tried again as long as something is taken.
    """
    number = _numbers()[1]
    pidfd = os.pidfd_open(pid)
    done = 0
    try:
        for first in range(0, len(ranges), _MOST_RANGES):
            part = ranges[first : first + _MOST_RANGES]
            table = (_Range * len(part))(*(_Range(start, end - start) for start, end in part))
            done += _called(_libc.syscall(number, pidfd, table, len(part), advice, 0))
    finally:
        os.close(pidfd)
    return done


def move_pages(
    pid: int, addresses: Sequence[int], nodes: Sequence[int] | None = None
) -> NDArray[np.int32]:
    """Move pages to NUMA nodes, or without `nodes` ask where they are.

    Return for each page its node, or minus an errno: -2 is not present, -22 or -19 no such node.
    """
    count = len(addresses)
    where = (ctypes.c_void_p * count)(*addresses)
    to = None if nodes is None else (ctypes.c_int * count)(*nodes)
    status = (ctypes.c_int * count)(*([-2] * count))
    number = _numbers()[0]
    _called(_libc.syscall(number, pid, ctypes.c_ulong(count), where, to, status, _MOVE_OWN))
    return np.array(status[:], np.int32)


class _Api(ctypes.Structure):
    _fields_ = (("api", ctypes.c_uint64), ("features", ctypes.c_uint64), ("x", ctypes.c_uint64))


class _Register(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("start", "length", "mode", "ioctls"))


_UFFDIO_API = 0xC018AA3F
_UFFDIO_REGISTER = 0xC020AA00
_WP_MODE = 2
_USER_MODE_ONLY = 1
_WP_UNPOPULATED, _WP_ASYNC = 1 << 13, 1 << 15


def userfaultfd() -> int:
    """Open a userfaultfd with asynchronous write-protection; it counts for this process only."""
    flags = os.O_CLOEXEC | os.O_NONBLOCK | _USER_MODE_ONLY
    fd = _called(_libc.syscall(_numbers()[2], flags))
    try:
        fcntl.ioctl(fd, _UFFDIO_API, _Api(0xAA, _WP_UNPOPULATED | _WP_ASYNC, 0))
    except OSError:
        os.close(fd)
        raise
    return fd


def register(fd: int, start: int, length: int) -> None:
    """Let writes to a range of this process be told by PAGEMAP_SCAN."""
    fcntl.ioctl(fd, _UFFDIO_REGISTER, _Register(start, length, _WP_MODE, 0))
