"""Themis (NSDI'20): GPUs are auctioned off in leases to those who are furthest behind.

A job's ratio is its forecast time from submission to end, over the time it would take on its own
N-th of the cluster. This is the auction, for jobs of fixed size: a bid is all or nothing, so the
paper's hidden payments, which shrink what a winner gets, are left out. Most published comparisons
run a linear program instead; that one is `finish-time-fairness`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from steward.decide.scheduling.time_shares.finish_time_fairness import remember_isolated
from steward.decide.scheduling.time_shares.problem import PolicyNotes, TimeShareProblem, TimeShares

__all__ = ["Themis"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Themis:
    """Offer free GPUs to the worst `1 - fairness_knob` of the jobs without a lease.

    Among the bidders, the product of their gains in ratio is made as large as possible; what is
    left over goes to the others, worst first. A lease lasts `lease_s` and is then up for auction.
    """

    lease_s: float = 1200.0
    fairness_knob: float = 0.8
    aware: bool = True
    packed: ClassVar[bool] = False
    fills_idle: bool = True
    min_recompute_s: float = 0.0
    name: str = "themis"

    def decide(self, problem: TimeShareProblem) -> TimeShares:
        rate = problem.rate if self.aware else problem.blind_rate
        memory = remember_isolated(problem, rate)
        best_s = problem.steps_left / rate.max(axis=1)
        alone_s = memory.isolated_s + problem.steps_left / memory.isolated_rate
        ratio = (problem.elapsed_s + best_s) / np.maximum(alone_s, 1e-9)
        held = np.where(memory.lease_until_s > problem.t_s + 1e-6, memory.held_type, -1)
        free = problem.capacity - np.bincount(
            held[held >= 0], weights=problem.gpus[held >= 0], minlength=len(problem.capacity)
        )
        waiting = np.flatnonzero(held < 0)
        worst_first = waiting[np.argsort(-ratio[waiting], kind="stable")]
        bidders = worst_first[: max(1, round((1.0 - self.fairness_knob) * len(problem)))]
        won = self._auction(problem, rate, bidders, free)
        until_s = np.where(held >= 0, memory.lease_until_s, problem.t_s + self.lease_s)
        held = _and_leftovers(problem, rate, np.where(won >= 0, won, held), worst_first)
        return self._planned(problem, replace(memory, held_type=held, lease_until_s=until_s), ratio)

    def _auction(
        self, problem: TimeShareProblem, rate: Floats, bidders: Ints, free: Floats
    ) -> Ints:
        """Return the type each job wins. Without GPUs a bidder's end is a lease further away."""
        won = np.full(len(problem), -1, np.int64)
        if not len(bidders):
            return won
        types = len(free)
        elapsed_s, left = problem.elapsed_s[bidders, None], problem.steps_left[bidders, None]
        able = rate[bidders] > 0.0
        with_s = elapsed_s + left / np.where(able, rate[bidders], 1.0)
        without_s = elapsed_s + self.lease_s + left / rate[bidders].max(axis=1, keepdims=True)
        gain = np.where(able, np.log(without_s / with_s), -1.0).ravel()
        column = np.arange(len(gain))
        one_each = (column[None, :] // types == np.arange(len(bidders))[:, None]).astype(float)
        held = np.where(
            column[None, :] % types == np.arange(types)[:, None],
            np.repeat(problem.gpus[bidders], types),
            0.0,
        )
        found = milp(
            -gain,
            constraints=[LinearConstraint(one_each, ub=1.0), LinearConstraint(held, ub=free)],
            integrality=np.ones(len(gain)),
            bounds=Bounds(0.0, np.where(gain > 0.0, 1.0, 0.0)),
        )
        chosen = np.flatnonzero(found.x > 0.5)  # there is an answer: nobody wins anything
        won[bidders[chosen // types]] = chosen % types
        return won

    def _planned(self, problem: TimeShareProblem, memory: PolicyNotes, ratio: Floats) -> TimeShares:
        """Return the leases as a plan of rounds."""
        rounds = max(1, round(self.lease_s / problem.round_s))
        left = np.ceil((memory.lease_until_s - problem.t_s) / problem.round_s - 1e-6)
        runs = np.arange(rounds)[None, :] < left[:, None]
        plan = np.where(runs, memory.held_type[:, None], -1)
        shares = np.zeros_like(problem.rate)
        given = np.flatnonzero(memory.held_type >= 0)
        shares[given, memory.held_type[given]] = 1.0
        return TimeShares(
            jobs=shares,
            pairs=np.zeros((len(problem.pairs), len(problem.capacity))),
            memory=memory,
            plan=plan,
            rank=ratio,
        )


def _and_leftovers(problem: TimeShareProblem, rate: Floats, held: Ints, worst_first: Ints) -> Ints:
    """Give GPUs that nobody won to those who still wait, worst first, on their best free type."""
    held = held.copy()
    free = problem.capacity - np.bincount(
        held[held >= 0], weights=problem.gpus[held >= 0], minlength=len(problem.capacity)
    )
    for job in worst_first[held[worst_first] < 0]:
        fits = np.flatnonzero((free >= problem.gpus[job] - 1e-9) & (rate[job] > 0.0))
        if len(fits):
            held[job] = int(fits[np.argmax(rate[job, fits])])
            free[held[job]] -= problem.gpus[job]
    return held
