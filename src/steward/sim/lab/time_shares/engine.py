"""The loop: arrivals, shares, a round, completions; again until everything has ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.decide.scheduling.time_shares.problem import TimeSharePolicy
from steward.model.machines import Machines
from steward.model.replay import Replay
from steward.model.throughput import ThroughputTable
from steward.model.trace import Trace
from steward.sim.lab.time_shares.accounts import ShareAccounts
from steward.sim.lab.time_shares.arrivals import ArrivalQueue
from steward.sim.lab.time_shares.job_rates import JobRates, job_rates_of
from steward.sim.lab.time_shares.leases import Leases
from steward.sim.lab.time_shares.policy_calls import PolicyCalls
from steward.sim.lab.time_shares.rounds import choose, follow

__all__ = ["replay_time_shares"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def replay_time_shares(
    trace: Trace,
    machines: Machines,
    policy: TimeSharePolicy,
    *,
    throughputs: ThroughputTable | None = None,
    round_s: float = 360.0,
    seed: int = 0,
) -> Replay:
    """Run a trace under a time-share policy, in rounds.

    With a table, steps are the trace's durations times the rate on the table's reference type;
    without one, every GPU type runs at speed 1. Machines come and go between rounds. A job that
    goes on after a pause, or elsewhere, first spends its `checkpoint_s`, if the trace has one.
    """
    cpu_s = time.process_time()
    work = job_rates_of(trace, machines, throughputs)
    run = _Run(trace=trace, policy=policy, work=work, machines=machines, round_s=round_s, seed=seed)
    while run.turn():
        pass
    return run.result(cpu_s)


@dataclass(slots=True)
class _Run:
    """The state of one replay."""

    trace: Trace
    policy: TimeSharePolicy
    work: JobRates
    machines: Machines
    round_s: float
    seed: int
    now_s: float = 0.0
    stuck: bool = False  # nothing could run, although shares are fresh
    coming: ArrivalQueue = field(init=False)
    ledger: ShareAccounts = field(init=False)
    leases: Leases = field(init=False)
    asking: PolicyCalls = field(init=False)
    left: Floats = field(init=False)  # steps
    restore_s: Floats = field(init=False)
    owed_s: Floats = field(init=False)  # to restore what was saved
    lost_s: Floats = field(init=False)
    first_s: Floats = field(init=False)
    end_s: Floats = field(init=False)

    def __post_init__(self) -> None:
        jobs = len(self.trace)
        self.left = self.work.steps.copy()
        self.restore_s = np.nan_to_num(self.trace.checkpoint_s)
        self.owed_s, self.lost_s = np.zeros(jobs), np.zeros(jobs)
        self.first_s, self.end_s = np.full(jobs, np.nan), np.full(jobs, np.nan)
        self.leases = Leases(self.machines, self.trace.gpus)
        self.coming = ArrivalQueue(self.trace, self.machines, self.work)
        self.ledger = ShareAccounts(
            work=self.work,
            gpus=self.trace.gpus,
            round_s=self.round_s,
            packed=self.policy.packed,
        )
        self.asking = PolicyCalls(
            trace=self.trace,
            policy=self.policy,
            work=self.work,
            machines=self.machines,
            seed=self.seed,
        )
        self.now_s = self.coming.next_s()

    def turn(self) -> bool:
        """Run one round; return whether anything is left to do."""
        self._welcome()
        if self.asking.due(self.now_s):
            self.asking.ask(self.now_s, self.ledger, self.left, self.leases.capacity)
        units, types = self._chosen()
        if len(units):
            self.stuck = False
            self._work(units, types)
            return True
        if len(self.ledger.first) and not self.stuck:
            # jobs wait and GPUs are idle: there is no reason to keep to the old shares
            self.stuck = True
            self.asking.force()
            return True
        self.now_s = self.coming.next_s()
        return bool(np.isfinite(self.now_s))

    def _welcome(self) -> None:
        """Enter the jobs and machines that have come by now, and strike out machines that left."""
        changes = self.coming.machine_changes(self.now_s)
        for change in changes:
            self.leases.change(change.node, up=change.up)
        jobs, alone = self.coming.jobs(self.now_s)
        for job, start_s in alone:  # they need no GPU, so the policy is not called for them
            self.first_s[job] = start_s
            self.end_s[job] = start_s + self.trace.duration_s[job]
            self.leases.without_gpus(job, start_s, float(self.end_s[job]))
        if len(jobs):
            self.ledger.add(jobs)
        if changes or len(jobs):
            self.stuck = False
            self.asking.stale = True

    def _chosen(self) -> tuple[Ints, Ints]:
        """Return the units that run in the next round, and the type each of them holds."""
        plan = self.asking.next_planned(self.ledger)
        order = self.asking.type_order()
        capacity = self.leases.capacity
        if plan is not None:
            chosen = follow(
                self.ledger, order=order, capacity=capacity, planned=plan, rank=self.asking.rank
            )
        else:
            chosen = choose(
                self.ledger, order=order, capacity=capacity, fills_idle=self.policy.fills_idle
            )
        # who has no share yet is not run, even where it keeps GPUs free for itself
        units = np.flatnonzero((chosen >= 0) & self.ledger.shared)
        return units, chosen[units]

    def _work(self, units: Ints, types: Ints) -> None:
        """Run the chosen units until their lease or work ends; the round ends with the last."""
        ledger, begin_s = self.ledger, self.now_s
        first, second = ledger.first[units], ledger.second[units]
        pair = second >= 0
        jobs = np.concatenate([first, second[pair]])
        kinds = np.concatenate([types, types[pair]])
        partners = np.concatenate([np.where(pair, second, -1), first[pair]])
        rate = np.concatenate(
            [ledger.rate[units, types, 0], ledger.rate[units[pair], types[pair], 1]]
        )
        self._begin(jobs, kinds, partners)
        time_s, steps = self._lease_time(jobs, rate)
        # a pair's lease ends when both are through
        both_s = time_s[: len(units)].copy()
        both_s[pair] = np.maximum(both_s[pair], time_s[len(units) :])
        stop_s = begin_s + np.concatenate([both_s, both_s[pair]])
        self.left[jobs] -= steps
        self.leases.work(jobs, stop_s, steps / self.work.reference_rate[jobs])
        ledger.credit(units, types, stop_s[: len(units)] - begin_s)
        self.now_s = float(stop_s.max())
        self._end(jobs, stop_s)

    def _begin(self, jobs: Ints, kinds: Ints, partners: Ints) -> None:
        """Begin and extend leases; who comes back has its state to restore."""
        new = self.leases.begin_round(self.now_s, jobs, kinds, partners)
        seen = ~np.isnan(self.first_s[new])
        self.owed_s[new[seen]] = self.restore_s[new[seen]]
        self.first_s[new[~seen]] = self.now_s

    def _lease_time(self, jobs: Ints, rate: Floats) -> tuple[Floats, Floats]:
        """Return how long each job works in this round, and how many steps it makes."""
        paid_s = np.minimum(self.owed_s[jobs], self.round_s)
        self.owed_s[jobs] -= paid_s
        self.lost_s[jobs] += paid_s
        steps = rate * (self.round_s - paid_s)
        if self.work.whole_steps:
            # a step that takes longer than a round is finished in one, or it never would be
            steps = np.maximum(np.floor(steps), np.where(paid_s > 0.0, 0.0, 1.0))
        steps = np.minimum(steps, self.left[jobs])
        return paid_s + steps / rate, steps

    def _end(self, jobs: Ints, stop_s: Floats) -> None:
        """Remove jobs whose work is done."""
        done = self.left[jobs] <= 1e-9
        if not done.any():
            return
        ended = jobs[done]
        self.end_s[ended] = stop_s[done]
        for job, at_s in zip(ended, stop_s[done], strict=True):
            self.leases.end(int(job))
            self.coming.ended(int(job), float(at_s))
        self.ledger.remove(ended)
        self.asking.stale = True

    def result(self, cpu_s: float) -> Replay:
        """Write down what happened."""
        return Replay(
            policy=self.policy.name,
            trace=self.trace,
            machines=self.machines,
            quota=np.zeros(len(self.trace.tenants)),
            start_s=self.first_s,
            end_s=self.end_s,
            preemptions=self.leases.preemptions,
            lost_s=self.lost_s,
            segments=self.leases.segments(),
            cpu_s=time.process_time() - cpu_s,
            decisions=self.asking.decisions,
            notes=(*self.work.notes, *self.coming.notes()),
        )
