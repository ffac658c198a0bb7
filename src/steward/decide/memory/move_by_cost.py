"""Move pages where what is expected to be saved is more than the moves cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from steward.model.memory.ranking import Arm, chosen, moves_of, rank, trapped
from steward.model.memory.view import MemoryView, Moves, OnTouch, no_moves

__all__ = ["TRAPS", "MoveByCost", "chosen_moves"]

TRAPS = OnTouch(mode="trap", watches=True)
WHOLE = Arm(budget=1.0, threshold=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveByCost:
    """Promotes by expected accesses, with one budget and threshold for all times.

    With forecasts of the true future it is the oracle that others are compared with.
    """

    arm: Arm = WHOLE
    number: int = -1
    name: str = "move-by-cost"
    on_touch: OnTouch = TRAPS

    def migrate(self, view: MemoryView) -> Moves:
        """Return the moves that are worth it; none where nothing is expected yet."""
        return chosen_moves(view, self.arm, self.number, self.arm.name)


def chosen_moves(view: MemoryView, arm: Arm, number: int, why: str) -> Moves:
    """Return what an arm moves in this moment."""
    if view.forecasts is None or not arm.budget:
        return no_moves(number, why)
    ranked = rank(view, view.forecasts)
    room, promotions = moves_of(ranked, arm, view.system.tiers[0].pages)
    found = chosen(ranked, room, promotions)
    trap = np.setdiff1d(trapped(ranked, arm), found.promote)
    return replace(found, trap=trap, arm=number, why=why)
