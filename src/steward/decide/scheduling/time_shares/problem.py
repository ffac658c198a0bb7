"""What a time-share policy is asked, and what it answers. Rows are jobs, columns GPU types."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["PolicyNotes", "TimeSharePolicy", "TimeShareProblem", "TimeShares", "fresh_notes"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyNotes:
    """What a policy noted about each job when it was last asked: pure policies keep nothing."""

    partner: Ints  # row of the job it shares GPUs with; -1: none
    held_type: Ints  # the type it was given for good; -1: none
    lease_until_s: Floats
    steps_left: Floats  # at the last decision; NaN: it was not there
    isolated_rate: Floats  # steps/s it would have had on its own part of the cluster
    isolated_s: Floats  # time its steps so far would have taken there
    first_asked_s: Floats  # when a decision first saw it
    asked_s: Floats  # when the last one did
    fair_end_s: Floats  # forecast of its end under equal shares; NaN: none yet
    fair_mean_s: Floats  # mean of these forecasts over time

    def rows(self, keep: Ints) -> PolicyNotes:
        """Return the memory of these jobs, in this order; -1 is a job that is new.

        A partner who is not among them is forgotten.
        """
        fresh = fresh_notes(len(keep))
        columns = {}
        for name in _NUMBERS:
            column = getattr(fresh, name)
            column[keep >= 0] = getattr(self, name)[keep[keep >= 0]]
            columns[name] = column
        place = np.full(len(self.partner) + 1, -1, np.int64)
        place[keep[keep >= 0]] = np.flatnonzero(keep >= 0)
        partner = fresh.partner
        partner[keep >= 0] = place[self.partner[keep[keep >= 0]]]
        return replace(fresh, partner=partner, **columns)


_NUMBERS = (
    "held_type",
    "lease_until_s",
    "steps_left",
    "isolated_rate",
    "isolated_s",
    "first_asked_s",
    "asked_s",
    "fair_end_s",
    "fair_mean_s",
)


def fresh_notes(jobs: int) -> PolicyNotes:
    """Return the memory of jobs that were never seen."""
    return PolicyNotes(
        partner=np.full(jobs, -1, np.int64),
        held_type=np.full(jobs, -1, np.int64),
        lease_until_s=np.zeros(jobs),
        steps_left=np.full(jobs, np.nan),
        isolated_rate=np.zeros(jobs),
        isolated_s=np.zeros(jobs),
        first_asked_s=np.zeros(jobs),
        asked_s=np.zeros(jobs),
        fair_end_s=np.full(jobs, np.nan),
        fair_mean_s=np.full(jobs, np.nan),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimeShareProblem:
    """One moment: the jobs that are not finished, in order of arrival, and the GPUs there are."""

    t_s: float
    round_s: float
    job: Ints  # who they are
    gpus: Floats
    weight: Floats
    steps_left: Floats
    steps_total: Floats
    elapsed_s: Floats  # since submission
    deadline_left_s: Floats  # NaN: none
    rate: Floats  # (jobs, types) steps/s alone; 0: cannot run there
    reference_type: int  # a policy that is blind to types takes this one's rates for all
    pairs: Ints  # (pairs, 2): jobs of equal size that could share GPUs; empty unless asked for
    pair_rate: Floats  # (pairs, types, 2) steps/s of either job while they share
    capacity: Floats  # GPUs of each type
    price_per_gpu_h: Floats
    draws: Floats  # random numbers in [0, 1): dice are data here
    memory: PolicyNotes

    def __len__(self) -> int:
        return len(self.gpus)

    @property
    def blind_rate(self) -> Floats:
        """The rates as a policy sees them that knows nothing of GPU types."""
        best = self.rate[:, [self.reference_type]]
        best = np.where(best > 0.0, best, self.rate.max(axis=1, keepdims=True))
        return np.repeat(best, self.rate.shape[1], axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimeShares:
    """The part of the time that each job, or pair of jobs, should hold each type of GPU.

    With a `plan` the shares are only a summary: `plan[job, round]` is the type to run on, or -1.
    """

    jobs: Floats  # (jobs, types)
    pairs: Floats  # (pairs, types)
    memory: PolicyNotes
    plan: Ints | None = field(default=None)
    rank: Floats | None = field(default=None)  # who gets GPUs that a plan leaves idle: high first


class TimeSharePolicy(Protocol):
    """Divides the cluster's time among jobs; a mechanism turns shares into rounds."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    @property
    def aware(self) -> bool:
        """It knows how fast a job is on each type, so types are filled best first."""

    @property
    def packed(self) -> bool:
        """It may let two jobs share GPUs, and needs to see the pairs."""

    @property
    def fills_idle(self) -> bool:
        """GPUs that no share claims go to whoever is waiting."""

    @property
    def min_recompute_s(self) -> float:
        """Arrivals and completions do not make it decide more often than this."""

    def decide(self, problem: TimeShareProblem) -> TimeShares:
        """Return the shares for this moment. The same problem gives the same shares."""
