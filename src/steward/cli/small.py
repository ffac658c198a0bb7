"""Keeps a program small that runs for months beside other people's work."""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import suppress
from pathlib import Path

__all__ = ["let_go_of_code", "stay_small"]

# One thread for tables and numbers. Memory that was let go of goes back soon: kept for the next
# batch, which is half a minute away, it is worth nothing to us and much to others. What each of
# twenty threads keeps for itself came to 20 MB when the files of an hour are merged.
_SETTINGS = {
    "POLARS_MAX_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "_RJEM_MALLOC_CONF": (
        "narenas:1,background_thread:false,cache_oblivious:false,tcache:false,"  # polars' own
        "dirty_decay_ms:100,muzzy_decay_ms:0"
    ),
}
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # as in malloc.h
_TRIM_BYTES = 2**20  # glibc raises both by what it sees; but below what a tick takes,
_MMAP_BYTES = 2**19  # every tick would give memory back and ask for it again
_DONTNEED = 4  # as in mman.h
_LARGE_BYTES = 2**24
_CODE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r-xp .* /", re.MULTILINE)


def stay_small() -> None:
    """Set up the libraries that hold most of our memory. Before any of them is loaded."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    tell = getattr(ctypes.CDLL(None), "mallopt", None)
    if tell is None:
        return  # another C library; it has its own ways
    tell(_ARENA_MAX, 1)
    tell(_TRIM_THRESHOLD, _TRIM_BYTES)
    tell(_MMAP_THRESHOLD, _MMAP_BYTES)


def let_go_of_code() -> None:
    """Give back the pages that hold the code of large libraries; after work that is rare.

    Nobody writes to them, so what is needed again is still in the kernel's cache of files, and is
    mapped in a moment. What was needed once, at the start or at the end of an hour, stays away.
    """
    with suppress(OSError, AttributeError):  # not Linux: it was only an offer
        system = ctypes.CDLL(None)
        system.malloc_trim(0)
        for found in _CODE.finditer(Path("/proc/self/maps").read_text(encoding="utf-8")):
            begin, end = (int(each, 16) for each in found.groups())
            if end - begin >= _LARGE_BYTES:
                system.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _DONTNEED)
