"""Judges what may be done now: autonomy, preconditions, cool-down, budgets, circuit breaker."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean, stdev

from steward.model.actions import Action, Budget
from steward.model.actions.traits import StartsJob
from steward.model.decision import Autonomy, Decision, Ruling, StandingApproval, Verdict
from steward.model.frame import job_entity, steps_of
from steward.model.identity import DecisionId, JobId, TenantId
from steward.model.outcome import Outcome
from steward.model.site import TenantCeiling
from steward.ports import Meter, View

__all__ = ["Guard", "Limits", "entities_of"]

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may change. A tenant's autonomy is a ceiling on the site's, never above it.

    It is about what a tenant already has: its waiting jobs are started by the site's autonomy.

    Starting what waits and disturbing what runs have budgets of their own: a scheduler starts
    hundreds of jobs an hour, and disturbs few.
    """

    autonomy: Autonomy = Autonomy.ADVISE
    tenant_autonomy: Mapping[TenantId, Autonomy] = field(default_factory=dict)
    start_autonomy: Autonomy | None = None  # for starting what users submitted; None: the site's
    disturbed_gpus_per_hour: int = 64
    disturbed_gpus_per_tenant_per_hour: int = 32
    disturbed_per_job_per_day: int = 48  # times that one job is lent, stopped, moved or resized
    started_gpus_per_hour: int | None = None  # None: no limit
    answer_within_s: float = 4 * HOUR_S  # how long people have to answer a request for approval
    cool_down_s: float = 600.0  # after a loan ended, its owner is left alone this long
    breaker_outcomes: int = 20  # the breaker judges by so many outcomes, and needs half of them
    breaker_share: float = 0.25  # it opens when they surely brought less of what was promised
    breaker_rest_s: float = 1800.0

    def autonomy_for(self, tenant: TenantId) -> Autonomy:
        """Return what steward may do with this tenant's GPUs."""
        ceiling = self.tenant_autonomy.get(tenant, self.autonomy)
        return min(self.autonomy, ceiling, key=lambda level: level.rank)


