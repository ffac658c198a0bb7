"""What recorded availability of spot capacity says of the next days: which zone lasts, how long.

Availability is a table (zones, steps): was there capacity? A little prior evidence keeps a zone
that was never lost from being believed to last for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.planning.spot import SpotLife

__all__ = ["SpotLives", "spot_lives"]

_PRIOR_S = 3 * 3600.0  # of capacity, with one loss in it
_PRIOR_BACK_S = 3600.0  # without capacity, with one return in it


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotLives:
    """How long each zone's capacity lasts, and what a job that always takes the best zone sees."""

    lasts_s: tuple[float, ...]  # by zone
    life: SpotLife

    def best(self, zones: Sequence[int]) -> int:
        """Return the zone, of those with capacity now, whose capacity lasts longest."""
        return max(zones, key=lambda zone: (self.lasts_s[zone], -zone))


def spot_lives(seen: NDArray[np.bool_], *, step_s: float) -> SpotLives:
    """Learn from what was recorded; the newest step is the last one."""
    if seen.ndim != 2 or seen.shape[0] == 0 or seen.shape[1] < 2:
        raise StewardError(
            f"availability is a table of {seen.shape}",
            where="spot",
            hint="one row for each zone, two steps or more",
        )
    losses = (seen[:, :-1] & ~seen[:, 1:]).sum(axis=1)
    lasts_s = (seen.sum(axis=1) * step_s + _PRIOR_S) / (losses + 1)
    some = np.asarray(seen.any(axis=0))
    returns = int((~some[:-1] & some[1:]).sum())
    back_s = (float((~some).sum()) * step_s + _PRIOR_BACK_S) / (returns + 1)
    held, lost, stranded = _following_best(seen, lasts_s)
    return SpotLives(
        lasts_s=tuple(lasts_s.tolist()),
        life=SpotLife(
            lasts_s=(held * step_s + _PRIOR_S) / (lost + 1),
            back_s=back_s,
            elsewhere_share=1.0 - (stranded + 0.5) / (lost + 1) if len(seen) > 1 else 0.0,
        ),
    )


def _following_best(seen: NDArray[np.bool_], lasts_s: NDArray[np.float64]) -> tuple[int, int, int]:
    """Return for how many steps a job in the best zone runs, its losses, and those of all zones."""
    order = np.argsort(-lasts_s, kind="stable")
    held = lost = stranded = 0
    zone = -1
    for column in seen.T:
        if zone >= 0 and not column[zone]:
            lost += 1
            stranded += not column.any()
            zone = -1
        if zone < 0 and column.any():
            zone = int(order[np.argmax(column[order])])
        held += zone >= 0
    return held, lost, stranded
