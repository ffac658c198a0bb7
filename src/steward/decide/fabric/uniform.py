"""Cap everybody alike who sends into congestion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steward.decide.fabric.caps import CapChange, Moment, decisions
from steward.model.decision import Decision
from steward.model.fabric.view import FabricView

__all__ = ["Uniform"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """Cap all applications over congested links at one share; take it off when they are calm."""

    share: float = 0.5
    least_stalled: float = 0.05
    hold_s: float = 0.0
    calm_s: float = 10.0
    check_after_s: float = 60.0
    name: str = "uniform"

    def decide(self, view: FabricView) -> tuple[Decision, ...]:
        """Return caps for those in congestion, and releases for those out of it."""
        moment = Moment.of(view)
        hot = moment.hot(self.least_stalled, self.hold_s)
        inside = moment.load[:, hot].sum(axis=1) > 0
        changes = [
            CapChange(row=int(row), share=self.share, because="it sends over congested links")
            for row in np.flatnonzero(inside & (moment.share >= 1.0))
        ]
        capped_s = view.t_s - view.applications.capped_since_s
        changes += [
            CapChange(row=int(row), share=1.0, because="its links are calm")
            for row in np.flatnonzero(~inside & (moment.share < 1.0) & (capped_s >= self.calm_s))
        ]
        return decisions(self.name, moment, changes, self.check_after_s)
