"""Takes in what people choose: approvals, rejections, and what is to be undone."""

from __future__ import annotations

from collections.abc import Sequence

from steward.act.claims import ClaimIndex
from steward.act.closed_decisions import End
from steward.act.desk_state import DeskState, OpenDecision
from steward.model.decision import EFFECT_CHECK, Choice, Decision, Ruling, Verdict
from steward.model.identity import DecisionId
from steward.ports import View

__all__ = ["Choices"]


class Choices:
    """Applies choices to decisions. An undo waits for what is being carried out."""

    def __init__(self, state: DeskState) -> None:
        self._state, self._open, self._closed = state, state.open, state.closed
        self._undos: list[Choice] = []  # that have to wait for what is being carried out

    def apply(self, choices: Sequence[Choice], view: View) -> None:
        """Apply choices, those first that had to wait."""
        waiting, self._undos = self._undos, []
        for choice in (*waiting, *choices):
            self._choose(choice, view)

    def _choose(self, choice: Choice, view: View) -> None:
        each = self._open.get(choice.decision)
        if choice.choice == "undo":
            self._undo(choice, view)
        elif each is not None and choice.choice == "approve":
            each.approved = True
        elif each is not None and not each.approved:  # the first counts, as in a story's state
            self._state.close(each.decision, End.REJECTED, view.t_s)
            affected = each.decision.action.affects
            if affected is not None:
                self._state.guard.leave_alone(affected, view.t_s)

    def _undo(self, choice: Choice, view: View) -> None:
        """Open a decision that takes another back, with reasons of its own.

        Open decisions about the same give way, unless the engine is at one of them. What is not
        over yet is undone when it is.
        """
        if choice.decision in self._open:
            self._undos.append(choice)
            return
        found = self._closed.get(choice.decision)
        if too_late := self._too_late_to_undo(choice.decision):
            why = f"it cannot be undone any more: {too_late}"
            held = Verdict(decision=choice.decision, t_s=view.t_s, ruling=Ruling.HOLD, why=why)
            self._state.news.append(held)
            return
        undo = found.decision.undo if found is not None and found.end is End.DONE else None
        if found is None or undo is None:
            return
        decision, by_person = found.decision, choice.user != EFFECT_CHECK
        undoing = Decision(
            id=decision.undo_id(choice.t_s),
            t_s=view.t_s,
            policy="person" if by_person else "verify",
            action=undo,
            because=f"{choice.user} undid {decision.id}"
            + (f": {choice.note}" if choice.note else ""),
            check_after_s=decision.check_after_s,
            tenant=decision.tenant,
            subject=decision.subject,
            undoes=decision.id,
        )
        if undoing.id in self._closed or self._is_undone(decision.id):
            return
        rivals = ClaimIndex((each.decision, frozenset()) for each in self._open.values()).rivals(
            undoing
        )
        if any(self._open[id_].tries or self._open[id_].begun_s is not None for id_ in rivals):
            self._undos.append(choice)
            return
        for id_ in sorted(rivals):
            self._state.give_way(id_, f"{choice.user} undid {decision.id}", view.t_s)
        self._state.begin(OpenDecision(decision=undoing, proposed_s=view.t_s, approved=by_person))
        affected = decision.action.affects
        if by_person and affected is not None:  # else the policy would do it again at once
            self._state.guard.leave_alone(affected, view.t_s)

    def _is_undone(self, id_: DecisionId) -> bool:
        """Return whether a decision that takes this one back is open, or was carried out."""
        return any(each.decision.undoes == id_ for each in self._open.values()) or any(
            each.decision.undoes == id_ and each.end is End.DONE
            for each in self._closed.newest_first()
        )

    def _too_late_to_undo(self, id_: DecisionId) -> str:
        """Return why there is nothing left to take back; empty if there is."""
        found = self._closed.get(id_)
        if found is None:
            return "it was too long ago"
        if found.lasts or found.end is not End.DONE:
            return ""
        claims = found.decision.action.claims
        later = (
            each.decision.id
            for each in self._closed.newest_first()
            if each.end is End.DONE
            and each.t_s > found.t_s
            and not claims.isdisjoint(each.decision.action.claims)
            and each.decision.undoes != id_
        )
        newer = next(later, "")
        return f"{newer} was carried out since" if newer else ""
