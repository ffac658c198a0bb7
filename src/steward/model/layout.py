"""What a sampler fills at every tick: which entities, and which values of each, in which order.

Sampling ten times a second has no time for names. A sampler says once what its numbers will be;
a tick is then one row of a matrix that is there already.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

__all__ = ["Block", "Layout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One entity and what is read of it, in the words of the sampler's vocabulary."""

    entity: str
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """All that one sampler reads at a tick. Another object means that something has changed."""

    blocks: tuple[Block, ...]

    @cached_property
    def width(self) -> int:
        """How many values a tick has."""
        return sum(len(block.names) for block in self.blocks)
