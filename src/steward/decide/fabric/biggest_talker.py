"""Cap whoever sends the most into congestion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steward.decide.fabric.caps import CapChange, Moment, decisions
from steward.model.decision import Decision
from steward.model.fabric.view import FabricView

__all__ = ["BiggestTalker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BiggestTalker:
    """In each congested region, cap the application with the most traffic there, one a turn."""

    share: float = 0.5
    floor: float = 0.25
    least_stalled: float = 0.05
    hold_s: float = 0.0
    calm_s: float = 10.0
    check_after_s: float = 60.0
    name: str = "biggest-talker"

    def decide(self, view: FabricView) -> tuple[Decision, ...]:
        """Return caps for the biggest talkers, and releases for those that are out of it."""
        moment = Moment.of(view)
        share = moment.share.copy()
        inside = np.zeros(len(share), np.bool_)
        for region in view.regions:
            if region.stalled_share < self.least_stalled:
                continue
            sent = moment.load[:, list(region.links)].sum(axis=1)
            inside |= sent > 0
            lower = np.flatnonzero((sent > 0) & (share > self.floor))
            if len(lower) and view.t_s - region.since_s >= self.hold_s:
                biggest = int(lower[np.argmax(sent[lower])])
                share[biggest] = max(share[biggest] * self.share, self.floor)
        calm = view.t_s - view.applications.capped_since_s >= self.calm_s
        share[~inside & (moment.share < 1.0) & calm] = 1.0
        changes = [
            CapChange(
                row=int(row),
                share=float(share[row]),
                because="it sends the most over congested links"
                if share[row] < moment.share[row]
                else "its links are calm",
            )
            for row in np.flatnonzero(share != moment.share)
        ]
        return decisions(self.name, moment, changes, self.check_after_s)
