"""Choices of people about decisions. They reach the loop through the journal only."""

from __future__ import annotations

from typing import Literal, get_args

from steward.errors import StewardError, did_you_mean, unknown_name
from steward.model.actions import ACTIONS, Lend
from steward.model.decision import Choice, DecisionState, StandingApproval
from steward.model.identity import DecisionId, TenantId, stable_id
from steward.model.outcome import Story
from steward.store.journal import Journal

__all__ = [
    "ChoiceName",
    "approve_in_advance",
    "possible_choices",
    "record_choice",
    "revoke",
    "standing_approvals",
]

ChoiceName = Literal["approve", "reject", "undo"]
MOST_READ = 1000

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
    undone = any(choice.choice == "undo" for choice in story.choices)
    can_undo = story.decision.undo is not None and not undone
    return tuple(each for each in choices if each != "undo" or can_undo)


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
    story = journal.story(DecisionId(decision_id))
    if chosen not in possible_choices(story):
        raise _too_late(story, chosen)
    value = Choice(decision=story.decision.id, t_s=t_s, choice=chosen, user=user, note=note)
    journal.append([value])
    return value


def _too_late(story: Story, choice: ChoiceName) -> StewardError:
    now = possible_choices(story)
    problem = f"cannot {choice} it: it is {story.state.value}"
    if choice == "undo" and story.decision.undo is None:
        problem = "cannot undo it: it is itself a way back, or cannot be taken back"
    hint = f"possible now: {', '.join(now)}" if now else "nothing is left to choose about it"
    return StewardError(problem, where=f"decision {story.decision.id}", hint=hint)


def approve_in_advance(  # noqa: PLR0913 - an approval is all of these
    journal: Journal,
    *,
    tenant: str,
    action: str,
    for_s: float,
    gpus: int,
    user: str,
    t_s: float,
    note: str = "",
) -> StandingApproval:
    """Write down that one tenant's actions of one type need no approval for a while."""
    if action not in ACTIONS:
        raise unknown_name("action", action, tuple(ACTIONS), where="standing approval")
    if not tenant or for_s <= 0 or gpus < 1:
        raise StewardError(
            f"tenant is '{tenant}', time is {for_s:g} s, GPUs are {gpus}",
            where="standing approval",
            hint="name a tenant, a time above 0 and a budget of at least one GPU",
        )
    value = StandingApproval(
        id=stable_id("a", tenant, action, user, t_s, for_s, gpus, journal.newest()),
        t_s=t_s,
        tenant=TenantId(tenant),
        action=action,
        until_s=t_s + for_s,
        gpus=gpus,
        user=user,
        note=note,
    )
    journal.append([value])
    return value


def revoke(journal: Journal, approval: str, *, user: str, t_s: float) -> StandingApproval:
    """Write down that a standing approval holds no longer."""
    known = {each.id: each for each in standing_approvals(journal, t_s)}
    found = known.get(approval)
    if found is None:
        raise unknown_name("standing approval", approval, tuple(known), where="revoke")
    value = StandingApproval(
        id=stable_id("a", "revoke", approval, t_s),
        t_s=t_s,
        tenant=found.tenant,
        action=found.action,
        until_s=t_s,
        gpus=0,
        user=user,
        revokes=approval,
    )
    journal.append([value])
    return value


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
