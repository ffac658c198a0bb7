"""What to send next for a decision, and what to report about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steward.clients.kubernetes.annotations import DecisionNote
from steward.clients.kubernetes.changes import KubeChange
from steward.model.decision import Decision

__all__ = ["KubePlan", "began_s", "begun", "done", "failed", "mark_of"]

LONGEST_WHY = 200
SKEW_S = 60.0  # between the clocks of two machines that ran steward


@dataclass(frozen=True, slots=True, kw_only=True)
class KubePlan:
    """The requests to make now, in this order, and the receipt if all succeed."""

    result: Literal["begun", "done", "failed"]
    text: str
    changes: tuple[KubeChange, ...] = ()


def begun(text: str, *changes: KubeChange) -> KubePlan:
    """Return a plan after which the decision has to be looked at again."""
    return KubePlan(result="begun", text=text, changes=changes)


def done(text: str, *changes: KubeChange) -> KubePlan:
    """Return a plan after which the decision is carried out."""
    return KubePlan(result="done", text=text, changes=changes)


def failed(text: str) -> KubePlan:
    """Return that the decision cannot be carried out."""
    return KubePlan(result="failed", text=text)


def began_s(decision: Decision, note: DecisionNote, t_s: float) -> float:
    """Return when a decision was begun, by the note on its object if that can be true.

    Whoever may edit the object may write any time. One in the future would keep the decision open
    as long as they like, and nothing was begun before it was decided: it counts from there then.
    """
    possible = decision.t_s - SKEW_S <= note.t_s <= t_s + SKEW_S
    return note.t_s if possible else decision.t_s


def mark_of(decision: Decision, t_s: float) -> DecisionNote:
    """Return what is noted on the object that a decision changes."""
    why = " ".join(decision.because.split())[:LONGEST_WHY]
    return DecisionNote(id=decision.id, did=decision.action.type, t_s=t_s, why=why)
