"""Says what may be done now: autonomy, preconditions, cool-down, budgets and a circuit breaker."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean, stdev

from steward.act.preconditions import about_of, broken_precondition
from steward.model.decision import Autonomy, Decision, Lend, Ruling, Tell, Verdict
from steward.model.identity import DecisionId, JobId, TenantId
from steward.model.outcome import Outcome
from steward.model.view import ClusterView
from steward.ports import Meter

__all__ = ["Guard", "Limits"]

HOUR_S = 3600.0
REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may change. A tenant's autonomy is a ceiling on the site's, never above it."""

    autonomy: Autonomy = Autonomy.ADVISE
    tenant_autonomy: Mapping[TenantId, Autonomy] = field(default_factory=dict)
    gpus_per_hour: int = 64
    gpus_per_tenant_per_hour: int = 32
    cool_down_s: float = 600.0  # after a loan ended, its owner is left alone this long
    breaker_outcomes: int = 20  # the breaker judges by so many outcomes, and needs half of them
    breaker_share: float = 0.25  # it opens when they surely brought less of what was promised
    breaker_rest_s: float = 1800.0

    def autonomy_for(self, tenant: TenantId) -> Autonomy:
        """Return what steward may do with this tenant's GPUs."""
        ceiling = self.tenant_autonomy.get(tenant, self.autonomy)
        return min(self.autonomy, ceiling, key=lambda level: level.rank)


