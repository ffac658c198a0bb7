"""PyTorch's caching allocator, replayed on a list of allocations without a GPU.

The rules are those of `CUDACachingAllocator` with its default settings: sizes rounded to 512 bytes,
requests up to 1 MiB in segments of 2 MiB, up to 10 MiB in segments of 20 MiB, larger ones in
segments of their own rounded to 2 MiB; best fit; free neighbours merge; nothing is given back.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

__all__ = ["CachingAllocator", "rounded"]

_ROUND = 512
_SMALL = 1 << 20
_SMALL_SEGMENT = 2 << 20
_LARGE_SEGMENT = 20 << 20
_MIN_OWN_SEGMENT = 10 << 20
_SEGMENT_ROUND = 2 << 20


def rounded(size: int) -> int:
    """Return the bytes that the allocator counts for `size` bytes.

    >>> rounded(1), rounded(512), rounded(513)
    (512, 512, 1024)
    """
    return max(_ROUND, -(-size // _ROUND) * _ROUND)


@dataclass(slots=True, eq=False)
class _Block:
    size: int
    address: int
    small: bool
    free: bool = False
    before: _Block | None = None
    after: _Block | None = None


@dataclass(slots=True)
class _Pool:
    """Free blocks ordered by size, then by address."""

    keys: list[tuple[int, int]] = field(default_factory=list)
    blocks: dict[tuple[int, int], _Block] = field(default_factory=dict)

    def add(self, block: _Block) -> None:
        key = (block.size, block.address)
        insort(self.keys, key)
        self.blocks[key] = block

    def remove(self, block: _Block) -> None:
        key = (block.size, block.address)
        del self.keys[bisect_left(self.keys, key)]
        del self.blocks[key]

    def best_fit(self, size: int) -> _Block | None:
        at = bisect_left(self.keys, (size, 0))
        return self.blocks[self.keys[at]] if at < len(self.keys) else None


class CachingAllocator:
    """Allocate and free by key, and keep the peaks of allocated and reserved bytes."""

    def __init__(self) -> None:
        self.allocated_bytes = 0
        self.reserved_bytes = 0
        self.peak_allocated_bytes = 0
        self._pools = {True: _Pool(), False: _Pool()}
        self._live: dict[object, _Block] = {}
        self._next_address = 0

    def allocate(self, key: object, size: int) -> None:
        """Allocate `size` bytes under `key`, from the cache where a free block fits."""
        need = rounded(size)
        small = need <= _SMALL
        pool = self._pools[small]
        block = pool.best_fit(need)
        if block is None:
            block = self._reserve(need, small=small)
        else:
            pool.remove(block)
        self._split(block, need)
        block.free = False
        self._live[key] = block
        self.allocated_bytes += block.size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)

    def free(self, key: object) -> None:
        """Put the block of `key` into the cache; a key that is not live is ignored."""
        block = self._live.pop(key, None)
        if block is None:
            return
        self.allocated_bytes -= block.size
        block.free = True
        pool = self._pools[block.small]
        pool.add(self._merged(block, pool))

    def _reserve(self, need: int, *, small: bool) -> _Block:
        if small:
            size = _SMALL_SEGMENT
        elif need < _MIN_OWN_SEGMENT:
            size = _LARGE_SEGMENT
        else:
            size = -(-need // _SEGMENT_ROUND) * _SEGMENT_ROUND
        block = _Block(size=size, address=self._next_address, small=small)
        self._next_address += size
        self.reserved_bytes += size
        return block

    def _split(self, block: _Block, need: int) -> None:
        left = block.size - need
        if not (left >= _ROUND if block.small else left > _SMALL):
            return
        rest = _Block(
            size=left, address=block.address + need, small=block.small, free=True, before=block
        )
        rest.after = block.after
        if rest.after is not None:
            rest.after.before = rest
        block.after = rest
        block.size = need
        self._pools[block.small].add(rest)

    def _merged(self, block: _Block, pool: _Pool) -> _Block:
        before, after = block.before, block.after
        if after is not None and after.free:
            pool.remove(after)
            block.size += after.size
            block.after = after.after
            if block.after is not None:
                block.after.before = block
        if before is not None and before.free:
            pool.remove(before)
            before.size += block.size
            before.after = block.after
            if before.after is not None:
                before.after.before = before
            return before
        return block
