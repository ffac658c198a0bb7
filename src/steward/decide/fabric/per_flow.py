"""What congestion control does by itself: everybody backs off at marks, and comes back slowly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steward.decide.fabric.caps import CapChange, Moment, decisions
from steward.model.decision import Decision
from steward.model.fabric.view import FabricView

__all__ = ["PerFlow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerFlow:
    """Cut each application over stalling links by a part, raise the others by a step (AIMD).

    As DCQCN does per flow, but once a turn and per application: what caps can do of it.
    """

    cut: float = 0.8
    step: float = 0.05
    floor: float = 0.1
    least_stalled: float = 0.05
    check_after_s: float = 60.0
    name: str = "per-flow"

    def decide(self, view: FabricView) -> tuple[Decision, ...]:
        """Return a new cap for nearly everybody."""
        moment = Moment.of(view)
        stalls = np.nan_to_num(view.links.stalled_share) >= self.least_stalled
        inside = moment.load[:, stalls].sum(axis=1) > 0
        lower = np.maximum(moment.share * self.cut, self.floor)
        share = np.where(inside, lower, np.minimum(moment.share + self.step, 1.0))
        changes = [
            CapChange(
                row=int(row),
                share=float(share[row]),
                because="its links stall" if inside[row] else "its links do not stall",
            )
            for row in np.flatnonzero(np.isfinite(share))
        ]
        return decisions(self.name, moment, changes, self.check_after_s)
