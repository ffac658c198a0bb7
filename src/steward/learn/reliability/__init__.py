"""How often what fails, what it costs jobs, and how sure that is.

Belongs here: rates with exact intervals, propagation, job failures, availability, lives, silences.
Does not: reading (`observe`), which faults are one (`learn.faults`), forecasts of single units
(`learn.failures`), and what is done about any of it (`decide.health`).
"""

from __future__ import annotations

from steward.learn.reliability.availability import NodeAvailability, availability, down_counts
from steward.learn.reliability.blackouts import blackouts
from steward.learn.reliability.intervals import poisson_rate, rate_ratio, share
from steward.learn.reliability.job_failures import JobFailures, job_failures
from steward.learn.reliability.lifetimes import Survival, hazard_by_age, kaplan_meier
from steward.learn.reliability.propagation import Edge, propagation
from steward.learn.reliability.rates import Rate, rate_of, worst_units

__all__ = [
    "Edge",
    "JobFailures",
    "NodeAvailability",
    "Rate",
    "Survival",
    "availability",
    "blackouts",
    "down_counts",
    "hazard_by_age",
    "job_failures",
    "kaplan_meier",
    "poisson_rate",
    "propagation",
    "rate_of",
    "rate_ratio",
    "share",
    "worst_units",
]
