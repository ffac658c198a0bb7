"""Shockwave (NSDI'23): plan the next rounds for progress, makespan and finish-time fairness.

Rounds of the window are alike, so the program decides only how many of them each job gets; they
are then laid out, most urgent first. The paper forecasts batch sizes that change while a job
trains; here a job's rate is what the throughput table says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from steward.decide.scheduling.time_shares.problem import PolicyNotes, TimeShareProblem, TimeShares

__all__ = ["Shockwave"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_KNOTS = np.array([1e-6, 0.2, 0.4, 0.6, 0.8, 1.0])  # of progress, where its logarithm is exact
_URGENT = 100.0  # exponent for an unfairly late job that one more round would finish
_MOST_URGENT = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Shockwave:
    """Maximise the mean log progress less `makespan_weight` times the longest time left.

    Every job shall end by `ratio_limit` times its smoothed fair finish. Where that is impossible,
    late jobs count by their ratio to the power of `boost` instead.
    """

    window_rounds: int = 20
    makespan_weight: float = 1e-3
    boost: float = 12.0
    ratio_limit: float = 1.0
    momentum: float = 0.9
    aware: ClassVar[bool] = True
    packed: ClassVar[bool] = False
    fills_idle: bool = True
    min_recompute_s: float = 0.0
    name: str = "shockwave"

    def decide(self, problem: TimeShareProblem) -> TimeShares:
        left_s = problem.steps_left / problem.rate.max(axis=1)
        waiting = max(1.0, len(problem) / float(problem.capacity.sum()))
        fair_s, memory = self._fair_end(problem, left_s, waiting)
        ratio = (problem.t_s + waiting * left_s) / fair_s
        rounds = self._kept_promises(problem, left_s, fair_s, waiting)
        if rounds is None:
            power = np.where(left_s < problem.round_s, _URGENT, self.boost)
            late = np.where(ratio > self.ratio_limit, power * np.log(np.maximum(ratio, 1.0)), 0.0)
            weight = np.exp(np.minimum(late, np.log(_MOST_URGENT)))
            rounds = self._solve(problem, left_s, np.zeros(len(problem)), weight)
        plan = _laid_out(problem, rounds, ratio, window=self.window_rounds)
        shares = np.stack([(plan == kind).mean(axis=1) for kind in range(len(problem.capacity))], 1)
        return TimeShares(
            jobs=shares,
            pairs=np.zeros((len(problem.pairs), len(problem.capacity))),
            memory=memory,
            plan=plan,
            rank=left_s,
        )

    def _fair_end(
        self, problem: TimeShareProblem, left_s: Floats, waiting: float
    ) -> tuple[Floats, PolicyNotes]:
        """Return when each job would end under equal shares: mostly the mean of all forecasts."""
        last = problem.memory
        total_s = left_s * problem.steps_total / problem.steps_left
        now_s = problem.t_s - problem.elapsed_s + waiting * total_s
        new = np.isnan(last.fair_end_s)
        first_s = np.where(new, problem.t_s, last.first_asked_s)
        held_s, all_s = problem.t_s - last.asked_s, problem.t_s - first_s
        part = np.where(all_s > 0.0, held_s / np.where(all_s > 0.0, all_s, 1.0), 1.0)
        mean_s = np.where(new, now_s, part * last.fair_end_s + (1.0 - part) * last.fair_mean_s)
        memory = replace(
            last,
            fair_end_s=now_s,
            fair_mean_s=mean_s,
            first_asked_s=first_s,
            asked_s=np.full(len(problem), problem.t_s),
        )
        return self.momentum * mean_s + (1.0 - self.momentum) * now_s, memory

    def _kept_promises(
        self, problem: TimeShareProblem, left_s: Floats, fair_s: Floats, waiting: float
    ) -> Ints | None:
        """Return rounds with which every job ends by its fair time; None: there are none such."""
        spare_s = self.ratio_limit * fair_s - problem.t_s - self.window_rounds * problem.round_s
        if (spare_s < 0.0).any():
            return None
        least = np.ceil((left_s - spare_s / waiting) / problem.round_s - 1e-9)
        least = np.maximum(least, 0.0)
        if (least > self.window_rounds).any() or least @ problem.gpus > self._room(problem):
            return None
        return self._solve(problem, left_s, least, np.ones(len(problem)))

    def _room(self, problem: TimeShareProblem) -> float:
        return float(problem.capacity.sum()) * self.window_rounds

    def _solve(
        self, problem: TimeShareProblem, left_s: Floats, least: Floats, weight: Floats
    ) -> Ints:
        """Maximise over rounds of each job, its log progress, and the longest time left."""
        jobs, round_s = len(problem), problem.round_s
        total_s = left_s * problem.steps_total / problem.steps_left
        done, per_round = 1.0 - left_s / total_s, round_s / total_s
        slope = np.diff(np.log(_KNOTS)) / np.diff(_KNOTS)
        base = np.log(_KNOTS[:-1]) - slope * _KNOTS[:-1]
        one, no = sparse.eye(jobs), sparse.csr_matrix((jobs, 1))
        rows = [sparse.hstack([sparse.diags(-k * per_round), one, no]) for k in slope]
        limits = [base_k + k * done for k, base_k in zip(slope, base, strict=True)]
        apart = sparse.csr_matrix((jobs, jobs))
        rows.append(sparse.hstack([-round_s * one, apart, -np.ones((jobs, 1))]))
        limits.append(-left_s)
        held = np.concatenate([problem.gpus, np.zeros(jobs + 1)])
        rows.append(sparse.csr_matrix(held))
        limits.append(np.array([self._room(problem)]))
        worth = weight / (jobs * self.window_rounds)
        most = np.minimum(np.ceil(left_s / round_s - 1e-9), self.window_rounds)
        found = milp(
            np.concatenate([np.zeros(jobs), -worth, [self.makespan_weight]]),
            constraints=LinearConstraint(sparse.vstack(rows).tocsc(), ub=np.concatenate(limits)),
            integrality=np.concatenate([np.ones(jobs), np.zeros(jobs + 1)]),
            bounds=Bounds(
                np.concatenate([least, np.full(jobs, -np.inf), [0.0]]),
                np.concatenate([most, np.zeros(jobs), [np.inf]]),
            ),
            options={"mip_rel_gap": 1e-3, "node_limit": 200},
        )
        # stopped without any answer: everybody waits for the GPUs that a plan leaves idle
        rounds = least if found.x is None else found.x[:jobs]
        return np.asarray(np.round(rounds), np.int64)


def _laid_out(problem: TimeShareProblem, rounds: Ints, ratio: Floats, *, window: int) -> Ints:
    """Put each job's rounds where its GPUs are free: highest ratio first, as early as possible.

    Jobs that need every round of the window come before all others: they have no choice.
    """
    plan = np.full((len(problem), window), -1, np.int64)
    free = np.repeat(problem.capacity[:, None], window, axis=1)
    for job in np.lexsort((-ratio, rounds < window)):
        for kind in np.argsort(-problem.rate[job], kind="stable"):
            missing = int(rounds[job] - (plan[job] >= 0).sum())
            able = problem.rate[job, kind] > 0.0
            room = (free[kind] >= problem.gpus[job] - 1e-9) & (plan[job] < 0) & able
            at = np.flatnonzero(room)[:missing]
            plan[job, at] = kind
            free[kind, at] -= problem.gpus[job]
    return plan
