"""Calls of the policy: when, with which input, and how its answer is applied."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from steward.decide.scheduling.time_shares.problem import (
    PolicyNotes,
    TimeSharePolicy,
    TimeShareProblem,
    TimeShares,
    fresh_notes,
)
from steward.model.machines import Machines
from steward.model.trace import Trace
from steward.sim.lab.time_shares.accounts import ShareAccounts
from steward.sim.lab.time_shares.job_rates import JobRates

__all__ = ["PolicyCalls"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(slots=True)
class PolicyCalls:
    """The policy with its memory and its dice."""

    trace: Trace
    policy: TimeSharePolicy
    work: JobRates
    machines: Machines
    seed: int
    stale: bool = False  # jobs arrived or left since the last decision
    decisions: int = 0
    asked_s: float = 0.0
    plan: Ints | None = None  # (jobs of the trace, rounds)
    planned: int = 0  # rounds of the plan that have begun
    rank: Floats = field(init=False)
    price: Floats = field(init=False)
    jobs: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # that memory is about
    memory: PolicyNotes = field(default_factory=lambda: fresh_notes(0))
    dice: np.random.Generator = field(init=False)
    shuffler: random.Random = field(init=False)

    def __post_init__(self) -> None:
        types = len(self.machines.types)
        count = np.maximum(np.bincount(self.machines.type, minlength=types), 1)
        price = self.machines.price_per_gpu_h
        self.price = np.bincount(self.machines.type, weights=price, minlength=types) / count
        self.rank = np.zeros(len(self.trace))
        self.dice = np.random.default_rng(self.seed)
        # the generator and offset of Gavel's simulator, so that blind policies see its orders
        self.shuffler = random.Random(self.seed + 5)  # noqa: S311 - a simulation, not a secret

    def due(self, now_s: float) -> bool:
        """Return whether to call the policy: there is a reason, and the last call is long ago.

        Time 0 counts as long ago, as in the simulator whose figures are the yardstick.
        """
        rested = now_s - self.asked_s >= self.policy.min_recompute_s or self.asked_s == 0.0
        return self.stale and rested

    def force(self) -> None:
        """Have the policy decide at the next opportunity."""
        self.stale, self.asked_s = True, 0.0

    def type_order(self) -> Ints:
        """Return the order in which types are filled: as listed if the policy knows them apart."""
        order = list(range(len(self.machines.types)))
        if not self.policy.aware:
            self.shuffler.shuffle(order)
        return np.array(order, np.int64)

    def next_planned(self, ledger: ShareAccounts) -> Ints | None:
        """Return the plan of the next round for each unit, if the policy plans."""
        if self.plan is None:
            return None
        column = self.plan[:, min(self.planned, self.plan.shape[1] - 1)]
        self.planned += 1
        if self.planned >= self.plan.shape[1]:
            self.stale = True
        return np.asarray(column[ledger.first])

    def ask(self, now_s: float, ledger: ShareAccounts, left: Floats, capacity: Floats) -> None:
        """Close the books on the old shares and enter new ones."""
        ledger.settle(now_s - self.asked_s)
        self.asked_s, self.stale = now_s, False
        ledger.share[:] = 0.0
        ledger.shared[:] = True
        live = np.flatnonzero(capacity > 0.0)
        rate = np.where(ledger.gpus[:, None] <= capacity, self.work.rate, 0.0)[:, live]
        runs = np.asarray((rate > 0.0).any(axis=1))  # somewhere, as machines are now
        singles, couples = ledger.singles, ledger.couples
        singles = singles[runs[ledger.first[singles]]]
        couples = couples[runs[ledger.first[couples]] & runs[ledger.second[couples]]]
        if not len(singles):
            return
        jobs = ledger.first[singles]
        problem = self._problem(ledger, jobs, couples, live)
        shares = self.policy.decide(
            replace(
                problem,
                t_s=now_s,
                elapsed_s=now_s - self.trace.submit_s[jobs],
                deadline_left_s=problem.deadline_left_s - now_s,
                steps_left=left[jobs],
                rate=rate[jobs],
                capacity=capacity[live],
            )
        )
        self.decisions += 1
        ledger.share[np.ix_(singles, live)] = shares.jobs
        ledger.share[np.ix_(couples, live)] = shares.pairs
        self.jobs, self.memory = jobs, shares.memory
        self._take_plan(shares, live)

    def _take_plan(self, shares: TimeShares, live: Ints) -> None:
        if shares.plan is None or shares.rank is None:
            return
        self.plan = np.full((len(self.trace), shares.plan.shape[1]), -1, np.int64)
        self.plan[self.jobs] = np.where(shares.plan >= 0, live[shares.plan], -1)
        self.planned = 0
        self.rank[:] = -np.inf
        self.rank[self.jobs] = shares.rank

    def _problem(
        self, ledger: ShareAccounts, jobs: Ints, couples: Ints, live: Ints
    ) -> TimeShareProblem:
        """Return what these jobs are, as at the start of the trace: before anything was done."""
        trace, work = self.trace, self.work
        place = np.full(len(trace), -1, np.int64)
        place[self.jobs] = np.arange(len(self.jobs))
        memory = self.memory.rows(place[jobs])
        place[jobs] = np.arange(len(jobs))
        reference = np.flatnonzero(live == work.reference_type)
        return TimeShareProblem(
            t_s=0.0,
            round_s=ledger.round_s,
            job=jobs,
            gpus=trace.gpus[jobs],
            weight=np.maximum(trace.priority[jobs], 1).astype(np.float64),
            steps_left=work.steps[jobs],
            steps_total=work.steps[jobs],
            elapsed_s=np.zeros(len(jobs)),
            deadline_left_s=trace.submit_s[jobs] + trace.deadline_s[jobs],
            rate=work.rate[jobs][:, live],
            reference_type=int(reference[0]) if len(reference) else 0,
            pairs=place[np.stack([ledger.first[couples], ledger.second[couples]], axis=1)],
            pair_rate=ledger.rate[couples][:, live],
            capacity=np.ones(len(live)),
            price_per_gpu_h=self.price[live],
            draws=self.dice.random(2 * len(jobs) + 2),
            memory=memory,
        )
