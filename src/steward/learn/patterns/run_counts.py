"""In how many windows of each run patterns occur: what significance by runs starts from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.learn.patterns.baskets import Baskets

__all__ = ["run_counts", "windows_per_run"]

_WORD = 64


def windows_per_run(baskets: Baskets) -> NDArray[np.int64]:
    """Return how many windows each run has."""
    return np.bincount(baskets.run, minlength=len(baskets.runs)).astype(np.int64)


def run_counts(baskets: Baskets, codes: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return, for each itemset, in how many windows of each run it is."""
    found = np.zeros((len(codes), len(baskets.runs)), np.int32)
    order = np.argsort(baskets.run, kind="stable")
    windows = windows_per_run(baskets)
    word = np.concatenate(([0], np.cumsum(-(-windows // _WORD))))  # the first of each run
    widest = max((len(names) for names in baskets.level_names), default=0)
    bits = np.zeros((len(baskets.groups), widest, word[-1]), np.uint64)
    _set_bits(bits, baskets.levels, order, windows, word)
    _count_runs(bits, np.ascontiguousarray(codes), word, found)
    return found


@njit
def _set_bits(
    bits: NDArray[np.uint64],
    levels: NDArray[np.uint8],
    order: NDArray[np.int64],
    windows: NDArray[np.int64],
    word: NDArray[np.int64],
) -> None:
    """Set in `bits` which windows have each level of each group; a run begins with a new word."""
    at = 0
    for run in range(len(windows)):
        for i in range(windows[run]):
            bit = np.uint64(1) << np.uint64(i % 64)
            for group in range(levels.shape[1]):
                level = levels[order[at], group]
                if level != 255:
                    bits[group, level, word[run] + i // 64] |= bit
            at += 1


@njit
def _ones(word: np.uint64) -> np.uint64:
    """Return how many bits are set."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit
def _count_runs(
    bits: NDArray[np.uint64],
    codes: NDArray[np.uint8],
    word: NDArray[np.int64],
    found: NDArray[np.int32],
) -> None:
    """Add to `found` the windows of each run that hold each itemset; not the empty one."""
    held = np.empty(bits.shape[2], np.uint64)
    for p in range(len(codes)):
        first = True
        for group in range(codes.shape[1]):
            if codes[p, group] == 255:
                continue
            if first:
                held[:] = bits[group, codes[p, group]]
            else:
                held &= bits[group, codes[p, group]]
            first = False
        if first:
            continue
        for run in range(len(word) - 1):
            total = np.uint64(0)
            for w in range(word[run], word[run + 1]):
                total += _ones(held[w])
            found[p, run] = total
