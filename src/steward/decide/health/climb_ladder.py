"""Takes nodes with faults out of service where that is cheaper than waiting, and mends them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, isnan

import numpy as np

from steward.decide.health.ladder import (
    Belief,
    Need,
    Prices,
    Rung,
    Stakes,
    price,
    rung_names,
)
from steward.model.actions import OPERATORS, Action, Diagnose, Drain, Reboot, Reset, Tell
from steward.model.decision import Decision
from steward.model.faults import FaultCase, Remedy
from steward.model.finding import Finding
from steward.model.identity import DecisionId, GpuId, NodeId, TenantId, stable_id
from steward.model.view import RUNNING, ClusterView

__all__ = ["ClimbLadder"]

HOUR_S = 3600.0
DAY_S = 86_400.0
_TOGETHER = 3  # nodes that fail in one moment: the cause is in none of them
_HEALED = {Rung.RESET: Need.RESET, Rung.REBOOT: Need.REBOOT}
_OF = {"reset-gpu": Rung.RESET, "reboot-node": Rung.REBOOT}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """A node with a case, as it stands."""

    row: int
    id: NodeId
    gpus: tuple[GpuId, ...]
    case: FaultCase
    finding: Finding
    stakes: Stakes
    drained_s: float  # NaN: it is in service
    mended: Mapping[Rung, float]  # what was done since it was drained, and when


@dataclass(frozen=True, slots=True, kw_only=True)
class ClimbLadder:
    """Climbs the ladder of remedies for each node that had faults, each rung at its price.

    A drain lets jobs run to their end. Then the node is mended, tested, and brought back by
    `undrain-recovered` once its test has passed. `rungs` are the remedies that somebody can carry
    out here; what nobody did within `patience_s` is told to the operators. `checkpoint_every_s` is
    how often jobs save, `max_share` how much of the cluster may be out of service at once: steward
    then drains no further node for a fault, except that its part has to be replaced.
    """

    rungs: tuple[str, ...] = ("reset-gpu", "reboot-node")
    checkpoint_every_s: float = 3600.0
    start_s: float = 600.0  # that a job needs from its start to its first step
    reset_s: float = 720.0
    reboot_s: float = 1800.0
    test_s: float = 900.0
    replace_s: float = 259_200.0
    part_gpu_hours: float = 100.0
    test_finds_share: float = 0.8
    test_alarm_share: float = 0.01
    horizon_days: float = 30.0
    max_share: float = 0.1
    patience_s: float = 7200.0
    check_after_s: float = 3600.0
    name: str = "climb-ladder"
    _prices: Prices = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "_prices",
            Prices(
                reset_h=self.reset_s / HOUR_S,
                reboot_h=self.reboot_s / HOUR_S,
                test_h=self.test_s / HOUR_S,
                replace_h=self.replace_s / HOUR_S,
                part_gpu_h=self.part_gpu_hours,
                finds_share=self.test_finds_share,
                alarm_share=self.test_alarm_share,
                horizon_days=self.horizon_days,
            ),
        )

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what is next for each node with a case, worst first."""
        cases = [finding for finding in view.findings if finding.fault is not None]
        return tuple(self._decisions(view, cases)) if cases else ()

    def _decisions(self, view: ClusterView, cases: Sequence[Finding]) -> Iterator[Decision]:
        losses = _losses(view, every_s=self.checkpoint_every_s, start_s=self.start_s)
        out = int(view.nodes.draining.sum())
        room = max(1, int(self.max_share * len(view.nodes))) - out
        wanted: list[tuple[float, Decision]] = []
        for finding in cases:
            node = _node_of(finding, view, losses)
            if node is None:
                continue
            if not isnan(node.drained_s):
                yield from self._mend(node, view)
            elif not view.nodes.draining[node.row]:
                wanted += self._drain(node, view)
        wanted.sort(key=lambda each: (-each[0], each[1].id))
        yield from (decision for _, decision in wanted[: max(0, room)])

    # -- a node in service ---------------------------------------------------------------------

    def _drain(self, node: _Node, view: ClusterView) -> list[tuple[float, Decision]]:
        """Return the drain of a node with what it saves, if anything is cheaper than waiting."""
        if node.case.together >= _TOGETHER:
            return []
        belief = self._belief(node)
        costs = price(belief, node.stakes, self._prices, [Rung.LEAVE, *self._open(node)])
        best = min(costs, key=lambda rung: costs[rung])
        if best is Rung.LEAVE:
            return []
        why = _because(node, belief, costs, best, waiting=costs[Rung.LEAVE])
        action = Drain(node=node.id, gpus=node.gpus)
        saved = costs[Rung.LEAVE] - costs[best]
        return [(saved, self._decision(node, action, why, view, node.case.since_s))]

    # -- a node that steward drained -----------------------------------------------------------

    def _mend(self, node: _Node, view: ClusterView) -> Iterator[Decision]:
        """Yield what is next, once the last job has left."""
        if bool((view.gpus.users[view.gpus.node == node.row] > 0).any()):
            return
        swapped = node.case.swapped_s >= node.drained_s
        done = [*node.mended.values(), *((node.case.swapped_s,) if swapped else ())]
        last_s = max(done, default=node.drained_s)
        tested = node.case.tested_s >= max(last_s, node.case.last_s)
        if tested and node.case.is_proven:
            return  # `undrain-recovered` brings it back
        since_s = node.case.tested_s if tested else last_s
        if done and last_s >= node.case.last_s and not tested:
            yield from self._tell_if_late(node, view, last_s, "its test")
            why = f"{node.id} was mended, and comes back when a test finds it well"
            yield self._decision(node, _diagnose(node), why, view, since_s)
            return
        belief = self._belief(node)
        costs = price(belief, node.stakes, self._prices, self._open(node, tested=tested))
        best = min(costs, key=lambda rung: costs[rung])
        why = _because(node, belief, costs, best, waiting=None)
        if best is not Rung.REPLACE:
            yield from self._tell_if_late(node, view, since_s, rung_names[best])
        yield self._decision(node, _action(best, node, why), why, view, since_s)

    def _tell_if_late(
        self, node: _Node, view: ClusterView, since_s: float, what: str
    ) -> Iterator[Decision]:
        """Yield advice where nobody has done what is next."""
        if view.t_s - since_s >= self.patience_s:
            text = f"nobody has done what is next for {node.id}: {what}"
            action = Tell(to=OPERATORS, about=node.id, text=text)
            yield self._decision(node, action, text, view, since_s)

    def _open(self, node: _Node, *, tested: bool = False) -> list[Rung]:
        """Return the rungs that are left: none is tried twice."""
        known = (_OF[each] for each in self.rungs if each in _OF)
        hardest = max(node.mended, default=Rung.LEAVE)
        rungs = [each for each in known if each > hardest]
        if node.case.tests_bad <= 1 if tested else not node.mended:
            rungs.append(Rung.DIAGNOSE)  # one test may be wrong; two are not
        return [*rungs, Rung.REPLACE]

    def _belief(self, node: _Node) -> Belief:
        """Return how likely each need is, by the code, the history, and what was seen since."""
        case = node.case
        lemon = case.lemon_probability
        if case.together >= _TOGETHER:  # its network, or its power: not what the code says
            return self._tested(Belief.of(Remedy.WATCH, lemon_probability=lemon), case)
        belief = Belief.of(case.remedy, case.part, lemon_probability=lemon)
        if case.previous_s < case.last_s and case.remedy is not Remedy.WATCH:
            belief = _came_back(belief, Need.RESTART, case, case.previous_s)
        for rung, done_s in sorted(node.mended.items()):
            if case.last_s > done_s:
                belief = _came_back(belief, _HEALED[rung], case, done_s)
            belief = belief.healed(_HEALED[rung])
        return self._tested(belief, case)

    def _tested(self, belief: Belief, case: FaultCase) -> Belief:
        """Return the belief after the tests of a node."""
        found, alarm = self._prices.finds_share, self._prices.alarm_share
        bad, well = case.tests_bad, case.tests_well
        return belief.seen(
            Need.RESTART,
            if_more=found**bad * (1.0 - found) ** well,
            if_not=alarm**bad * (1.0 - alarm) ** well,
        )

    def _decision(
        self, node: _Node, action: Action, why: str, view: ClusterView, since_s: float
    ) -> Decision:
        return Decision(
            id=DecisionId(stable_id("d", self.name, node.id, action.type, since_s)),
            t_s=view.t_s,
            policy=self.name,
            action=action,
            because=why,
            findings=(node.finding.id,),
            check_after_s=self.check_after_s,
            tenant=TenantId(""),
            subject=node.finding.subject,
            trusted=node.finding.is_trusted,
        )


