"""What people say about decisions. It reaches the loop through the journal and in no other way."""

from __future__ import annotations

from typing import Literal, get_args

from steward.errors import StewardError, did_you_mean
from steward.model.actions import Lend
from steward.model.decision import Choice, DecisionState
from steward.model.identity import DecisionId
from steward.model.outcome import Story
from steward.store.journal import Journal

__all__ = ["choose", "possible"]

Say = Literal["approve", "reject", "undo"]

_POSSIBLE: dict[DecisionState, tuple[Say, ...]] = {
    DecisionState.WAITING: ("approve", "reject"),
    DecisionState.ADVISED: ("approve",),
    DecisionState.HELD: ("approve",),
    DecisionState.ACTIVE: ("undo",),
}


def possible(story: Story) -> tuple[Say, ...]:
    """Return what a person may say about a decision as it stands now."""
    said = _POSSIBLE.get(story.state, ())
    if story.state is DecisionState.DONE and not isinstance(story.decision.action, Lend):
        said = ("undo",)  # a loan that has ended is over; what was started or stopped is not
    undoes = any(choice.choice == "undo" for choice in story.choices)
    can_undo = story.decision.undo is not None and not undoes
    return tuple(say for say in said if say != "undo" or can_undo)


def choose(
    journal: Journal, decision_id: str, choice: str, *, user: str, t_s: float, note: str = ""
) -> Choice:
    """Write down what `user` says about a decision, if that can be said now."""
    known: tuple[Say, ...] = get_args(Say)
    said = next((say for say in known if say == choice), None)
    if said is None:
        raise StewardError(
            f"'{choice}' is nothing to say about a decision; known: {', '.join(known)}",
            where=f"decision {decision_id}",
            hint=did_you_mean(choice, known) or "use one of these words",
        )
    story = journal.story(DecisionId(decision_id))
    if said not in possible(story):
        raise _too_late(story, said)
    value = Choice(decision=story.decision.id, t_s=t_s, choice=said, user=user, note=note)
    journal.append([value])
    return value


def _too_late(story: Story, said: Say) -> StewardError:
    state = story.state.value
    now = possible(story)
    problem = f"it is {state}, so one cannot {said} it"
    if said == "undo" and story.state is DecisionState.ACTIVE:
        problem = "it cannot be undone: it is itself a way back"
    hint = f"possible now: {', '.join(now)}" if now else "nothing is left to choose about it"
    return StewardError(problem, where=f"decision {story.decision.id}", hint=hint)
