"""Holds decisions from the moment they are made until they are carried out, refused or expired.

What is about to be done is in the journal before it is done, and what was done right after. A
crash between the two leaves a decision with a verdict and no receipt; the next start carries it
out again, which changes nothing where it had been done, since actuators know decisions by id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from steward.act.choices import Choices
from steward.act.closed_decisions import End
from steward.act.desk_state import DeskState, OpenDecision
from steward.act.guard import Guard
from steward.act.proposals import Proposals
from steward.act.verdicts import Judge
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.actions import Action
from steward.model.decision import (
    Choice,
    Decision,
    DecisionState,
    Receipt,
    Ruling,
    Verdict,
)
from steward.model.identity import DecisionId
from steward.model.outcome import Story
from steward.ports import Actuator, View

__all__ = ["CarriedOut", "Desk"]

TRIES = 3
LONGEST_S = 86_400.0  # what was begun and is not over by then has failed
_ENDS = {
    DecisionState.ACTIVE: End.DONE,
    DecisionState.DONE: End.DONE,
    DecisionState.UNDONE: End.DONE,
    DecisionState.FAILED: End.FAILED,
    DecisionState.EXPIRED: End.EXPIRED,
    DecisionState.REJECTED: End.REJECTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOut:
    """A decision that was carried out, wholly or partly, or that was begun."""

    decision: Decision
    receipt: Receipt


class Desk:
    """All open decisions of a site, the guard that judges them and the actuator that acts.

    Two open decisions are never about the same thing, unless one waits for the other. Those that
    wait are released when what they wait for is done, and dropped when it fails. `proposals.py` has
    what is opened, `choices.py` what people say, `verdicts.py` what may go when.
    """

    def __init__(self, guard: Guard, actuator: Actuator[Action]) -> None:
        self._state = state = DeskState(guard, actuator)
        self._open, self._closed = state.open, state.closed
        self._proposals = Proposals(state)
        self._choices = Choices(state)
        self._judge = Judge(state)

    @property
    def guard(self) -> Guard:
        """Who judges; another one may take over."""
        return self._state.guard

    @guard.setter
    def guard(self, guard: Guard) -> None:
        self._state.guard = guard

    @property
    def actuator(self) -> Actuator[Action]:
        """Who acts; another one may take over."""
        return self._state.actuator

    @actuator.setter
    def actuator(self, actuator: Actuator[Action]) -> None:
        self._state.actuator = actuator

    @property
    def refused(self) -> Counter[str]:
        """How many proposals were not taken, by reason."""
        return self._proposals.refused

    def resume(self, stories: Iterable[Story]) -> None:
        """Take up again what an earlier run left open."""
        for story in stories:
            self._leave_alone_again(story)
            end = _ENDS.get(story.state)
            if end is not None:
                last_s = max([story.decision.t_s, *(each.t_s for each in story.verdicts)])
                lasts = story.state is DecisionState.ACTIVE
                self._closed.add(story.decision, end, last_s, lasts=lasts)
                continue
            approved = bool(story.choices) and story.choices[0].choice == "approve"
            verdict = story.verdicts[-1] if story.verdicts else None
            begun = [each.t_s for each in story.receipts if each.result == "begun"]
            self._open[story.decision.id] = OpenDecision(
                decision=story.decision,
                proposed_s=story.decision.t_s,
                verdict=verdict,
                approved=approved or story.decision.policy == "person",
                uncertain=any(each.ruling is Ruling.GO for each in story.verdicts),
                resumed=True,
                begun_s=begun[0] if begun else None,
                counted=bool(story.receipts),
            )
        for each in self._open.values():
            for id_ in each.decision.after:
                if id_ in self._open:
                    self._open[id_].makes_room_for += (each.decision.id,)

    def _leave_alone_again(self, story: Story) -> None:
        """Leave a job alone for as long as before the restart: a person refused, a loan ended."""
        affected = story.decision.action.affects
        ends = [each.t_s for each in story.choices if each.choice != "approve"]
        if story.state is DecisionState.DONE and story.decision.action.lasts:
            ends += [each.to_s for each in story.outcomes]
        if affected is not None and ends:
            self.guard.leave_alone(affected, max(ends))

    def proposed_s(self, decision: DecisionId) -> float | None:
        """Return when an open decision was last proposed; None if it is not open."""
        found = self._open.get(decision)
        return found.proposed_s if found is not None else None

    def reserved(self, view: View) -> frozenset[str]:
        """Return the claims of open decisions, and of those who are left alone for a while.

        Of a job that was disturbed often enough, only what it runs on: it may be started again.
        """
        return self._proposals.reserved(view)

    def receive(
        self,
        decisions: Sequence[Decision],
        choices: Sequence[Choice],
        view: View,
        *,
        listed: bool = False,
    ) -> list[Decision | Verdict]:
        """Take in new decisions and people's choices, judge all open ones; return what is new.

        `listed` says that all that the engine has is in the view, however early in this run.
        What was new in a call that failed is returned by the next.
        """
        self._judge.look(view, listed=listed)
        self._closed.follow(view.lasting)
        self._choices.apply(choices, view)
        self._proposals.accept(decisions, view)
        for each in list(self._open.values()):
            self._judge.rule(each, view)
        new, self._state.news = self._state.news, []
        return new

    def drop(self, decisions: Iterable[DecisionId]) -> None:
        """Close decisions that could not be written down: they must not be carried out."""
        for id_ in decisions:
            if id_ in self._open:
                each = self._open[id_]
                self._state.close(each.decision, End.VOID, each.proposed_s)

    def carry_out(
        self, t_s: float, *, only_returns: bool = False
    ) -> Iterator[CarriedOut | Receipt | StewardError]:
        """Do all that may be done now. Call it after what `receive` returned is in the journal."""
        for each in list(self._open.values()):
            if only_returns and not each.decision.returns and each.begun_s is None:
                continue
            if each.verdict is not None and each.verdict.ruling is Ruling.GO:
                yield from self._act(each, t_s)

    # -- acting --------------------------------------------------------------------------------

    def _act(self, each: OpenDecision, t_s: float) -> Iterator[CarriedOut | Receipt | StewardError]:
        self._judge.charge(each, t_s)  # what an earlier run began may not be charged yet
        try:
            receipt = self._ask(each, t_s)
        except TemporaryError as fault:
            if each.tries < TRIES or each.decision.returns or each.begun_s is not None:
                yield fault
                return
            receipt = _failed(each.decision, t_s, f"given up after {TRIES} tries: {fault}")
        except PermanentError as fault:
            receipt = _failed(each.decision, t_s, str(fault))
        except Exception as fault:  # noqa: BLE001 - a plug's fault must not stop the loop
            receipt = _failed(each.decision, t_s, f"{type(fault).__name__}: {fault}")
        yield from self._take(each, receipt)

    def _ask(self, each: OpenDecision, t_s: float) -> Receipt:
        """Let the engine begin, or ask it how far it is."""
        decision = each.decision
        if each.begun_s is not None:
            receipt = self.actuator.progress(decision, t_s)
            if receipt.result == "begun" and t_s - each.begun_s > LONGEST_S:
                return _failed(decision, t_s, f"not over after {LONGEST_S / 3600:.0f} hours")
            return receipt
        if not isinstance(decision.action, self.actuator.actions()):
            return _failed(decision, t_s, f"{self.actuator.name} cannot {decision.action.type}")
        each.tries += 1
        return self.actuator.carry_out(decision, t_s)

    def _take(
        self, each: OpenDecision, receipt: Receipt
    ) -> Iterator[CarriedOut | Receipt | StewardError]:
        decision = each.decision
        if receipt.result == "begun":
            new, each.begun_s = each.begun_s is None, each.begun_s or receipt.t_s
            if new:
                yield CarriedOut(decision=decision, receipt=receipt)
            return
        if decision.returns and receipt.result != "done":
            each.begun_s = None
            yield TemporaryError(f"{receipt.text}; what was lent is called back again next turn")
            return
        failed = receipt.result == "failed"
        self._state.close(decision, End.FAILED if failed else End.DONE, receipt.t_s)
        yield receipt if failed else CarriedOut(decision=decision, receipt=receipt)


def _failed(decision: Decision, t_s: float, text: str) -> Receipt:
    return Receipt(decision=decision.id, t_s=t_s, result="failed", gpus=(), text=text)