def _came_back(belief: Belief, heals: Need, case: FaultCase, done_s: float) -> Belief:
    """Return the belief after a fault that followed a remedy: it was too mild, or this is new."""
    chance = 1.0 - exp(-case.rate_per_day * max(0.0, case.last_s - done_s) / DAY_S)
    return belief.seen(heals, if_more=1.0, if_not=chance)


def _action(rung: Rung, node: _Node, why: str) -> Action:
    if rung is Rung.RESET:
        return Reset(gpus=node.gpus)
    if rung is Rung.REBOOT:
        return Reboot(node=node.id, gpus=node.gpus)
    if rung is Rung.DIAGNOSE:
        return _diagnose(node)
    devices = ", ".join(node.case.devices) or "its hardware"
    text = f"return {devices} of {node.id} to the vendor: {why}"
    return Tell(to=OPERATORS, about=node.id, text=text)


def _diagnose(node: _Node) -> Diagnose:
    return Diagnose(node=node.id, gpus=node.gpus)


def _because(
    node: _Node,
    belief: Belief,
    costs: Mapping[Rung, float],
    best: Rung,
    *,
    waiting: float | None,
) -> str:
    case = node.case
    against = f", waiting {waiting:,.0f}" if waiting is not None else ""
    share = belief.shares[Need.REPLACE]
    known = f"{case.known_faults} faults in {case.known_days:,.0f} days"
    return (
        f"{node.finding.title}; {rung_names[best]}: {costs[best]:,.0f} GPU-hours "
        f"expected{against}; {share:.0%} likely a bad part, {case.lemon_probability:.0%} a node "
        f"with more faults than others ({known})"
    )


