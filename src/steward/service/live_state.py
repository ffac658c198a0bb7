"""State that every request and page reads: one snapshot per turn, made once, shared by all.

It only reads. Choices of people are written to the journal, where the loop reads them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from steward.config.carbon import site_carbon
from steward.config.settings import Settings
from steward.errors import StewardError
from steward.learn.rules import RuleTally
from steward.loop import Loop, LoopStatus
from steward.model.cluster_snapshot import ClusterSnapshot, GpuState, cluster_snapshot
from steward.model.decision import Choice, DecisionState, StandingApproval
from steward.model.finding import Finding, Opinion, Pattern
from steward.model.frame import Frame
from steward.model.identity import DecisionId, FindingId
from steward.model.outcome import Savings, Story
from steward.model.savings_ledger import KindAccount, Projection
from steward.model.site import SiteHealth
from steward.model.view import ClusterView
from steward.observe.intake import AgentRegistry
from steward.service.authentication import User
from steward.service.failures import RefusedError
from steward.service.rulebook import RuleFiles, RuleRow, rule_rows
from steward.service.serving_state import ServingState
from steward.service.sparklines import Sparklines, samples_around
from steward.service.telemetry import LatestValues
from steward.store.choices import (
    ApprovalRequest,
    ChoiceName,
    approve_in_advance,
    possible_choices,
    record_choice,
    revoke,
    standing_approvals,
)
from steward.store.explain import DecisionExplanation, FindingStory, explain, story_of_finding
from steward.store.journal_summary import CurvePoint, DownsampledCurve, JournalSummary, TrackedStory
from steward.store.opinions import OpinionName, record_opinion

__all__ = ["GpuUsage", "LiveState", "StateSnapshot"]


SILENT_AFTER_S = 30.0
MOST_SERIES, SAMPLES = 8, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUsage:
    """What the GPUs were used for at one time."""

    t_s: float
    states: Mapping[GpuState, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSnapshot:
    """All there is to show. A larger `version` is newer."""

    version: int
    cluster: ClusterSnapshot
    status: LoopStatus
    faults: int  # since the service started
    patterns: tuple[Pattern, ...]
    findings: tuple[Finding, ...]  # newest first
    open_findings: frozenset[FindingId]  # those that hold at this moment
    stories: tuple[TrackedStory, ...]  # newest first
    states: Mapping[DecisionState, int]
    savings: Savings
    stop_cost_gpu_hours: float  # what stopping jobs for others cost; not taken off the savings
    curve: tuple[CurvePoint, ...]
    carried_out: Mapping[str, int]  # decisions by type of action
    lent_gpus: int  # of all loans so far
    last_seen: Mapping[FindingId, float]  # when each of `findings` last matched
    truth: float | None  # the simulator's own GPU-hours
    truth_curve: tuple[CurvePoint, ...]
    history: tuple[GpuUsage, ...]  # oldest first
    approvals: tuple[tuple[StandingApproval, int], ...] = ()  # in force, with GPUs left of each
    rules: tuple[RuleRow, ...] = ()
    kinds: tuple[KindAccount, ...] = ()  # what each kind of decision saved
    projection: Projection | None = None
    changed_rules: tuple[str, ...] = ()  # files that are not as they were when steward began


class LiveState:
    """Reads the loop and the journal, and keeps the newest snapshot."""

    def __init__(
        self,
        loop: Loop[ClusterView],
        settings: Settings,
        *,
        truth: Callable[[], float] | None = None,
        speed: float = 1.0,
        alive: Callable[[], bool] = lambda: True,
        sites: Callable[[], Sequence[SiteHealth]] = tuple,
    ) -> None:
        self.loop = loop
        self.settings = settings
        self.simulated = truth is not None
        self.speed = speed
        self.alive = alive
        self.sites = sites  # others that this steward started, for pages and `status`
        self.closing = threading.Event()
        self.sparklines = Sparklines(loop.telemetry)
        self.roster = AgentRegistry()
        self.serving = ServingState.of(settings.serving)
        self.latest = LatestValues(loop, stale_after_s=settings.observe.stale_after_s)
        self._truth = truth
        self._truth_curve: DownsampledCurve[CurvePoint] = DownsampledCurve()
        self._history: DownsampledCurve[GpuUsage] = DownsampledCurve(160)
        self._rule_files = RuleFiles(settings)
        self._rule_book = RuleTally()
        self._summary = JournalSummary(
            loop.journal,
            settings.savings.assumptions,
            on_value=self._rule_book.add,
            carbon=site_carbon(settings),
        )
        self._lock = threading.Lock()
        self._turned_s = time.monotonic()
        self._faults = 0
        self.snapshot = self._draw(loop.status, version=0)

    def refresh(self) -> StateSnapshot:
        """Return the snapshot as of now; cheap when nothing happened since the last time."""
        with self._lock:
            news = self._summary.catch_up()
            status = self.loop.status
            before = self.snapshot
            if status.turns != before.status.turns:
                self._turned_s = time.monotonic()
                self._faults += _new_faults(before.status, status)
            if news or status is not before.status:
                self.snapshot = self._draw(status, version=before.version + 1)
            return self.snapshot

    def story(self, decision: DecisionId) -> Story:
        """Return a decision with all that came of it; 404 when there is none of that id."""
        journal = self.loop.journal
        for _, story in journal.stories(ids=(decision,), limit=1):
            return story
        try:
            return journal.story(decision)  # its error names similar ids
        except StewardError as fault:
            raise RefusedError(404, fault.problem, where="journal", hint=fault.hint) from fault

    def explain(self, decision: DecisionId) -> DecisionExplanation:
        """Go back from a decision to its samples."""
        self.story(decision)
        return explain(self.loop.journal, self.loop.telemetry, decision)

    def samples(self, found: DecisionExplanation) -> dict[str, dict[str, Frame]]:
        """Return what a decision's evidence did before and after, by metric and entity."""
        decision = found.story.decision
        until_s = decision.t_s + decision.check_after_s
        series: dict[str, dict[str, Frame]] = {}
        for piece in (piece for finding in found.findings for piece in finding.evidence):
            of_metric = series.setdefault(piece.metric, {})
            if piece.entity not in of_metric and len(of_metric) < MOST_SERIES:
                of_metric[piece.entity] = samples_around(
                    self.loop.telemetry, piece, points=SAMPLES, until_s=until_s
                )
        return series

    def choose(
        self, decision: DecisionId, choice: ChoiceName, *, user: User, note: str = ""
    ) -> Choice:
        """Record a choice. Raise for viewers, and for a choice that is not possible now."""
        _check_may_decide(user, f"{choice} decisions", where=f"decision {decision}")
        self.story(decision)
        t_s = self.loop.view.t_s
        try:
            return record_choice(
                self.loop.journal, decision, choice, user=user.name, t_s=t_s, note=note
            )
        except StewardError as fault:
            if choice in possible_choices(self.story(decision)):
                raise  # it is possible, so the journal could not be written
            raise RefusedError(409, fault.problem, where=fault.where, hint=fault.hint) from fault

    def answer_before_s(self, story: Story) -> float | None:
        """Return when a request for approval expires; None if it does not wait for approval."""
        if story.state is not DecisionState.WAITING:
            return None
        desk = self.loop.stages.desk
        proposed_s = desk.proposed_s(story.decision.id)
        if proposed_s is None:
            return None
        return proposed_s + desk.guard.limits.answer_within_s

    def real_s(self, t_s: float) -> float:
        """Return the seconds from now until `t_s` as people live them, in a demo as well."""
        return max(0.0, t_s - self.loop.view.t_s) / self.speed

    def standing_approvals(self) -> list[StandingApproval]:
        """Return the standing approvals in force, newest first."""
        return standing_approvals(self.loop.journal, self.loop.view.t_s)

    def approve_in_advance(self, asked: ApprovalRequest, *, user: User) -> StandingApproval:
        """Approve one tenant's actions of one type in advance. Refuses viewers."""
        _check_may_decide(user, "approve decisions in advance", where="standing approval")
        view = self.loop.view
        try:
            asked.check([str(each) for each in view.tenants.ids])
        except StewardError as fault:
            raise RefusedError(422, fault.problem, where=fault.where, hint=fault.hint) from fault
        return approve_in_advance(
            self.loop.journal, asked, user=user.name, t_s=view.t_s, speed=self.speed
        )

    def revoke(self, approval: str, *, user: User) -> StandingApproval:
        """Revoke a standing approval; 404 when none of that id is in force. Refuses viewers."""
        where = f"standing approval {approval}"
        _check_may_decide(user, "revoke standing approvals", where=where)
        try:
            return revoke(self.loop.journal, approval, user=user.name, t_s=self.loop.view.t_s)
        except StewardError as fault:
            if approval in {each.id for each in self.standing_approvals()}:
                raise  # it is in force, so it could not be written
            raise RefusedError(404, fault.problem, where=where, hint=fault.hint) from fault

    def finding(self, finding: FindingId) -> FindingStory:
        """Return a finding with all that came of it; 404 when there is none of that id."""
        try:
            return story_of_finding(self.loop.journal, finding)
        except StewardError as fault:
            raise RefusedError(404, fault.problem, where="journal", hint=fault.hint) from fault

    def record_opinion(
        self, finding: FindingId, word: OpinionName, *, user: User, note: str = ""
    ) -> Opinion:
        """Record an opinion on a finding. Raise for viewers."""
        _check_may_decide(user, f"{word} findings", where=f"finding {finding}")
        self.finding(finding)
        t_s = self.loop.view.t_s
        return record_opinion(self.loop.journal, finding, word, user=user.name, t_s=t_s, note=note)

    @property
    def silent_s(self) -> float:
        """How long the loop has not turned, by this machine's clock."""
        return time.monotonic() - self._turned_s

    @property
    def silent(self) -> bool:
        """Whether that is longer than can be explained."""
        return self.silent_s > max(SILENT_AFTER_S, 3 * self.settings.loop.every_s)

    def unready(self) -> list[str]:
        """Return why the service is not ready; empty if it is."""
        status = self.refresh().status
        reasons = []
        if not self.alive():
            reasons.append("the loop has stopped")
        if status.turns == 0:
            reasons.append("the loop has not made its first turn yet")
        elif self.silent:
            reasons.append(f"the loop has not turned for {self.silent_s:.0f} s")
        reasons += [
            f"the journal cannot be written: {fault.problem}"
            for fault in status.faults
            if fault.where == "journal" and fault.t_s >= status.t_s
        ]
        return reasons

    def _draw(self, status: LoopStatus, *, version: int) -> StateSnapshot:
        view, summary = self.loop.view, self._summary
        cluster = cluster_snapshot(view)
        if cluster.states:
            self._history.add(GpuUsage(t_s=view.t_s, states=cluster.states))
        savings = summary.savings_with(self.loop.unsettled)
        if savings.outcomes:
            summary.note(view.t_s, savings)
        truth = self._truth() if self._truth else None
        if truth is not None:
            self._truth_curve.add(CurvePoint(t_s=view.t_s, low=truth, mid=truth, high=truth))
        return StateSnapshot(
            version=version,
            cluster=cluster,
            status=status,
            faults=self._faults,
            patterns=self.loop.patterns,
            findings=tuple(summary.findings.newest()),
            last_seen=MappingProxyType(summary.findings.last_s),
            carried_out=MappingProxyType(dict(summary.carried_out)),
            lent_gpus=summary.lent_gpus,
            open_findings=frozenset(finding.id for finding in view.findings),
            stories=tuple(summary.stories()),
            states=MappingProxyType(summary.states),
            savings=savings,
            stop_cost_gpu_hours=summary.stop_cost_gpu_hours,
            curve=summary.curve.points,
            truth=truth,
            truth_curve=self._truth_curve.points,
            history=self._history.points,
            approvals=tuple(self.loop.stages.desk.guard.approvals(view.t_s)),
            rules=rule_rows(self.loop.rules, self._rule_book.stats(view.t_s)),
            kinds=self._summary.ledger.kinds(),
            projection=self._summary.ledger.projection(),
            changed_rules=self._rule_files.changed(),
        )


def _check_may_decide(user: User, what: str, *, where: str) -> None:
    if not user.may_decide:
        raise RefusedError(
            403,
            f"{user.name} is a viewer and may not {what}",
            where=where,
            hint="an operator token is needed",
        )


def _new_faults(before: LoopStatus, now: LoopStatus) -> int:
    known = {id(fault) for fault in before.faults}
    return sum(id(fault) not in known for fault in now.faults)
