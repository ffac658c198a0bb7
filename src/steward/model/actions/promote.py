"""Bring blocks of a process's memory nearer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from steward.model.actions.checks import Budget
from steward.model.actions.on_blocks import OnBlocks, size_of
from steward.model.identity import DecisionId
from steward.model.memory.moment import MemoryMoment
from steward.model.yardstick import STALL

if TYPE_CHECKING:
    from steward.model.actions.demote import Demote

__all__ = ["Promote"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promote(OnBlocks):
    """Read blocks back from the far tier before they are missed."""

    process: str
    pid: int
    blocks: tuple[tuple[int, int], ...]
    near: str = "memory"
    far: str = "swap"
    type: Literal["promote"] = "promote"

    budget: ClassVar = Budget.NONE  # page policies have budgets of their own, every 0.1 s
    yardstick: ClassVar = STALL

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Move {size_of(self.blocks)} of process {self.pid} from {self.far} to {self.near}"

    def undo(self, _: DecisionId) -> Demote:
        """Return the way back."""
        from steward.model.actions.demote import Demote  # noqa: PLC0415 - they name each other

        return Demote(
            process=self.process, pid=self.pid, blocks=self.blocks, near=self.near, far=self.far
        )

    def seems_done_in(self, moment: MemoryMoment) -> bool:
        """Return whether all of the blocks are near."""
        rows = [moment.row_of[start] for start, _ in self.blocks if start in moment.row_of]
        return len(rows) == len(self.blocks) and bool((moment.view.tier[rows] == 0).all())