def _node_of(finding: Finding, view: ClusterView, losses: _Losses) -> _Node | None:
    case = finding.fault
    row = view.node_row.get(NodeId(case.node)) if case is not None else None
    if case is None or row is None:
        return None
    own = np.flatnonzero(view.gpus.node == row).tolist()
    drained_s = float(view.nodes.drained_since_s[row]) if view.nodes.draining[row] else np.nan
    done = {Rung.RESET: view.nodes.reset_s[row], Rung.REBOOT: view.nodes.rebooted_s[row]}
    stakes = Stakes(
        gpus=max(1, len(own)),
        job_gpu_h=losses.of(row, len(own)),
        excess_per_day=case.excess_per_day,
    )
    return _Node(
        row=row,
        id=NodeId(case.node),
        gpus=tuple(view.gpu_id(each) for each in own),
        case=case,
        finding=finding,
        stakes=stakes,
        drained_s=drained_s,
        mended={rung: float(t_s) for rung, t_s in done.items() if t_s >= drained_s},
    )


@dataclass(frozen=True, slots=True)
class _Losses:
    """What a crash costs the jobs of each node, in GPU-hours; `usual` where none runs now."""

    by_node: Mapping[int, float]
    usual: float
    least: float  # of a GPU: an empty node gets a job at any time

    def of(self, row: int, gpus: int) -> float:
        return max(self.usual, self.by_node.get(row, 0.0), self.least * gpus)


def _losses(view: ClusterView, *, every_s: float, start_s: float) -> _Losses:
    """Return what crashes cost: half of what was done since a save, or since a start; and a start.

    What will run on a node later is taken to be like what runs now, by GPU.
    """
    jobs, held = view.jobs, view.allocations
    since_s = np.where(jobs.state == RUNNING, view.t_s - jobs.began_s, 0.0)
    lost_s = np.where(jobs.checkpointable, np.minimum(since_s, every_s / 2), since_s)
    restore_s = np.where(jobs.checkpointable, np.nan_to_num(jobs.restore_s), 0.0)
    each = (np.nan_to_num(lost_s) + restore_s + start_s) * jobs.gpus / HOUR_S
    by_gpu = each[held.job]
    usual = float(by_gpu.mean()) if len(by_gpu) else 0.0
    by_node: dict[int, float] = {}
    pairs = np.unique(np.stack([view.gpus.node[held.gpu], held.job]), axis=1)
    for node, job in pairs.T.tolist():
        by_node[node] = by_node.get(node, 0.0) + float(each[job])
    return _Losses(by_node, usual, (every_s / 2 + start_s) / HOUR_S)