class Guard:
    """Judges decisions; keeps what was done and what came of it."""

    def __init__(self, limits: Limits, meter: Meter | None = None) -> None:
        self.limits = limits
        self._meter = meter  # None: preconditions of rules cannot be evaluated
        self._done: deque[tuple[float, Budget, TenantId, int]] = deque()
        self._spent: Counter[tuple[Budget, TenantId]] = Counter()  # GPUs in `_done`
        self._disturbed: dict[JobId, deque[float]] = {}  # when
        self._lasting: Mapping[DecisionId, JobId] = {}
        self._rests_until_s: dict[JobId, float] = {}
        self._recent: dict[str, deque[tuple[float, float]]] = {}  # by yardstick: gained, promised
        self._open: dict[str, tuple[float, str]] = {}  # by yardstick: until when, and why
        self._ceilings: Mapping[TenantId, TenantCeiling] = {}  # as engines say
        self._tenant_of: dict[JobId, TenantId] = {}  # of those in `_disturbed`
        self._approvals: dict[str, StandingApproval] = {}
        self._used: Counter[str] = Counter()  # GPUs of each standing approval

    # -- judging -------------------------------------------------------------------------------

    def judge(
        self,
        decision: Decision,
        view: View,
        *,
        approved: bool = False,
        since_s: float | None = None,
    ) -> Verdict:
        """Rule on a decision that was last proposed at `since_s`.

        A person's approval is above budgets, never above preconditions.
        """
        last_s = decision.t_s if since_s is None else since_s
        ruling, why = self._rule(decision, view, approved=approved, since_s=last_s)
        if ruling is Ruling.GO and not decision.returns:
            ruling, why = self._unless_unmet(decision, view.t_s) or (ruling, why)
        return Verdict(decision=decision.id, t_s=view.t_s, ruling=ruling, why=why)

    def _rule(
        self, decision: Decision, view: View, *, approved: bool, since_s: float
    ) -> tuple[Ruling, str]:
        unmet = view.unmet(decision.action)
        if unmet:
            return Ruling.EXPIRE, unmet
        if decision.returns or approved:
            why = "giving back is always allowed" if decision.returns else "a person approved it"
            return Ruling.GO, why
        ruling, why = self._rule_by_autonomy(decision, view.t_s)
        limit_s = self._valid_s(decision, ruling)
        if view.t_s > since_s + limit_s:
            return Ruling.EXPIRE, f"{_UNANSWERED[ruling]} within {limit_s:.0f} s"
        return ruling, why

    def _valid_s(self, decision: Decision, ruling: Ruling) -> float:
        return self.limits.answer_within_s if ruling is Ruling.ASK else decision.check_after_s

    def _unless_unmet(self, decision: Decision, t_s: float) -> tuple[Ruling, str] | None:
        """Return what the rule behind a decision requires and is not so; None if nothing."""
        expr = decision.treatment.precondition if decision.treatment is not None else ""
        if not expr:
            return None
        about = entities_of(decision)
        holds = self._meter.holds(expr, about, t_s=t_s) if self._meter is not None else None
        if holds is None:
            return Ruling.HOLD, f"unknown whether {expr} holds for {decision.subject}"
        return None if holds else (Ruling.EXPIRE, f"{expr} does not hold for {decision.subject}")

    def _rule_by_autonomy(self, decision: Decision, t_s: float) -> tuple[Ruling, str]:
        level, whose = self._autonomy_of(decision)
        if level.rank <= Autonomy.ADVISE.rank:
            return Ruling.ADVISE, f"autonomy for {whose} is '{level.value}'"
        refused = self._refused_by_tenant(decision)
        if refused or not decision.trusted:
            return Ruling.ADVISE, refused or "the rule behind it was wrong too often to act on"
        held = self._held(decision, t_s)
        if held:
            return Ruling.HOLD, held
        if decision.action.type == "tell":
            return Ruling.GO, "advice changes nothing"
        if level is Autonomy.APPROVE:
            return self._rule_by_approval(decision, whose, t_s)
        return Ruling.GO, "within budgets"

    def _autonomy_of(self, decision: Decision) -> tuple[Autonomy, str]:
        """Return what may be done without a person, and whose autonomy says so."""
        if self._is_submitted(decision) and self.limits.start_autonomy is not None:
            return self.limits.start_autonomy, "starting what users submitted"
        asked_for = isinstance(decision.action, StartsJob)  # by whoever submitted the job
        if asked_for or not decision.tenant:
            return self.limits.autonomy, "the site"
        level, ceiling = self.limits.autonomy_for(decision.tenant), self._ceiling(decision.tenant)
        if ceiling.autonomy.rank < level.rank:
            return ceiling.autonomy, f"{decision.tenant} by its {ceiling.source}"
        return level, decision.tenant

    def _ceiling(self, tenant: TenantId) -> TenantCeiling:
        return self._ceilings.get(tenant, _NO_CEILING)

    def _refused_by_tenant(self, decision: Decision) -> str:
        """Return that a tenant leaves this kind of action on its running jobs to people."""
        action, ceiling = decision.action, self._ceiling(decision.tenant)
        changes = action.type != "tell" and not isinstance(action, StartsJob)
        if ceiling.actions is None or not changes or action.type in ceiling.actions:
            return ""
        return f"{decision.tenant} does not allow '{action.type}' by its {ceiling.source}"

    def _is_submitted(self, decision: Decision) -> bool:
        """Return whether a user asked for this start: short jobs are no reason to start none."""
        starts = isinstance(decision.action, StartsJob)
        return starts and self.limits.start_autonomy is not None

    def _rule_by_approval(self, decision: Decision, whose: str, t_s: float) -> tuple[Ruling, str]:
        approval = self._approval_for(decision, t_s)
        if approval is not None:
            return Ruling.GO, f"{approval.user} approved such actions in advance ({approval.id})"
        return Ruling.ASK, f"autonomy for {whose} is 'approve': a person decides"

    def _held(self, decision: Decision, t_s: float) -> str:
        until_s, why = self._open.get(decision.yardstick, (t_s, ""))
        counts = decision.action.budget is not Budget.NONE and not self._is_submitted(decision)
        if t_s < until_s and counts:
            return _opened(until_s, why, t_s)
        job = decision.action.affects
        rest_s = self._rests_until_s.get(job, t_s) - t_s if job is not None else 0.0
        if rest_s > 0:
            why = "after its last loan" if decision.action.type == "lend" else "a person refused"
            return f"{job} is left alone for {rest_s:.0f} s more, {why}"
        return self._over_budget(decision, t_s)

    def _over_budget(self, decision: Decision, t_s: float) -> str:
        self._expire(t_s)
        budget, asked, limits = decision.action.budget, len(decision.action.gpus), self.limits
        spent = sum(gpus for (kind, _), gpus in self._spent.items() if kind is budget)
        if budget is Budget.START and limits.started_gpus_per_hour is not None:
            over = spent + asked > limits.started_gpus_per_hour
            return _used_up(spent, limits.started_gpus_per_hour, "to start on") if over else ""
        if budget is not Budget.DISTURB:
            return ""
        of_tenant = self._spent[budget, decision.tenant]
        if spent + asked > limits.disturbed_gpus_per_hour:
            return _used_up(spent, limits.disturbed_gpus_per_hour, "to disturb")
        if of_tenant + asked > limits.disturbed_gpus_per_tenant_per_hour:
            whose = f"of {decision.tenant} to disturb"
            return _used_up(of_tenant, limits.disturbed_gpus_per_tenant_per_hour, whose)
        return self._disturbed_enough(decision.action.affects, decision.tenant, t_s)

    def _disturbed_enough(self, job: JobId | None, tenant: TenantId, t_s: float) -> str:
        """Return that a job had its part: else the one that is cheapest to stop never gets on."""
        own = self._ceiling(tenant).disturbed_per_job_per_day
        site = self.limits.disturbed_per_job_per_day
        limit = site if own is None else min(site, own)
        times = self._disturbed.get(job, ()) if job is not None else ()
        count = sum(each > t_s - DAY_S for each in times)
        if job is None or count < limit:
            return ""
        return f"budget: {job} was disturbed {count} times in a day, and {limit} are allowed"

    def _expire(self, t_s: float) -> None:
        """Forget what was done more than an hour ago."""
        while self._done and self._done[0][0] <= t_s - HOUR_S:
            _, budget, tenant, gpus = self._done.popleft()
            self._spent[budget, tenant] -= gpus

    def is_silenced(self, decision: Decision) -> bool:
        """Return whether a decision is not even worth writing down: the site only observes."""
        if decision.returns:
            return False
        return self._autonomy_of(decision)[0] is Autonomy.OBSERVE

    def permits(self, decision: Decision, t_s: float) -> Ruling:
        """Return what autonomy, budgets and the breaker allow, whatever the view is like."""
        return self._rule_by_autonomy(decision, t_s)[0]

    def permits_all(self, decisions: Iterable[Decision], t_s: float) -> bool:
        """Return whether all of these may go: one may use up what another needs."""
        self._expire(t_s)
        spent, used = self._spent.copy(), self._used.copy()
        try:
            for each in decisions:
                if self.permits(each, t_s) is not Ruling.GO:
                    return False
                self._charge(each, t_s)
        finally:
            self._spent, self._used = spent, used
        return True

    def bind(self, ceilings: Mapping[TenantId, TenantCeiling]) -> None:
        """Hold from now on to what tenants allow on their own engines."""
        self._ceilings = dict(ceilings)

    # -- standing approvals --------------------------------------------------------------------

    def allow(self, approval: StandingApproval) -> None:
        """Take in a standing approval, or that one is revoked."""
        if approval.revokes:
            self._approvals.pop(approval.revokes, None)
        else:
            self._approvals[approval.id] = approval

    def approvals(self, t_s: float) -> list[tuple[StandingApproval, int]]:
        """Return the standing approvals in force, each with the GPUs that are left of it."""
        return [
            (each, each.gpus - self._used[each.id])
            for each in tuple(self._approvals.values())
            if each.t_s <= t_s < each.until_s
        ]

    def _approval_for(self, decision: Decision, t_s: float) -> StandingApproval | None:
        need = len(decision.action.gpus)
        for approval, left in self.approvals(t_s):
            fits = approval.tenant == decision.tenant and approval.action == decision.action.type
            if fits and left >= need:
                return approval
        return None

    # -- bookkeeping ---------------------------------------------------------------------------

    def record(self, decision: Decision, t_s: float, *, approved: bool = False) -> None:
        """Charge a decision that is carried out to its budget, and to a standing approval.

        `approved`: by a person, for itself; then it needs no standing approval.
        """
        budget, gpus = decision.action.budget, len(decision.action.gpus)
        if budget is not Budget.NONE:
            self._done.append((t_s, budget, decision.tenant, gpus))
            self._note_disturbed(decision, t_s)
            self._charge(decision, t_s, approved=approved)

    def _note_disturbed(self, decision: Decision, t_s: float) -> None:
        action = decision.action
        if action.budget is not Budget.DISTURB or action.affects is None:
            return
        times = self._disturbed.setdefault(
            action.affects, deque(maxlen=max(self.limits.disturbed_per_job_per_day, 1))
        )
        times.append(t_s)
        self._tenant_of[action.affects] = decision.tenant
        if len(self._disturbed) > REMEMBERED:
            self._disturbed = {
                job: times for job, times in self._disturbed.items() if times[-1] > t_s - DAY_S
            }
            self._tenant_of = {job: self._tenant_of[job] for job in self._disturbed}

    def _charge(self, decision: Decision, t_s: float, *, approved: bool = False) -> None:
        gpus = len(decision.action.gpus)
        self._spent[decision.action.budget, decision.tenant] += gpus
        level, _ = self._autonomy_of(decision)
        if level is Autonomy.APPROVE and not approved:
            approval = self._approval_for(decision, t_s)
            if approval is not None:
                self._used[approval.id] += gpus

    def follow(self, view: View) -> None:
        """Leave those alone for a while for whom a decision's effect has just ended."""
        now = view.lasting
        for decision, affected in self._lasting.items():
            if decision not in now:
                self.leave_alone(affected, view.t_s)
        self._lasting = now
        if len(self._rests_until_s) > REMEMBERED:
            self._rests_until_s = {
                job: until for job, until in self._rests_until_s.items() if until > view.t_s
            }

    def leave_alone(self, job: JobId, t_s: float) -> None:
        """Decide nothing about a job for a while: its loan ended, or a person refused."""
        until_s = t_s + self.limits.cool_down_s
        self._rests_until_s[job] = max(until_s, self._rests_until_s.get(job, until_s))

    def resting(self, t_s: float) -> list[JobId]:
        """Return the jobs that are left alone now."""
        return [job for job, until_s in self._rests_until_s.items() if until_s > t_s]

    def spared(self, t_s: float) -> list[JobId]:
        """Return the jobs that were disturbed so often that they run on undisturbed now."""
        return [
            job for job in self._disturbed if self._disturbed_enough(job, self._tenant_of[job], t_s)
        ]

    def learn(self, outcomes: Iterable[Outcome]) -> None:
        """Open the breaker of a yardstick when its decisions keep bringing less than promised.

        Each has its own: loans that disappoint are no reason to start no jobs.
        """
        for outcome in outcomes:
            if outcome.expected <= 0:
                continue
            recent = self._recent.setdefault(
                outcome.yardstick, deque(maxlen=self.limits.breaker_outcomes)
            )
            recent.append((outcome.gained.mid, outcome.expected))
            self._judge_outcomes(outcome.yardstick, recent, outcome.due_s)

    def _judge_outcomes(
        self, yardstick: str, recent: deque[tuple[float, float]], t_s: float
    ) -> None:
        limits = self.limits
        until_s, _ = self._open.get(yardstick, (t_s, ""))
        if len(recent) < max(2, limits.breaker_outcomes // 2) or t_s < until_s:
            return
        gained = sum(each for each, _ in recent)
        promised = sum(each for _, each in recent)
        if _surely_negative([g - limits.breaker_share * p for g, p in recent]):
            why = (
                f"the last {len(recent)} outcomes in '{yardstick}' brought "
                f"{gained / promised:.0%} of what was promised"
            )
            self._open[yardstick] = (t_s + limits.breaker_rest_s, why)
            recent.clear()

    def breaker(self, t_s: float) -> str:
        """Return how the circuit breaker stands, in words."""
        opened = [
            _opened(until_s, why, t_s) for until_s, why in self._open.values() if t_s < until_s
        ]
        return "; ".join(opened) or "closed"


_NO_CEILING = TenantCeiling()
_UNANSWERED = {
    Ruling.ASK: "not answered",
    Ruling.ADVISE: "not taken up",
    Ruling.HOLD: "not carried out",
    Ruling.GO: "not carried out",
}


def entities_of(decision: Decision) -> tuple[str, ...]:
    """Return the entities that a decision is about: its subject, then its job, GPUs and node."""
    action: Action = decision.action
    jobs = [job_entity(job) for job in (action.affects,) if job is not None]
    entities = [decision.subject, *jobs, *action.gpus]
    nodes = [steps_of(each)[0] for each in entities if each and not each.startswith("job:")]
    return tuple(dict.fromkeys(each for each in (*entities, *nodes) if each))


def _opened(until_s: float, why: str, t_s: float) -> str:
    return f"open: {why}; closes in {until_s - t_s:.0f} s"


def _used_up(spent: int, limit: int, what: str) -> str:
    return f"budget: {spent} of {limit} GPUs an hour {what} are used up"


def _surely_negative(values: Sequence[float]) -> bool:
    """Return whether the mean is below zero by more than chance explains (two standard errors).

    Single outcomes scatter widely, since many loans end soon and some last for hours: a plain
    comparison of sums would open the breaker on bad luck.
    """
    return fmean(values) + 2.0 * stdev(values) / sqrt(len(values)) < 0.0
