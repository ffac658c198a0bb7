"""Puts entries in order of time within a window, without touching those that are in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from steward.model.rules import LogBlock
from steward.observe.logs import line_kernels as kernels
from steward.observe.logs.counts import ReadCounts

__all__ = ["ReorderBuffer"]

_NEVER = -(2**63)


class ReorderBuffer:
    """Holds entries back until one is seen that is `window_ns` later.

    Entries of equal time keep the order in which they came. One that comes too late is handed on
    at once, and counted. Where more than `held_bytes` are held, the oldest go early.
    """

    def __init__(self, window_ns: int, held_bytes: int, tally: ReadCounts) -> None:
        self._window_ns, self._held_bytes, self._tally = window_ns, held_bytes, tally
        self._held: list[LogBlock] = []  # each in order, and none before the one before it
        self._newest_ns = _NEVER
        self._given_ns = _NEVER

    def take(self, block: LogBlock) -> Iterator[LogBlock]:
        """Take entries, and yield what can be handed on."""
        if not block.timed.any():  # they follow what was before them, whatever their time
            yield from self.flush()
            yield block
            return
        self._newest_ns = max(self._newest_ns, int(block.t_ns.max()))
        if self._window_ns == 0:
            yield from self._given(block)
            return
        self._hold(block)
        yield from self._until(self._newest_ns - self._window_ns)
        while len(self._held) > 1 and sum(len(b.buffer) for b in self._held) > self._held_bytes:
            oldest = self._held.pop(0)
            self._tally.early += len(oldest)
            yield from self._given(oldest)

    def flush(self) -> Iterator[LogBlock]:
        """Yield all that is held: nothing follows."""
        held, self._held = self._held, []
        for block in held:
            yield from self._given(block)

    def _hold(self, block: LogBlock) -> None:
        t_ns = block.t_ns
        first = int(t_ns.min())
        whole = bool((t_ns[1:] >= t_ns[:-1]).all())
        apart = len(self._held)
        while apart and int(self._held[apart - 1].t_ns[-1]) > first:
            apart -= 1
        if whole and apart == len(self._held):
            self._held.append(block)
        else:
            self._held[apart:] = [_merged([*self._held[apart:], block])]

    def _until(self, t_ns: int) -> Iterator[LogBlock]:
        while self._held and int(self._held[0].t_ns[0]) <= t_ns:
            block = self._held.pop(0)
            count = int(np.searchsorted(block.t_ns, t_ns, side="right"))
            if count < len(block):
                self._held.insert(0, _part(block, slice(count, None)))
                block = _part(block, slice(0, count))
            yield from self._given(block)

    def _given(self, block: LogBlock) -> Iterator[LogBlock]:
        seen = np.maximum.accumulate(np.maximum(block.t_ns, self._given_ns))
        self._tally.late += int((block.t_ns < seen).sum())
        self._given_ns = int(seen[-1])
        yield block


def _part(block: LogBlock, which: slice) -> LogBlock:
    return replace(
        block,
        start=block.start[which],
        end=block.end[which],
        t_ns=block.t_ns[which],
        line=block.line[which],
        joined=block.joined[which],
        timed=block.timed[which],
    )


def _merged(blocks: Sequence[LogBlock]) -> LogBlock:
    """Put the entries of blocks into one, in order of time; those that came first, first."""
    t_ns = np.concatenate([block.t_ns for block in blocks])
    order = np.argsort(t_ns, kind="stable")
    offsets = np.cumsum([0, *(len(block.buffer) for block in blocks)])
    shifted = list(zip(blocks, offsets.tolist(), strict=False))
    start = np.concatenate([block.start + offset for block, offset in shifted])[order]
    end = np.concatenate([block.end + offset for block, offset in shifted])[order]
    joint = np.frombuffer(b"".join(block.buffer for block in blocks), np.uint8)
    out = np.empty(int((end - start).sum()), np.uint8)
    begin = np.empty_like(start)
    kernels.gathered(joint, start, end, out, begin)
    return replace(
        blocks[-1],
        buffer=out.tobytes(),
        start=begin,
        end=begin + (end - start),
        t_ns=t_ns[order],
        line=np.concatenate([block.line for block in blocks])[order],
        joined=np.concatenate([block.joined for block in blocks])[order],
        timed=np.concatenate([block.timed for block in blocks])[order],
    )
