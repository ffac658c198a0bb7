"""Move blocks of a process's memory farther away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from steward.model.actions.checks import Budget
from steward.model.actions.on_blocks import OnBlocks, size_of
from steward.model.identity import DecisionId
from steward.model.memory.moment import MemoryMoment
from steward.model.yardstick import STALL

if TYPE_CHECKING:
    from steward.model.actions.promote import Promote

__all__ = ["Demote"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demote(OnBlocks):
    """Write blocks that are not used to the far tier, which makes room."""

    process: str
    pid: int
    blocks: tuple[tuple[int, int], ...]
    near: str = "memory"
    far: str = "swap"
    type: Literal["demote"] = "demote"

    budget: ClassVar = Budget.NONE
    yardstick: ClassVar = STALL

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Move {size_of(self.blocks)} of process {self.pid} from {self.near} to {self.far}"

    def undo(self, _: DecisionId) -> Promote:
        """Return the way back."""
        from steward.model.actions.promote import Promote  # noqa: PLC0415 - they name each other

        return Promote(
            process=self.process, pid=self.pid, blocks=self.blocks, near=self.near, far=self.far
        )

    def unmet_in(self, moment: MemoryMoment) -> str:
        """Return why it cannot be done now, or an empty text."""
        wanted = sum(end - start for start, end in self.blocks)
        free = moment.snapshot.swap_free_bytes
        if free < wanted:
            return (
                f"{self.far} has {free / 2**20:.0f} MiB free, and {wanted / 2**20:.0f} are needed"
            )
        return OnBlocks.unmet_in(self, moment)

    def seems_done_in(self, moment: MemoryMoment) -> bool:
        """Return whether none of the blocks is near."""
        rows = [moment.row_of[start] for start, _ in self.blocks if start in moment.row_of]
        return len(rows) == len(self.blocks) and not (moment.view.tier[rows] == 0).any()
