"""Choices of people about decisions. They reach the loop through the journal only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import astuple, dataclass
from functools import partial
from typing import Literal, get_args

from steward.errors import StewardError, did_you_mean, unknown_name
from steward.model.actions import ACTIONS, Lend
from steward.model.decision import (
    EFFECT_CHECK,
    Choice,
    Decision,
    DecisionState,
    StandingApproval,
)
from steward.model.finding import Finding
from steward.model.identity import DecisionId, TenantId, stable_id
from steward.model.outcome import HOUR_S, Story
from steward.store.journal import Journal

__all__ = [
    "ApprovalRequest",
    "ChoiceName",
    "approve_in_advance",
    "known_tenants",
    "possible_choices",
    "record_choice",
    "revoke",
    "standing_approvals",
]

ChoiceName = Literal["approve", "reject", "undo"]
MOST_READ = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """What a person would approve in advance: one tenant's actions of one type."""

    tenant: str
    action: str
    hours: float  # as people live them
    gpus: int  # in all
    note: str = ""

    def check(self, tenants: Collection[str]) -> None:
        """Raise if there is no such action, or no such tenant among these."""
        where = "standing approval"
        if self.action not in ACTIONS:
            raise unknown_name("action", self.action, tuple(ACTIONS), where=where)
        if self.tenant not in tenants:
            raise unknown_name("tenant", self.tenant, tenants, where=where)
        if self.hours <= 0 or self.gpus < 1:
            raise StewardError(
                f"the time is {self.hours:g} h, GPUs are {self.gpus}",
                where=where,
                hint="name a time above 0 and a budget of at least one GPU",
            )


_POSSIBLE: dict[DecisionState, tuple[ChoiceName, ...]] = {
    DecisionState.WAITING: ("approve", "reject"),
    DecisionState.ADVISED: ("approve",),
    DecisionState.HELD: ("approve",),
    DecisionState.ACTIVE: ("undo",),
}


def possible_choices(story: Story) -> tuple[ChoiceName, ...]:
    """Return what a person may choose about a decision as it stands now."""
    choices = _POSSIBLE.get(story.state, ())
    if story.state is DecisionState.DONE and not isinstance(story.decision.action, Lend):
        choices = ("undo",)  # a loan that has ended is over; what was started or stopped is not
    return tuple(each for each in choices if each != "undo" or story.can_be_undone)


def record_choice(
    journal: Journal, decision_id: str, choice: str, *, user: str, t_s: float, note: str = ""
) -> Choice:
    """Append the choice of `user` about a decision; raise if it is not possible now."""
    known: tuple[ChoiceName, ...] = get_args(ChoiceName)
    chosen = next((each for each in known if each == choice), None)
    if chosen is None:
        raise StewardError(
            f"unknown choice '{choice}'; expected {', '.join(known)}",
            where=f"decision {decision_id}",
            hint=did_you_mean(choice, known) or "use one of these",
        )
    if user == EFFECT_CHECK:
        raise StewardError(
            f"'{user}' is how steward names its own checks",
            where=f"decision {decision_id}",
            hint="use a token with another name",
        )
    value = Choice(decision=DecisionId(decision_id), t_s=t_s, choice=chosen, user=user, note=note)

    def check() -> None:
        story = journal.story(value.decision)
        if chosen not in possible_choices(story):
            raise _too_late(story, chosen)

    journal.append([value], check=check)  # of two at once, the second is told
    return value


def _too_late(story: Story, choice: ChoiceName) -> StewardError:
    now = possible_choices(story)
    problem = f"cannot {choice} it: it is {story.state.value}"
    if choice == "undo" and story.decision.undo is None:
        problem = "cannot undo it: it is itself a way back, or cannot be taken back"
    hint = f"possible now: {', '.join(now)}" if now else "nothing is left to choose about it"
    return StewardError(problem, where=f"decision {story.decision.id}", hint=hint)


def approve_in_advance(
    journal: Journal, asked: ApprovalRequest, *, user: str, t_s: float, speed: float = 1.0
) -> StandingApproval:
    """Write down that one tenant's actions of one type need no approval for a while.

    People mean real hours: `speed` is how much faster the journal's clock runs.
    """
    for_s = asked.hours * HOUR_S * speed
    value = StandingApproval(
        id=stable_id("a", *astuple(asked), user, t_s, journal.newest()),
        t_s=t_s,
        tenant=TenantId(asked.tenant),
        action=asked.action,
        until_s=t_s + for_s,
        gpus=asked.gpus,
        user=user,
        note=asked.note,
    )
    journal.append([value])
    return value


def known_tenants(journal: Journal) -> set[str]:
    """Return the tenants of the newest findings and decisions."""
    entries = journal.read(kinds=("finding", "decision"), newest_first=True, limit=MOST_READ)
    tenants = (each.value.tenant for each in entries if isinstance(each.value, Finding | Decision))
    return {str(each) for each in tenants if each}


def revoke(journal: Journal, approval: str, *, user: str, t_s: float) -> StandingApproval:
    """Write down that a standing approval holds no longer."""
    revoked = _in_force(journal, approval, t_s)
    value = StandingApproval(
        id=stable_id("a", "revoke", approval, t_s),
        t_s=t_s,
        tenant=revoked.tenant,
        action=revoked.action,
        until_s=t_s,
        gpus=0,
        user=user,
        revokes=approval,
    )
    journal.append([value], check=partial(_in_force, journal, approval, t_s))
    return value


def _in_force(journal: Journal, approval: str, t_s: float) -> StandingApproval:
    known = {each.id: each for each in standing_approvals(journal, t_s)}
    if approval not in known:
        raise unknown_name("standing approval", approval, tuple(known), where="revoke")
    return known[approval]


def standing_approvals(journal: Journal, t_s: float) -> list[StandingApproval]:
    """Return the standing approvals in force, newest first."""
    entries = journal.read(kinds=("approval",), newest_first=True, limit=MOST_READ)
    values = [each.value for each in entries if isinstance(each.value, StandingApproval)]
    revoked = {each.revokes for each in values}
    return [
        each
        for each in values
        if not each.revokes and each.id not in revoked and each.until_s > t_s
    ]
