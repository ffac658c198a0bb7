"""Decisions that are over, so that none is carried out twice and what lasts can be undone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from steward.model.decision import Decision
from steward.model.identity import DecisionId, stable_id

__all__ = ["LASTING", "REMEMBERED", "ClosedDecision", "ClosedDecisions", "End"]

REMEMBERED = 1_000  # that nobody proposes any more; a scheduler makes many
LASTING = 10_000  # that may still be in effect, such as drains and loans


class End(Enum):
    """How a decision ended."""

    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"  # nobody answered in time
    VOID = "void"  # it gave way, could not be written, or its precondition did not hold any more
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedDecision:
    """A decision that is over; `lasts`: its effect may not be."""

    decision: Decision
    end: End
    t_s: float
    lasts: bool


class ClosedDecisions:
    """Closed decisions by id. The oldest are forgotten that are not proposed any more.

    Remembered longer are those that last, and those of rules: these keep their id, and are proposed
    for as long as their finding holds.
    """

    def __init__(self) -> None:
        self._all: dict[DecisionId, ClosedDecision] = {}
        self._apart = 0  # remembered longer, as counted last
        self._in_effect: frozenset[DecisionId] = frozenset()  # as the last view knew

    def __contains__(self, id_: object) -> bool:
        return id_ in self._all

    def __len__(self) -> int:
        return len(self._all)

    def get(self, id_: DecisionId) -> ClosedDecision | None:
        """Return a closed decision, if it is remembered."""
        return self._all.get(id_)

    def is_done(self, id_: DecisionId) -> bool:
        """Return whether a decision was carried out."""
        return id_ in self._all and self._all[id_].end is End.DONE

    def newest_first(self) -> Iterator[ClosedDecision]:
        """Return all that are remembered."""
        return reversed(self._all.values())

    def add(self, decision: Decision, end: End, t_s: float, *, lasts: bool = True) -> None:
        """Remember a decision that is over; `lasts`: unless its effect is known to have ended."""
        still = lasts and end is End.DONE and decision.action.lasts
        if end is End.DONE:
            self._end_what_it_takes_back(decision)
        self._all[decision.id] = ClosedDecision(decision=decision, end=end, t_s=t_s, lasts=still)
        if len(self._all) > 1.25 * REMEMBERED + self._apart:
            self._forget()

    def _end_what_it_takes_back(self, decision: Decision) -> None:
        """Note that what lasted until now is over, such as a drain when its node is undrained."""
        action = decision.action
        for id_, each in self._all.items():
            undo = each.decision.undo if each.lasts else None
            if isinstance(undo, type(action)) and not undo.claims.isdisjoint(action.claims):
                self._all[id_] = replace(each, lasts=False)

    def touch(self, id_: DecisionId) -> None:
        """Note that a decision is still proposed: it is among the last that are forgotten."""
        self._all[id_] = self._all.pop(id_)

    def follow(self, in_effect: Collection[DecisionId]) -> None:
        """Note which decisions a view knows to be in effect: those no longer there have ended."""
        now = frozenset(in_effect)
        for id_ in self._in_effect - now:
            if id_ in self._all:
                self._all[id_] = replace(self._all[id_], lasts=False)
        self._in_effect = now

    def next_id(self, id_: DecisionId, t_s: float) -> DecisionId:
        """Return the id under which a decision may be proposed again.

        It is a new one where the last ended without being done: at once if nobody answered, else
        after a while, since its policy proposes it in every turn.
        """
        found, attempt = id_, 1
        while self._may_come_again(found, t_s):
            self.touch(found)  # forgotten, the whole series would begin again
            attempt += 1
            found = DecisionId(stable_id("d", "again", id_, attempt))
        return found

    def _may_come_again(self, id_: DecisionId, t_s: float) -> bool:
        closed = self._all.get(id_)
        if closed is None or closed.end in (End.DONE, End.REJECTED):
            return False
        return closed.end is End.EXPIRED or t_s >= closed.t_s + closed.decision.check_after_s

    def _forget(self) -> None:
        lasting = [id_ for id_, each in self._all.items() if each.lasts][-LASTING:]
        of_rules = [id_ for id_, each in self._all.items() if each.decision.treatment is not None]
        apart = {*lasting, *of_rules[-REMEMBERED:]}
        kept = {*list(self._all)[-REMEMBERED:], *apart}
        self._all = {id_: each for id_, each in self._all.items() if id_ in kept}
        self._apart = len(apart)
