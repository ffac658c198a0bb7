"""Keep blocks of a process's memory where they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget
from steward.model.actions.on_blocks import OnBlocks, size_of
from steward.model.identity import DecisionId
from steward.model.memory.moment import MemoryMoment
from steward.model.yardstick import STALL

__all__ = ["Pin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin(OnBlocks):
    """Let no policy move blocks, until they are unpinned. The kernel may still reclaim them."""

    process: str
    pid: int
    blocks: tuple[tuple[int, int], ...]
    pinned: bool = True
    type: Literal["pin"] = "pin"

    budget: ClassVar = Budget.NONE
    yardstick: ClassVar = STALL

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        verb = "Keep" if self.pinned else "Let policies move"
        end = " where they are" if self.pinned else ""
        return f"{verb} {size_of(self.blocks)} of process {self.pid}{end}"

    def undo(self, _: DecisionId) -> Pin:
        """Return the way back."""
        return replace(self, pinned=not self.pinned)

    def seems_done_in(self, moment: MemoryMoment) -> bool:
        """Return whether they are pinned, or not, as it asks for."""
        rows = {moment.row_of[start] for start, _ in self.blocks if start in moment.row_of}
        return (rows <= moment.view.pinned) if self.pinned else not rows & moment.view.pinned
