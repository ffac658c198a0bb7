"""The decisions of a desk: those that are open, those that are over, and what is new of both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from steward.act.closed_decisions import ClosedDecisions, End
from steward.act.guard import Guard
from steward.model.actions import Action
from steward.model.decision import Decision, Ruling, Verdict
from steward.model.identity import DecisionId
from steward.ports import Actuator

__all__ = ["DeskState", "OpenDecision", "may_go"]


@dataclass(slots=True, kw_only=True)
class OpenDecision:
    """A decision that is not over yet, and what became of it so far."""

    decision: Decision
    proposed_s: float  # when its policy last proposed it
    verdict: Verdict | None = None
    approved: bool = False
    uncertain: bool = False  # an earlier run may have carried it out
    resumed: bool = False  # an earlier run opened it
    begun_s: float | None = None  # when the engine began with it
    counted: bool = False  # in the guard's budget
    tries: int = 0
    released_s: float | None = None  # when all that it waits for was done
    makes_room_for: tuple[DecisionId, ...] = ()  # those that wait for it


class DeskState:
    """What is shared by those who open decisions, judge them, and carry them out."""

    def __init__(self, guard: Guard, actuator: Actuator[Action]) -> None:
        self.guard = guard
        self.actuator = actuator
        self.open: dict[DecisionId, OpenDecision] = {}
        self.closed = ClosedDecisions()
        self.news: list[Decision | Verdict] = []  # what the journal has to have first

    def begin(self, each: OpenDecision) -> None:
        """Open a decision."""
        self.news.append(each.decision)
        self.open[each.decision.id] = each

    def close(self, decision: Decision, end: End, t_s: float) -> None:
        """Note that a decision is over."""
        self.open.pop(decision.id, None)
        self.closed.add(decision, end, t_s)

    def give_way(self, id_: DecisionId, why: str, t_s: float) -> None:
        """Close a decision: another one about the same is to be carried out."""
        self.news.append(Verdict(decision=id_, t_s=t_s, ruling=Ruling.EXPIRE, why=why))
        self.close(self.open[id_].decision, End.VOID, t_s)

    def asks(self, each: OpenDecision) -> bool:
        """Return whether a decision, or one that it waits for, waits for a person."""
        if each.verdict is not None and each.verdict.ruling is Ruling.ASK and not each.approved:
            return True
        return any(self.asks(self.open[id_]) for id_ in each.decision.after if id_ in self.open)

    def could_go(self, each: OpenDecision, t_s: float) -> bool:
        """Return whether a decision may be carried out, or might if it were judged alone now."""
        return may_go(each) or self.guard.permits(each.decision, t_s) is Ruling.GO

    def could_all_go(self, ids: Iterable[DecisionId], t_s: float) -> bool:
        """Return whether those of these that are open may all be carried out, one with another."""
        found = [self.open[id_] for id_ in ids if id_ in self.open]
        return self.guard.permits_all([x.decision for x in found if not may_go(x)], t_s)


def may_go(each: OpenDecision) -> bool:
    """Return whether a decision was approved or allowed."""
    return each.approved or (each.verdict is not None and each.verdict.ruling is Ruling.GO)
