"""Keeps a program small that runs for months beside other people's work."""

from __future__ import annotations

import ctypes
import os

__all__ = ["stay_small"]

# One thread for tables and numbers. Memory that was let go of goes back at once: kept for the next
# batch, which is half a minute away, it is worth nothing to us and much to others.
_SETTINGS = {
    "POLARS_MAX_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "_RJEM_MALLOC_CONF": (
        "narenas:1,background_thread:false,dirty_decay_ms:0,muzzy_decay_ms:0"  # polars' own
    ),
}
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # as in malloc.h
_TRIM_BYTES = 2**20  # glibc raises both by what it sees; but below what a tick takes,
_MMAP_BYTES = 2**19  # every tick would give memory back and ask for it again


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
