"""Move pages as a contextual bandit over budgets and thresholds advises, under a guard.

After INDIGO (ICS 2025), as far as its abstract says it: page telemetry that knows bursts, a bandit
that looks at the network. Estimating is in `learn/estimators/pages`; here is the choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.memory.move_by_cost import TRAPS, chosen_moves
from steward.model.memory.ranking import ARMS
from steward.model.memory.view import ArmBeliefs, MemoryView, Moves, OnTouch, no_moves

__all__ = ["Indigo", "chance_of_gain"]


def chance_of_gain(beliefs: ArmBeliefs) -> NDArray[np.float64]:
    """Return how likely each arm is to be better than moving nothing, by its posterior."""
    z = beliefs.mean / np.maximum(beliefs.deviation, 1e-12)
    return np.array([0.5 * math.erfc(-each / math.sqrt(2.0)) for each in z])


@dataclass(frozen=True, slots=True, kw_only=True)
class Indigo:
    """Takes the arm with the best draw of its posterior; moves nothing where none is likely to pay.

    While the guard holds, the smallest budget is tried every `probe_epochs`: else it would never
    be seen that moving pays again.
    """

    least_chance: float = 0.5
    probe_epochs: int = 16
    name: str = "indigo"
    on_touch: OnTouch = TRAPS

    def migrate(self, view: MemoryView) -> Moves:
        """Return the moves of the chosen arm."""
        beliefs = view.forecasts.arms if view.forecasts else None
        if beliefs is None:
            return no_moves(0, "nothing is known yet")
        chances = chance_of_gain(beliefs)
        best = float(chances[1:].max())
        if best < self.least_chance:
            if view.epoch % self.probe_epochs:
                return no_moves(0, f"guard: moving pays with a chance of {best:.0%}")
            number = 1 + int(chances[1:4].argmax())
            return chosen_moves(view, ARMS[number], number, f"probe: {ARMS[number].name}")
        number = int(np.argmax(beliefs.drawn))
        return chosen_moves(view, ARMS[number], number, f"arm {ARMS[number].name}")
