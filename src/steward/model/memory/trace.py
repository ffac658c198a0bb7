"""Recorded or generated accesses to pages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["AccessTrace", "trace_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AccessTrace:
    """Which page each access goes to, and how long the program computes before it.

    Pages are numbered from 0 in the order of their first access.
    """

    name: str
    page: NDArray[np.int32]
    think_s: NDArray[np.float64]
    pages: int
    page_bytes: int = 4096
    lines: int = 1  # cache lines that one access reads or writes
    parallel: float = 4.0  # cache misses at once; more where lines are read in order
    left_out: int = 0  # rows of a file that could not be used
    synthetic: bool = False

    def __len__(self) -> int:
        return len(self.page)


def trace_of(name: str, keys: NDArray[np.int64], think_s: NDArray[np.float64]) -> AccessTrace:
    """Return accesses to pages that are known by any numbers, such as addresses."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first), dtype=np.int32)
    return AccessTrace(
        name=name,
        page=rank[inverse.ravel()].astype(np.int32),
        think_s=np.asarray(think_s, np.float64),
        pages=len(first),
    )