class Guard:
    """Judges decisions; remembers what was done and what came of it."""

    def __init__(self, limits: Limits, meter: Meter | None = None) -> None:
        self.limits = limits
        self._meter = meter  # None: nobody can tell whether a rule's own precondition holds
        self._done: deque[tuple[float, TenantId, int]] = deque()
        self._spent: Counter[TenantId] = Counter()  # GPUs in `_done`, kept up to date
        self._on_loan: dict[DecisionId, JobId] = {}
        self._rests_until_s: dict[JobId, float] = {}
        self._recent: deque[tuple[float, float]] = deque(maxlen=limits.breaker_outcomes)
        self._open_until_s = float("-inf")
        self._open_why = ""

    # -- judging -------------------------------------------------------------------------------

    def judge(self, decision: Decision, view: ClusterView, *, approved: bool = False) -> Verdict:
        """Rule on a decision. A person's approval is above budgets, never above preconditions."""
        ruling, why = self._rule(decision, view, approved=approved)
        if ruling is Ruling.GO and not decision.returns:
            ruling, why = self._unless_unmet(decision, view.t_s) or (ruling, why)
        return Verdict(decision=decision.id, t_s=view.t_s, ruling=ruling, why=why)

    def _rule(self, decision: Decision, view: ClusterView, *, approved: bool) -> tuple[Ruling, str]:
        broken = broken_precondition(decision.action, view)
        if broken:
            return Ruling.EXPIRE, broken
        if decision.returns or approved:
            why = "giving back is always allowed" if decision.returns else "a person approved it"
            return Ruling.GO, why
        if view.t_s > decision.t_s + decision.check_after_s:
            return Ruling.EXPIRE, f"not carried out within {decision.check_after_s:.0f} s"
        return self._rule_by_autonomy(decision, view.t_s)

    def _unless_unmet(self, decision: Decision, t_s: float) -> tuple[Ruling, str] | None:
        """Say what the rule behind a decision asks for and is not so; None if nothing."""
        expr = decision.treatment.precondition if decision.treatment is not None else ""
        if not expr:
            return None
        about = about_of(decision)
        holds = self._meter.holds(expr, about, t_s=t_s) if self._meter is not None else None
        if holds is None:
            return Ruling.HOLD, f"nobody can tell whether {expr} holds for {decision.subject}"
        return None if holds else (Ruling.EXPIRE, f"{expr} does not hold for {decision.subject}")

    def _rule_by_autonomy(self, decision: Decision, t_s: float) -> tuple[Ruling, str]:
        level = self.limits.autonomy_for(decision.tenant)
        if level.rank <= Autonomy.ADVISE.rank:
            return Ruling.ADVISE, f"autonomy for {decision.tenant or 'the site'} is '{level.value}'"
        if not decision.trusted:
            return Ruling.ADVISE, "the rule behind it was wrong too often to act on"
        held = self._held(decision, t_s)
        if held:
            return Ruling.HOLD, held
        if isinstance(decision.action, Tell):
            return Ruling.GO, "it only says something"
        if level is Autonomy.APPROVE:
            return Ruling.ASK, f"autonomy for {decision.tenant} is 'approve': a person decides"
        return Ruling.GO, "within budgets"

    def _held(self, decision: Decision, t_s: float) -> str:
        if t_s < self._open_until_s:
            return self.breaker(t_s)
        job = decision.action.disturbs
        rest_s = self._rests_until_s.get(job, t_s) - t_s if job is not None else 0.0
        if rest_s > 0:
            why = "after its last loan" if isinstance(decision.action, Lend) else "a person said no"
            return f"{job} is left alone for {rest_s:.0f} s more, {why}"
        return self._over_budget(decision, t_s)

    def _over_budget(self, decision: Decision, t_s: float) -> str:
        while self._done and self._done[0][0] <= t_s - HOUR_S:
            _, tenant, gpus = self._done.popleft()
            self._spent[tenant] -= gpus
        asked = len(decision.action.gpus)
        spent, of_tenant = self._spent.total(), self._spent[decision.tenant]
        limits = self.limits
        if spent + asked > limits.gpus_per_hour:
            return f"budget: {spent} of {limits.gpus_per_hour} GPUs an hour are used up"
        if of_tenant + asked > limits.gpus_per_tenant_per_hour:
            return (
                f"budget: {of_tenant} of {limits.gpus_per_tenant_per_hour} GPUs an hour of "
                f"{decision.tenant} are used up"
            )
        return ""

    # -- remembering ---------------------------------------------------------------------------

    def record(self, decision: Decision, t_s: float) -> None:
        """Take note that a decision was carried out."""
        if not decision.returns:
            self._done.append((t_s, decision.tenant, len(decision.action.gpus)))
            self._spent[decision.tenant] += len(decision.action.gpus)

    def follow(self, view: ClusterView) -> None:
        """Leave those alone for a while whose GPUs were on loan until now."""
        now = {loan.id: loan.owner for loan in view.loans}
        for loan, owner in self._on_loan.items():
            if loan not in now:
                self.leave_alone(owner, view.t_s)
        self._on_loan = now
        if len(self._rests_until_s) > REMEMBERED:
            self._rests_until_s = {
                job: until for job, until in self._rests_until_s.items() if until > view.t_s
            }

    def leave_alone(self, job: JobId, t_s: float) -> None:
        """Let a job rest: a loan of its GPUs ended, or a person said no to what was planned."""
        self._rests_until_s[job] = t_s + self.limits.cool_down_s

    def resting(self, t_s: float) -> list[JobId]:
        """Return the jobs that are left alone now, so that nobody decides about them in vain."""
        return [job for job, until_s in self._rests_until_s.items() if until_s > t_s]

    def learn(self, outcomes: Iterable[Outcome]) -> None:
        """Open the breaker when decisions keep bringing less than they promised."""
        for outcome in outcomes:
            if outcome.expected <= 0:
                continue
            self._recent.append((outcome.gained.mid, outcome.expected))
            self._judge_outcomes(outcome.due_s)

    def _judge_outcomes(self, t_s: float) -> None:
        limits = self.limits
        if len(self._recent) < max(2, limits.breaker_outcomes // 2) or t_s < self._open_until_s:
            return
        gained = sum(each for each, _ in self._recent)
        promised = sum(each for _, each in self._recent)
        if _surely_negative([g - limits.breaker_share * p for g, p in self._recent]):
            self._open_until_s = t_s + limits.breaker_rest_s
            self._open_why = (
                f"the last {len(self._recent)} outcomes brought {gained / promised:.0%} of what "
                f"was promised"
            )
            self._recent.clear()

    def breaker(self, t_s: float) -> str:
        """Say how the circuit breaker stands."""
        if t_s >= self._open_until_s:
            return "closed"
        return f"open: {self._open_why}; closes in {self._open_until_s - t_s:.0f} s"


def _surely_negative(values: Sequence[float]) -> bool:
    """Whether the mean is below zero by more than chance explains (two standard errors).

    Single outcomes scatter widely, since many loans end soon and some last for hours: a plain
    comparison of sums would open the breaker on bad luck.
    """
    return fmean(values) + 2.0 * stdev(values) / sqrt(len(values)) < 0.0
