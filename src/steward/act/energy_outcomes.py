"""Measures power caps: energy per step before and after, times the steps that were done since."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

import numpy as np

from steward.model.actions import CapPower
from steward.model.decision import Decision, Receipt
from steward.model.identity import DecisionId, JobId
from steward.model.outcome import Change, Interval, Outcome, Story
from steward.model.view import RUNNING, ClusterView
from steward.model.yardstick import ENERGY

__all__ = ["EnergyOutcomes"]

MOST_READINGS = 400  # of one job; older ones are dropped
BLOCKS = 6  # into which a stretch is cut to tell how much it varies
EXPR = "energy per step in joules"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    t_s: float
    limit_watts: float
    step: float
    joules: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    decision: Decision
    action: CapPower
    from_s: float
    before: Interval | None  # joules per step; None is unknown


class EnergyOutcomes:
    """Keeps counters of jobs that may be slowed, and compares stretches under one limit each."""

    def __init__(self) -> None:
        self._cases: dict[DecisionId, _Case] = {}
        self._readings: dict[JobId, deque[_Reading]] = {}

    def begin(self, decision: Decision, receipt: Receipt, view: ClusterView | None) -> None:
        """Follow a cap that was just carried out; what was before is known now or never."""
        action = decision.action
        if not isinstance(action, CapPower) or decision.id in self._cases:
            return
        known = self._readings.get(action.job, ()) if view is not None else ()
        before = _per_step([x for x in known if abs(x.limit_watts - action.before_watts) < 1.0])
        self._cases[decision.id] = _Case(
            decision=decision, action=action, from_s=receipt.t_s, before=before
        )

    def resume(self, story: Story) -> None:
        """Go on with a cap of an earlier run; what was before it is not known any more."""
        done = [each for each in story.receipts if each.result == "done"]
        if done and not story.outcomes:
            self.begin(story.decision, done[-1], None)

    def follow(self, view: ClusterView) -> list[tuple[Decision, Outcome]]:
        """Take in one moment; return the outcomes that are due: at the check, or earlier.

        A cap that another one replaces, or whose job ends, is measured up to then.
        """
        self._read(view)
        running = view.details
        found = []
        for case in list(self._cases.values()):
            newer = any(
                other.action.job == case.action.job and other.from_s > case.from_s
                for other in self._cases.values()
            )
            due = view.t_s >= case.from_s + case.decision.check_after_s
            if due or newer or case.action.job not in running:
                del self._cases[case.decision.id]
                found.append((case.decision, self._outcome(case, view.t_s)))
        open_ = {case.action.job for case in self._cases.values()}
        for job in [each for each in self._readings if each not in running and each not in open_]:
            del self._readings[job]
        return found

    def forget(self, decision: DecisionId) -> None:
        """Stop following a decision that failed after all."""
        self._cases.pop(decision, None)

    def so_far(self, _: ClusterView) -> tuple[Outcome, ...]:
        """Return nothing: a cap is known only at its check."""
        return ()

    def settle(self, view: ClusterView) -> list[Outcome]:
        """Return what all open caps have brought: they are taken back when steward stops."""
        cases, self._cases = list(self._cases.values()), {}
        return [self._outcome(case, view.t_s) for case in cases]

    def _read(self, view: ClusterView) -> None:
        jobs, gpus = view.jobs, view.gpus
        wanted = (jobs.state == RUNNING) & (jobs.max_slowdown_share > 0)
        for row in np.flatnonzero(wanted & ~np.isnan(jobs.step_count)):
            rows = view.allocations.gpu[view.allocations.job == row]
            limits = gpus.power_limit_watts[rows]
            if len(rows) and bool(np.ptp(limits) < 1.0):
                kept = self._readings.setdefault(view.job_id(int(row)), deque(maxlen=MOST_READINGS))
                kept.append(
                    _Reading(
                        t_s=view.t_s,
                        limit_watts=float(limits.min()),
                        step=float(jobs.step_count[row]),
                        joules=float(gpus.drawn_joules[rows].sum()),
                    )
                )

    def _outcome(self, case: _Case, t_s: float) -> Outcome:
        known = [
            each
            for each in self._readings.get(case.action.job, ())
            if each.t_s > case.from_s and abs(each.limit_watts - case.action.watts) < 1.0
        ]
        before, after = case.before, _per_step(known)
        steps = known[-1].step - known[0].step if known else 0.0
        by = None if before is None or after is None else _difference(before, after)
        gained = Interval(low=0.0, mid=0.0, high=0.0)
        text = "unknown what it saved: too few steps were counted before or after it"
        if by is not None and before is not None and after is not None:
            gained = Interval(low=-by.high * steps, mid=-by.mid * steps, high=-by.low * steps)
            text = (
                f"a step took {before.mid:.4g} J at {case.action.before_watts:.0f} W and takes "
                f"{after.mid:.4g} J at {case.action.watts:.0f} W; {steps:.0f} steps since"
            )
        lowers = case.action.watts < case.action.before_watts
        return Outcome(
            decision=case.decision.id,
            t_s=t_s,
            from_s=case.from_s,
            to_s=max(case.from_s, t_s),
            gained=gained,
            # what could not be measured, and a cap that is taken back, promised nothing
            expected=max(case.decision.expects.mid, 0.0) if by is not None else 0.0,
            due_s=t_s,
            final=True,
            text=text,
            yardstick=ENERGY,
            effect=Change(
                expr=EXPR,
                before=before,
                after=after,
                by=by,
                met=None if by is None else by.mid < 0 or not lowers,
                worse=by is not None and by.low > 0 and lowers,
            ),
        )


def _per_step(readings: list[_Reading]) -> Interval | None:
    """Return joules per step, with how much blocks of the stretch differ; None if too short."""
    if len(readings) <= BLOCKS:
        return None
    cuts = [readings[at] for at in np.linspace(0, len(readings) - 1, BLOCKS + 1).astype(int)]
    costs = [
        (b.joules - a.joules) / (b.step - a.step)
        for a, b in pairwise(cuts)
        if b.step > a.step and b.joules > a.joules
    ]
    if len(costs) < BLOCKS:
        return None
    first, last = readings[0], readings[-1]
    mid = (last.joules - first.joules) / (last.step - first.step)
    half = 2.57 * float(np.std(costs, ddof=1)) / sqrt(BLOCKS)  # 95 % with five degrees of freedom
    return Interval(low=mid - half, mid=mid, high=mid + half)


def _difference(before: Interval, after: Interval) -> Interval:
    mid = after.mid - before.mid
    half = float(np.hypot(after.high - after.mid, before.high - before.mid))
    return Interval(low=mid - half, mid=mid, high=mid + half)
