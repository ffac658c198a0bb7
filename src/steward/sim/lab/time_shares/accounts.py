"""Units that may run, the share each was given, and how much of it each has used.

A unit is a job, or a pair of jobs on the same GPUs. Units stand in order of arrival, a job
before the pairs it completes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.sim.lab.time_shares.job_rates import JobRates

__all__ = ["ShareAccounts"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_NEVER_RAN = 1e9  # stands for 1 / (no time so far), small enough to be compared


@dataclass(slots=True)
class ShareAccounts:
    """Columns of units; rows come with arrivals and go with completions."""

    work: JobRates
    gpus: Floats  # of each job of the trace
    round_s: float
    packed: bool
    first: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    second: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # -1: the job is alone
    rate: Floats = field(init=False)  # (units, types, 2)
    share: Floats = field(init=False)
    shared: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))  # has been given a share
    received_s: Floats = field(init=False)  # (units, types), since shares last changed
    deficit_s: Floats = field(init=False)
    given_s: Floats = field(init=False)  # of each type, to all units

    def __post_init__(self) -> None:
        types = self.work.rate.shape[1]
        self.rate = np.zeros((0, types, 2))
        self.share, self.received_s = np.zeros((0, types)), np.zeros((0, types))
        self.deficit_s = np.zeros((0, types))
        self.given_s = np.zeros(types)

    @property
    def singles(self) -> Ints:
        """Rows of the units that are one job; the jobs themselves are `first` of these."""
        return np.flatnonzero(self.second < 0)

    @property
    def couples(self) -> Ints:
        """Rows of the units that are pairs."""
        return np.flatnonzero(self.second >= 0)

    def add(self, jobs: Ints) -> None:
        """Enter newly arrived jobs, and the pairs they can form."""
        if not self.packed:
            self._append(jobs, np.full(len(jobs), -1, np.int64))
            return
        for job in jobs:
            here = self.first[self.singles]
            same = here[(self.gpus[here] == self.gpus[job]) & (self.work.kind[here] >= 0)]
            if self.work.kind[job] < 0:  # never measured beside anybody
                same = same[:0]
            # pairs that do not fit are there too: a policy may have to try them to find out
            self._append(
                np.concatenate([[job], np.minimum(same, job)]),
                np.concatenate([[-1], np.maximum(same, job)]),
            )

    def _append(self, first: Ints, second: Ints) -> None:
        rate = np.zeros((len(first), len(self.given_s), 2))
        alone, pair = second < 0, second >= 0
        rate[alone, :, 0] = rate[alone, :, 1] = self.work.rate[first[alone]]
        if pair.any():
            rate[pair, :, 0] = self.work.beside(first[pair], second[pair])
            rate[pair, :, 1] = self.work.beside(second[pair], first[pair])
        empty = np.zeros((len(first), len(self.given_s)))
        # half a round for everyone, so that no fraction is 0 and new units rank by their share
        half = np.where(alone, self.round_s / 2.0, 0.0)[:, None] + empty
        self.first = np.concatenate([self.first, first])
        self.second = np.concatenate([self.second, second])
        self.rate = np.concatenate([self.rate, rate])
        self.share = np.concatenate([self.share, empty])
        self.shared = np.concatenate([self.shared, np.zeros(len(first), np.bool_)])
        self.received_s = np.concatenate([self.received_s, half])
        self.deficit_s = np.concatenate([self.deficit_s, empty])

    def remove(self, jobs: Ints) -> None:
        """Strike out finished jobs and every pair they were part of."""
        gone = np.isin(self.first, jobs) | np.isin(self.second, jobs)
        for name in ("first", "second", "rate", "share", "shared", "received_s", "deficit_s"):
            setattr(self, name, getattr(self, name)[~gone])

    def settle(self, elapsed_s: float) -> None:
        """Close the books on the old shares: what was owed and not received is a deficit."""
        start_s = self.round_s / 2.0
        self.deficit_s += self.share * elapsed_s - (self.received_s - start_s)
        self.received_s[:] = start_s
        self.given_s[:] = start_s * len(self.first)

    def priorities(self) -> Floats:
        """Return the share of each unit over the part of the type's time it has received."""
        fraction = self.received_s / np.where(self.given_s > 0.0, self.given_s, np.inf)
        ratio = np.where(
            fraction > 0.0,
            self.share / np.where(fraction > 0.0, fraction, 1.0),
            self.share * _NEVER_RAN,
        )
        return np.where(self.runnable(), ratio, 0.0)

    def runnable(self) -> Bools:
        """Return (units, types): all its jobs make steps there."""
        return np.asarray((self.rate > 0.0).all(axis=2))

    def credit(self, units: Ints, types: Ints, time_s: Floats) -> None:
        """Note the time that units held GPUs of a type."""
        self.received_s[units, types] += time_s
        np.add.at(self.given_s, types, time_s)
