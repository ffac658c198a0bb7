"""The fleet: events in the order of their time, hidden states, logs, and the jobs that run."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import exp

import numpy as np

from steward.model.event import LogLine
from steward.sim.health.orders import FleetPolicy, Order, OrderKind
from steward.sim.health.plan import FAULTS, FleetPlan
from steward.sim.health.work import Running, WorkQueue

__all__ = ["START_S", "Fleet", "FleetResult", "NodeTruth", "run_fleet"]

START_S = 1_700_000_000.0
HOUR_S, DAY_S = 3600.0, 86_400.0
LOOK_S = 10.0  # from a line to the turn that reads it
SCHEDULE_S = 30.0  # from news to new starts
UPKEEP_S = 6 * HOUR_S
NOTHING, RESET, REBOOT, REPLACE = range(4)
_HEALS = {OrderKind.RESET: RESET, OrderKind.REBOOT: REBOOT, OrderKind.REPLACE: REPLACE}


@dataclass(slots=True, kw_only=True)
class NodeTruth:
    """A node as it is. `level` is what it needs; policies see none of it."""

    row: int
    name: str
    rng: np.random.Generator
    lemon_rate: float = 0.0
    born_s: float = 0.0
    level: int = NOTHING
    form: int = 0  # of its last fault
    drained: bool = False
    busy_until_s: float = 0.0  # reset, restarted, tested, replaced, or without its network
    running: Running | None = None
    part: int = 0  # how often it was replaced
    relapse: int = 0  # which of its planned relapses counts


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetResult:
    """What a fleet did under a policy. Shares are of all GPU-hours."""

    goodput: float
    away: float  # of GPU-hours: drained, mended, tested, replaced
    crashes: int  # jobs that lost work
    lost_gpu_h: float
    drains: int
    false_drains: int  # of nodes that needed nothing and are no lemons
    replaced: int
    false_replaced: int
    lemons: int
    lemons_out: int  # replaced by the end


@dataclass(slots=True)
class _Counts:
    crashes: int = 0
    lost_h: float = 0.0
    useful_h: float = 0.0
    away_h: float = 0.0
    drains: int = 0
    false_drains: int = 0
    replaced: int = 0
    false_replaced: int = 0
    lemons_out: int = 0


@dataclass(slots=True)
class Fleet:
    """All nodes and jobs of one run."""

    plan: FleetPlan
    seed: int
    t_s: float = START_S
    nodes: list[NodeTruth] = field(default_factory=list)
    work: WorkQueue = field(init=False)
    counts: _Counts = field(default_factory=_Counts)
    lines: list[LogLine] = field(default_factory=list)
    changed: set[int] = field(default_factory=set)  # nodes whose state the policy should look at
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _sequence: int = 0
    _needs: list[tuple[float, ...]] = field(default_factory=list)
    _turn_at_s: float = float("inf")
    _schedule_at_s: float = float("inf")
    _drained_s: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan, rng = self.plan, np.random.default_rng([self.seed, 0])
        self._needs = plan.needs(rng)
        self.work = WorkQueue(plan, np.random.default_rng([self.seed, 1]))
        lemons = rng.random(plan.nodes) < plan.lemon_share
        young = rng.random(plan.nodes) < plan.young_share
        rates = rng.uniform(*plan.lemon_rate, plan.nodes)
        for row in range(plan.nodes):
            node = NodeTruth(
                row=row,
                name=f"n{row:03d}",
                rng=np.random.default_rng([self.seed, 2, row]),
                lemon_rate=float(rates[row]) if lemons[row] else 0.0,
                born_s=START_S if young[row] else START_S - 400 * DAY_S,
            )
            self.nodes.append(node)
            self._plan_faults(node)
            self._plan_noise(node)
        self._plan_outages(np.random.default_rng([self.seed, 3]))
        self._schedule_at_s = START_S

    # -- what is planned -----------------------------------------------------------------------

    def at(self, t_s: float, do: Callable[[], None]) -> None:
        """Do something at a time; of two at one time, the one that was planned first."""
        self._sequence += 1
        heapq.heappush(self._events, (t_s, self._sequence, do))

    def _plan_faults(self, node: NodeTruth) -> None:
        """Draw all moments at which a node may fail: those of its part, and a lemon's more."""
        plan = self.plan
        most = plan.fault_rate * (1.0 + plan.young_excess)
        for t_s in _moments(node.rng, most, plan.days):
            chance, kind, need = node.rng.random(3).tolist()
            self.at(t_s, partial(self._maybe_fault, node, chance, kind, need))
        if node.lemon_rate:
            rng = np.random.default_rng([self.seed, 4, node.row])
            for t_s in _moments(rng, node.lemon_rate, plan.days):
                kind, need = rng.random(2).tolist()
                self.at(t_s, partial(self._lemon_fault, node, kind, need))

    def _plan_noise(self, node: NodeTruth) -> None:
        rng = np.random.default_rng([self.seed, 5, node.row])
        for t_s in _moments(rng, self.plan.program_rate, self.plan.days):
            code = int(rng.choice([31, 13, 43, 45], p=[0.5, 0.2, 0.15, 0.15]))
            self.at(t_s, partial(self._write_program, node, code))
        for t_s in _moments(rng, self.plan.storm_rate, self.plan.days):
            for k in range(36):
                self.at(t_s + 300.0 * k, partial(self._write_program, node, 45))

    def _plan_outages(self, rng: np.random.Generator) -> None:
        plan = self.plan
        for first in range(0, plan.nodes, plan.rack):
            rack = self.nodes[first : first + plan.rack]
            for t_s in _moments(rng, plan.outage_rate, plan.days):
                for node in rack:
                    late_s = float(rng.uniform(0.0, 40.0))
                    self.at(t_s + late_s, partial(self._outage, node))

    # -- what goes wrong -----------------------------------------------------------------------

    def _maybe_fault(self, node: NodeTruth, chance: float, kind: float, need: float) -> None:
        plan = self.plan
        age_days = (self.t_s - node.born_s) / DAY_S
        young = plan.young_excess * exp(-age_days / plan.young_days)
        if chance <= (1.0 + young) / (1.0 + plan.young_excess):
            self._fault(node, kind, need)

    def _lemon_fault(self, node: NodeTruth, kind: float, need: float) -> None:
        if node.lemon_rate:  # it was not replaced yet
            self._fault(node, kind, need * 0.9)  # a new part seldom helps at once: it comes back

    def _fault(self, node: NodeTruth, kind: float, need: float) -> None:
        """Let a node fail that is in service and well; one that is wedged already says no more."""
        if node.drained or node.busy_until_s > self.t_s or node.level > NOTHING:
            return
        weights = np.cumsum([each.weight for each in FAULTS])
        node.form = int(np.searchsorted(weights, kind * weights[-1]))
        node.level = int(np.searchsorted(np.cumsum(self._needs[node.form]), min(need, 0.999999)))
        node.level = min(node.level, REPLACE)
        self._show(node)

    def _show(self, node: NodeTruth) -> None:
        """Write the lines of a node's fault, and end its job."""
        self._name_part(node)
        for k, text in enumerate(FAULTS[node.form].lines):
            self.write(
                node, f"NVRM: Xid (PCI:0000:{16 + node.form:02x}:00): {text}", after_s=0.1 * k
            )
        self._crash(node)
        self._plan_relapse(node)

    def _plan_relapse(self, node: NodeTruth) -> None:
        """Plan when a node that was not healed fails the next job that it is given."""
        if node.level == NOTHING:
            return
        node.relapse += 1
        mean_h = self.plan.relapse_h[node.level == REPLACE]
        number, wait_s = node.relapse, float(node.rng.exponential(mean_h)) * HOUR_S

        def relapse() -> None:
            if node.relapse != number or node.level == NOTHING:
                return
            if node.running is None or node.drained:
                self.at(self.t_s + max(wait_s, 60.0), relapse)  # nothing runs there: later
                return
            self._show(node)

        self.at(self.t_s + max(wait_s, 60.0), relapse)

    def _outage(self, node: NodeTruth) -> None:
        if node.busy_until_s > self.t_s:
            return
        self.write(node, f"NVRM: Xid (PCI:0000:1a:00): {FAULTS[6].lines[0]}")
        self._crash(node)
        if not node.drained:
            self._occupy(node, self.plan.outage_h * HOUR_S)

    def _write_program(self, node: NodeTruth, code: int) -> None:
        if node.running is not None:
            self.write(
                node, f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=4711, name=python, Ch 00000010"
            )

    def _name_part(self, node: NodeTruth) -> None:
        """Write which GPU is at the place of the last fault, as the driver does."""
        name = f"GPU-{node.row:08d}-{node.part:04d}"
        self.write(node, f"NVRM: GPU at PCI:0000:{16 + node.form:02x}:00: {name}")

    def _crash(self, node: NodeTruth) -> None:
        """End the job of a node: all of its nodes tear it down, and say so."""
        job = node.running
        if job is None:
            return
        for row in job.rows:
            other = self.nodes[row]
            other.running = None
            self.changed.add(row)
            self.write(
                other, "NVRM: Xid (PCI:0000:3b:00): 45, pid=4711, name=python, Ch 8", after_s=1.0
            )
        kept_h = self.work.crash(job, self.t_s)
        self.counts.crashes += 1
        self.counts.useful_h += kept_h
        self.counts.lost_h += (self.t_s - job.began_s) / HOUR_S * len(job.rows) - kept_h
        self._schedule_soon()

    def write(self, node: NodeTruth, text: str, *, after_s: float = 0.0) -> None:
        """Write a line of the kernel."""
        self.lines.append(
            LogLine(t_s=self.t_s + after_s, entity=node.name, source="kernel", text=text, level=3)
        )
        self.look_soon()

    # -- what is done --------------------------------------------------------------------------

    def carry_out(self, order: Order) -> None:
        """Do what a policy orders."""
        node, plan = self.nodes[order.node], self.plan
        match order.kind:
            case OrderKind.DRAIN:
                self._drain(node)
            case OrderKind.UNDRAIN:
                self._undrain(node)
            case OrderKind.RESET:
                self._mend(node, RESET, plan.reset_h)
            case OrderKind.REBOOT:
                self._mend(node, REBOOT, plan.reboot_h)
            case OrderKind.TEST:
                self._occupy(node, plan.test_h * HOUR_S, self._tested)
            case OrderKind.REPLACE:
                self._replace(node)

    def _drain(self, node: NodeTruth) -> None:
        if node.drained:
            return
        node.drained = True
        self._drained_s[node.row] = self.t_s
        self.counts.drains += 1
        self.counts.false_drains += node.level == NOTHING and not node.lemon_rate
        self.changed.add(node.row)

    def _undrain(self, node: NodeTruth) -> None:
        node.drained = False
        self.counts.away_h += (self.t_s - self._drained_s.pop(node.row, self.t_s)) / HOUR_S
        self.changed.add(node.row)
        self._schedule_soon()

    def _mend(self, node: NodeTruth, heals: int, hours: float) -> None:
        if node.running is not None:
            self._crash(node)

        def done(node: NodeTruth) -> None:
            if node.level <= heals:
                node.level = NOTHING
                node.relapse += 1

        self._occupy(node, hours * HOUR_S, done)

    def _replace(self, node: NodeTruth) -> None:
        if node.running is not None:
            self._crash(node)
        self.counts.replaced += 1
        self.counts.false_replaced += node.level != REPLACE and not node.lemon_rate
        self.counts.lemons_out += bool(node.lemon_rate)

        def done(node: NodeTruth) -> None:
            node.level, node.lemon_rate, node.born_s = NOTHING, 0.0, self.t_s
            node.part += 1
            node.relapse += 1
            self._name_part(node)

        self._occupy(node, self.plan.replace_h * HOUR_S, done)

    def _tested(self, node: NodeTruth) -> None:
        plan = self.plan
        if node.level > NOTHING:
            chance = plan.finds_share
        else:
            chance = plan.finds_lemon_share if node.lemon_rate else plan.alarm_share
        verdict = "bad" if node.rng.random() < chance else "well"
        self.write(node, f"steward-diagnose: {verdict} node={node.name}")

    def _occupy(
        self, node: NodeTruth, for_s: float, done: Callable[[NodeTruth], None] | None = None
    ) -> None:
        """Keep jobs from a node for a while, then let `done` happen."""
        until_s = max(node.busy_until_s, self.t_s) + for_s
        node.busy_until_s = until_s

        def over() -> None:
            if done is not None:
                done(node)
            self.changed.add(node.row)
            self.look_soon(0.0)
            self._schedule_soon()

        self.at(until_s, over)

    # -- turns ---------------------------------------------------------------------------------

    def look_soon(self, after_s: float = LOOK_S) -> None:
        """Let the policy look, soon after there is news."""
        self._turn_at_s = min(self._turn_at_s, self.t_s + after_s)

    def _schedule_soon(self) -> None:
        self._schedule_at_s = min(self._schedule_at_s, self.t_s + SCHEDULE_S)

    def run(self, policy: FleetPolicy) -> FleetResult:
        """Run to the end under a policy."""
        end_s = START_S + self.plan.days * DAY_S
        upkeep_s = START_S
        while True:
            event_s = self._events[0][0] if self._events else end_s
            t_s = min(event_s, self._turn_at_s, self._schedule_at_s, upkeep_s)
            if t_s >= end_s:
                break
            self.t_s = t_s
            if t_s == event_s and self._events:
                heapq.heappop(self._events)[2]()
            elif t_s == self._schedule_at_s:
                self._schedule()
            else:
                upkeep_s = t_s + UPKEEP_S if t_s == upkeep_s else upkeep_s
                self._turn_at_s = float("inf")
                self._turn(policy)
        self.t_s = end_s
        return self._result()

    def _turn(self, policy: FleetPolicy) -> None:
        lines, self.lines = self.lines, []
        later = [each for each in lines if each.t_s > self.t_s]
        self.lines += later
        for order in policy.react(self, [each for each in lines if each.t_s <= self.t_s], self.t_s):
            self.carry_out(order)
            self.look_soon()

    def _schedule(self) -> None:
        self._schedule_at_s = float("inf")
        free = [
            node.row
            for node in self.nodes
            if node.running is None and not node.drained and node.busy_until_s <= self.t_s
        ]
        for job in self.work.start(free, self.t_s):
            for row in job.rows:
                self.nodes[row].running = job
                self.changed.add(row)
            self.at(job.end_s, partial(self._end, job))

    def _end(self, job: Running) -> None:
        if self.nodes[job.rows[0]].running is not job:
            return  # it crashed before
        self.counts.useful_h += self.work.end(job)
        for row in job.rows:
            self.nodes[row].running = None
            self.changed.add(row)
        self._schedule_soon()

    def running(self) -> Iterator[Running]:
        """Yield the jobs that run."""
        seen: set[int] = set()
        for node in self.nodes:
            if node.running is not None and node.running.number not in seen:
                seen.add(node.running.number)
                yield node.running

    def _result(self) -> FleetResult:
        plan, counts = self.plan, self.counts
        total = plan.nodes * plan.days * 24.0
        useful = counts.useful_h + sum(
            self.work.useful_h(each, self.t_s) for each in self.running()
        )
        away = counts.away_h + sum((self.t_s - s) / HOUR_S for s in self._drained_s.values())
        lemons = np.random.default_rng([self.seed, 0])
        plan.needs(lemons)
        return FleetResult(
            goodput=useful / total,
            away=away / total,
            crashes=counts.crashes,
            lost_gpu_h=counts.lost_h * plan.gpus,
            drains=counts.drains,
            false_drains=counts.false_drains,
            replaced=counts.replaced,
            false_replaced=counts.false_replaced,
            lemons=int((lemons.random(plan.nodes) < plan.lemon_share).sum()),
            lemons_out=counts.lemons_out,
        )


def run_fleet(plan: FleetPlan, policy: FleetPolicy, *, seed: int) -> FleetResult:
    """Run one fleet under one policy."""
    return Fleet(plan, seed).run(policy)


def _moments(rng: np.random.Generator, per_day: float, days: float) -> list[float]:
    """Draw the moments of a Poisson process."""
    count = int(rng.poisson(per_day * days)) if per_day > 0 else 0
    return sorted((START_S + rng.random(count) * days * DAY_S).tolist())
