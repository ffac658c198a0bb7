"""Judges open decisions: by those that they wait for or make room for, the guard, and the view."""

from __future__ import annotations

import re
from dataclasses import replace

from steward.act.closed_decisions import End
from steward.act.desk_state import DeskState, OpenDecision
from steward.model.decision import Decision, Ruling, Verdict
from steward.model.identity import DecisionId
from steward.ports import PlacesJobs, View

__all__ = ["Judge"]

SEEN_WITHIN_S = 60.0  # what an engine has done is in the view at the latest after this time
FIRST_SEEN_WITHIN_S = 300.0  # after a restart, engines may need so long to list what they have
_NUMBER = re.compile(r"\b\d[\d.,]*\b")  # in a reason: seconds and GPUs that are left
_WORDS = {
    End.FAILED: "failed",
    End.EXPIRED: "expired",
    End.VOID: "expired",
    End.REJECTED: "was rejected",
}


class Judge:
    """Says of each open decision whether it may go now, has to wait, or is over."""

    def __init__(self, state: DeskState) -> None:
        self._state, self._open, self._closed = state, state.open, state.closed
        self._first_s: float | None = None  # when the first view of this run came
        self._listed = False  # whether views hold all that the engine has

    def look(self, view: View, *, listed: bool) -> None:
        """Note that a view came; `listed`: all that the engine has is in it."""
        self._first_s = view.t_s if self._first_s is None else self._first_s
        self._listed = self._listed or listed

    def rule(self, each: OpenDecision, view: View) -> None:
        """Give an open decision its verdict, and close it if that is its end."""
        if self._may_be_done(each, view):
            self._ask_again(each, view.t_s)
            return
        before = each.verdict
        verdict = self._judge(each, view)
        each.verdict = verdict
        if verdict.ruling is Ruling.EXPIRE:
            unanswered = before is not None and before.ruling is Ruling.ASK
            self._state.close(each.decision, End.EXPIRED if unanswered else End.VOID, view.t_s)
        if verdict.ruling is Ruling.GO:
            self.charge(each, view.t_s)  # the next one of this turn must see what is left
        if before is None or _is_news(before, verdict):
            self._state.news.append(verdict)

    def charge(self, each: OpenDecision, t_s: float) -> None:
        """Count a decision in the guard's budget, once."""
        if not each.counted:
            self._state.guard.record(each.decision, t_s, approved=each.approved)
            each.counted = True

    def _judge(self, each: OpenDecision, view: View) -> Verdict:
        """Judge a decision by those that it waits for or makes room for, then by the guard."""
        ruling, why = self._by_others(each, view.t_s)
        if ruling is not None:
            return Verdict(decision=each.decision.id, t_s=view.t_s, ruling=ruling, why=why)
        verdict = self._state.guard.judge(
            each.decision, view, approved=each.approved, since_s=each.proposed_s
        )
        if verdict.ruling is Ruling.EXPIRE and (left := self._left_to_engine(each, view)):
            return replace(verdict, ruling=Ruling.GO, why=f"{verdict.why}: {left}")
        if verdict.ruling is Ruling.EXPIRE and self._may_not_be_seen_yet(each, view):
            if each.verdict is not None and each.verdict.ruling is Ruling.ASK and not each.approved:
                return each.verdict
            return replace(verdict, ruling=Ruling.HOLD, why=f"{verdict.why}, as seen so far")
        if verdict.ruling is Ruling.GO and self._is_in_vain(each, view.t_s):
            return replace(verdict, ruling=Ruling.HOLD, why="another stop for the same start waits")
        return verdict

    def _is_in_vain(self, each: OpenDecision, t_s: float) -> bool:
        """Return whether all that this makes room for also waits for stops that may not all go."""
        after = [self._open[id_].decision.after for id_ in each.makes_room_for if id_ in self._open]
        return bool(after) and not any(self._state.could_all_go(stops, t_s) for stops in after)

    def _by_others(self, each: OpenDecision, t_s: float) -> tuple[Ruling | None, str]:
        decision = each.decision
        for id_ in decision.after:
            closed = self._closed.get(id_)
            if id_ in self._open:
                each.proposed_s = t_s  # it is valid from when it can be carried out
                asks = not each.approved and self._state.guard.permits(decision, t_s) is Ruling.ASK
                return (Ruling.ASK if asks else Ruling.HOLD), f"waits for {id_}"
            if closed is None or closed.end is not End.DONE:
                end = "is unknown" if closed is None else _WORDS[closed.end]
                return Ruling.EXPIRE, f"{id_}, which it waits for, {end}"
        if decision.after and each.released_s is None:
            each.released_s = t_s
        if not each.makes_room_for:
            return None, ""
        dependants = [self._open[id_] for id_ in each.makes_room_for if self._can_follow(id_)]
        if not dependants:
            return Ruling.EXPIRE, "what it makes room for is not wanted any more"
        if not any(self._state.could_go(dependant, t_s) for dependant in dependants):
            return Ruling.HOLD, f"{dependants[0].decision.id}, for which it makes room, may not go"
        return None, ""

    def _can_follow(self, id_: DecisionId) -> bool:
        """Return whether a decision is open, and nothing that it waits for ended undone."""
        after = self._open[id_].decision.after if id_ in self._open else ()
        return id_ in self._open and all(
            other in self._open or self._closed.is_done(other) for other in after
        )

    def _left_to_engine(self, each: OpenDecision, view: View) -> str:
        """Return why the engine decides although the view is against it; empty: it does not."""
        if self._may_have_happened(each, view):
            return "the engine is asked"
        return "the engine finds others" if self._is_placed_by_engine(each, view) else ""

    def _may_have_happened(self, each: OpenDecision, view: View) -> bool:
        """Return whether what waited to be released looks done: engines start jobs themselves."""
        if each.released_s is None or not self._state.could_go(each, view.t_s):
            return False
        return view.may_be_done(each.decision.action) or self._is_gone(each.decision, view)

    def _is_placed_by_engine(self, each: OpenDecision, view: View) -> bool:
        """Return whether room was made for a start, and others may be on the GPUs that it names."""
        action = each.decision.action
        if each.released_s is None or not isinstance(self._state.actuator, PlacesJobs):
            return False
        if view.is_lost(action):  # the room that was made; what is left may be nobody's
            return False
        unmet = bool(view.unmet(action)) and self._state.could_go(each, view.t_s)
        seen = action.acts_on is not None and bool(view.claims_of(action.acts_on))
        closed = (self._closed.get(id_) for id_ in each.decision.after)
        stopped = [x.decision.action.acts_on for x in closed if x is not None]
        current = not any(view.claims_of(x) - {f"job:{x}"} for x in stopped if x is not None)
        return unmet and seen and current and self._state.actuator.places(action)

    def _is_gone(self, decision: Decision, view: View) -> bool:
        """Return whether a job has left a view that has those who made room for it."""
        job = decision.action.acts_on
        closed = (self._closed.get(id_) for id_ in decision.after)
        others = {each.decision.action.acts_on for each in closed if each is not None} - {None}
        if job is None or job in others or view.claims_of(job):
            return False
        return any(view.claims_of(other) for other in others if other is not None)

    def _may_not_be_seen_yet(self, each: OpenDecision, view: View) -> bool:
        """Return whether the view may lack what this waited for, or, after a restart, anything."""
        t_s = view.t_s
        if each.released_s is not None and t_s - each.released_s <= SEEN_WITHIN_S:
            return not view.is_lost(each.decision.action)
        began_s = t_s if self._first_s is None else self._first_s
        just_resumed = each.resumed and not self._listed and t_s - began_s <= FIRST_SEEN_WITHIN_S
        return just_resumed and bool(view.unmet(each.decision.action))

    def _ask_again(self, each: OpenDecision, t_s: float) -> None:
        """Let what may be done go, where the first views after a restart had held it."""
        if each.verdict is not None and each.verdict.ruling is Ruling.GO:
            return
        why = "it may have been done before a restart: the engine is asked"
        each.verdict = Verdict(decision=each.decision.id, t_s=t_s, ruling=Ruling.GO, why=why)
        self._state.news.append(each.verdict)

    def _may_be_done(self, each: OpenDecision, view: View) -> bool:
        """Return whether the engine is at it, or may have done it without our knowing.

        Then the engine is asked again, and nothing is judged again.
        """
        if each.begun_s is not None:
            return True
        if each.decision.returns or not (each.uncertain or each.tries):
            return False
        if view.may_be_done(each.decision.action):
            return True
        job = each.decision.action.acts_on  # it may have been started, and have ended since
        return self._listed and each.uncertain and job is not None and not view.claims_of(job)


def _is_news(before: Verdict, now: Verdict) -> bool:
    """Return whether a verdict says anything new, beside the numbers in its reason."""
    if before.ruling is not now.ruling or now.ruling is Ruling.GO:
        return before.ruling is not now.ruling
    return _NUMBER.sub("", before.why) != _NUMBER.sub("", now.why)
