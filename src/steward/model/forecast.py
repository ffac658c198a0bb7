"""What is believed about what can't be seen: a value with its range, or a column of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError

__all__ = [
    "BUSY_SHARE",
    "CHOICE_LEND",
    "CHOICE_SHARES",
    "LOAN_YIELD",
    "PHASES",
    "POWER_FLOOR_WATTS",
    "POWER_LIMITS_TRIED",
    "POWER_LIMIT_CHANGES",
    "POWER_PROVEN_WATTS",
    "POWER_SAVING_SHARE",
    "POWER_SLOWDOWN_SHARE",
    "REMAINING_S",
    "RUN_LEFT_S",
    "RUN_LIKELY_S",
    "RUN_LIMITS_S",
    "RUN_RANK_ALL_GPU_S",
    "RUN_RANK_GPU_S",
    "RUN_TYPICAL_S",
    "RUN_USES_GPU_S",
    "SIMILAR_JOBS",
    "SLOWDOWN_SHARE",
    "UNEXPLAINED_S",
    "USED_GPU_S",
    "About",
    "Forecast",
    "ForecastColumn",
    "phase_probability",
]

Floats = NDArray[np.float64]

# Quantities that one room predicts and another relies on.
UNEXPLAINED_S = "quiet.unexplained_s"  # for how long a GPU's owner has not used it without a reason
REMAINING_S = "idle.remaining_s"  # for how much longer it will not
LOAN_YIELD = "loan.yield_share"  # what part of the idle time that is counted on is put to work
CHOICE_LEND = "choice.lend"  # 1: what was learnt from outcomes lends it now, 0: it does not
CHOICE_SHARES = (  # the probabilities that this was chosen with
    "choice.nothing_share",
    "choice.lend_share",
    "choice.lend_later_share",
)
RUN_LEFT_S = "run.left_s"  # for how much longer a job will run, once it runs
RUN_LIMITS_S = "run.limits_s"  # run time in all: median, and limits that hold 90 of 100 jobs
RUN_LIKELY_S = "run.likely_s"  # run time in all that is most likely within a factor of two
RUN_RANK_GPU_S = "run.rank_gpu_s"  # GPU time that jobs like it take, from here, for each that ends
RUN_RANK_ALL_GPU_S = "run.rank_all_gpu_s"  # the same where all jobs count as alike
RUN_TYPICAL_S = "run.typical_s"  # median run time left, from the level of GPU time it last reached
RUN_USES_GPU_S = "run.uses_gpu_s"  # mean GPU time in all, as it was expected when the job came
SIMILAR_JOBS = "run.similar_jobs"  # how many ended jobs of its own kind that rests on
BUSY_SHARE = "gpu.busy_level_share"  # how busy its owner keeps a GPU, over minutes
SLOWDOWN_SHARE = "run.slowdown_share"  # by how much a job steps slower than it did, like for like
# Of jobs whose owner allows a slowdown for saving energy:
POWER_SLOWDOWN_SHARE = "power.slowdown_share"  # at the limit in force, against no cap
POWER_FLOOR_WATTS = "power.floor_watts"  # best limit of a GPU that slows it no more than allowed
POWER_SAVING_SHARE = "power.saving_share"  # energy per step saved there, against the limit in force
POWER_PROVEN_WATTS = "power.proven_watts"  # best of the limits that it was measured at
POWER_LIMITS_TRIED = "power.limits_tried"  # at how many limits it was measured
POWER_LIMIT_CHANGES = "power.limit_changes"  # how often its limit was changed
USED_GPU_S = "tenant.used_gpu_s"  # what a tenant's jobs have held, older use faded

# What a run goes through; for each, one column along the GPUs with its probability.
PHASES = ("start", "compile", "load", "train", "evaluate", "checkpoint", "idle")


def phase_probability(phase: str) -> str:
    """Return the quantity that holds how likely a GPU is in a phase of its owner's run.

    >>> phase_probability("idle")
    'phase.idle_probability'
    """
    return f"phase.{phase}_probability"


class About(Enum):
    """Which table of the view a column runs along; `WHOLE` columns have one row."""

    APPLICATIONS = "applications"
    LINKS = "links"
    GPUS = "gpus"
    JOBS = "jobs"
    TENANTS = "tenants"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What `basis` believes of `subject`: `mid`, and in four of five cases low..high."""

    subject: str
    quantity: str
    low: float
    mid: float
    high: float
    basis: str  # estimator and version, so that a decision can be traced to what was believed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForecastColumn:
    """Forecasts of one quantity for every row of one table of the view; NaN is "no idea"."""

    about: About
    quantity: str
    low: Floats
    mid: Floats
    high: Floats
    basis: str

    def __post_init__(self) -> None:
        if not len(self.low) == len(self.mid) == len(self.high):
            raise StewardError(
                f"{self.quantity} has {len(self.low)}, {len(self.mid)}, {len(self.high)} rows",
                where=self.basis,
                hint="low, mid and high run along the same table",
            )
        known = ~(np.isnan(self.low) | np.isnan(self.mid) | np.isnan(self.high))
        if bool(np.any(self.low[known] > self.mid[known])) or bool(
            np.any(self.mid[known] > self.high[known])
        ):
            raise StewardError(
                f"{self.quantity} is not ordered low <= mid <= high",
                where=self.basis,
                hint="sort the three quantiles before you hand them on",
            )

    def row(self, index: int, subject: str) -> Forecast:
        """Return one row as a value that a decision can name."""
        return Forecast(
            subject=subject,
            quantity=self.quantity,
            low=float(self.low[index]),
            mid=float(self.mid[index]),
            high=float(self.high[index]),
            basis=self.basis,
        )
