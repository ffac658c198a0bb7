"""A job that may run on spot capacity, and what is believed of that capacity."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from steward.errors import StewardError

__all__ = ["Capacity", "SpotJob", "SpotLife"]


class Capacity(IntEnum):
    """What a job runs on."""

    NONE = 0
    SPOT = 1
    ON_DEMAND = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotJob:
    """Work to be done by a deadline, and prices per second of running."""

    work_s: float
    deadline_s: float  # from now
    restart_s: float  # until it computes again after a start, paid for
    spot_price: float
    on_demand_price: float = 1.0

    def __post_init__(self) -> None:
        if not (self.work_s >= 0 and self.restart_s >= 0 and self.deadline_s > 0):
            raise StewardError(
                f"work is {self.work_s} s, a restart {self.restart_s} s, the deadline in "
                f"{self.deadline_s} s",
                where="spot",
                hint="work and restart are 0 or more, the deadline is ahead",
            )
        if not 0 <= self.spot_price < np.inf or not 0 < self.on_demand_price < np.inf:
            raise StewardError(
                f"prices are {self.spot_price} on spot and {self.on_demand_price} on demand",
                where="spot",
                hint="prices are 0 or more",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotLife:
    """What is believed of spot capacity: how long it lasts, and how soon there is some again."""

    lasts_s: float  # mean, of what a job runs on
    back_s: float  # mean time without any capacity
    elsewhere_share: float = 0.0  # chance that there is capacity in another zone when one is lost

    def __post_init__(self) -> None:
        if not (self.lasts_s > 0 and self.back_s > 0 and 0 <= self.elsewhere_share <= 1):
            raise StewardError(
                f"lasts {self.lasts_s} s, back after {self.back_s} s, elsewhere in "
                f"{self.elsewhere_share}",
                where="spot",
                hint="times are above 0, the chance is 0 to 1",
            )
