"""What counters show of the links, beside the traffic itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.model.fabric.contention import Contention

__all__ = ["LinkSigns", "as_counted", "no_signs"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LinkSigns(NamedTuple):
    """Columns along the links, and two numbers of the whole network."""

    counted_share: Floats  # of its configured capacity that a link reaches when full; NaN: unknown
    fault_share: Floats  # of intervals in which it counted errors, 0..1
    tier: Ints  # 0: beside a node, 1: above a leaf, and so on
    incast_share: float  # of its capacity that a full link loses when many jobs meet on it
    pause_share: float  # of its capacity that a link loses when all its flows are held up


def no_signs(links: int) -> LinkSigns:
    """Return what is known where there are no counters."""
    unknown = np.full(links, np.nan)
    return LinkSigns(unknown, np.zeros(links), np.zeros(links, np.int64), 0.0, 0.0)


def as_counted(scene: Contention, signs: LinkSigns) -> Contention:
    """Return the scene with what counters know better: capacities, and what is lost by incast."""
    share = np.where(np.isnan(signs.counted_share), 1.0, signs.counted_share)
    return scene._replace(capacity=scene.capacity * share, incast_share=signs.incast_share)
