"""Holds decisions from the moment they are made until they are carried out, refused or expired.

What is about to be done is in the journal before it is done, and what was done right after. A
crash between the two leaves a decision with a verdict and no receipt; the next start carries it
out again, which changes nothing where it had been done, since actuators know decisions by id.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from steward.act.guard import Guard
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.actions import Action
from steward.model.decision import Choice, Decision, DecisionState, Receipt, Ruling, Verdict
from steward.model.frame import steps_of
from steward.model.identity import DecisionId, stable_id
from steward.model.outcome import Story
from steward.ports import Actuator, View

__all__ = ["CarriedOut", "Desk"]

TRIES = 3
REMEMBERED = 10_000
STEWARD = "steward"  # who undoes what a check found to be worse
LONGEST_S = 86_400.0  # what was begun and is not over by then has failed


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOut:
    """A decision that was carried out, wholly or partly, or that was begun."""

    decision: Decision
    receipt: Receipt


class _End(Enum):
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"
    REJECTED = "rejected"


@dataclass(slots=True, kw_only=True)
class _Open:
    decision: Decision
    proposed_s: float  # when its policy last proposed it
    verdict: Verdict | None = None
    approved: bool = False
    uncertain: bool = False  # an earlier run may have carried it out
    begun_s: float | None = None  # when the engine began with it
    counted: bool = False  # in the guard's budget
    tries: int = 0


class Desk:
    """All open decisions of a site, the guard that judges them and the actuator that acts.

    Two open decisions are never about the same thing, unless one waits for the other. Those that
    wait are released when what they wait for is done, and dropped when it fails.
    """

    def __init__(self, guard: Guard, actuator: Actuator[Action]) -> None:
        self.guard = guard
        self.actuator = actuator
        self.refused: Counter[str] = Counter()  # proposals that were not taken, by reason
        self._open: dict[DecisionId, _Open] = {}
        self._closed: OrderedDict[DecisionId, tuple[Decision, _End]] = OrderedDict()

    def resume(self, stories: Iterable[Story]) -> None:
        """Take up again what an earlier run left open."""
        for story in stories:
            end = _ENDS.get(story.state)
            if end is not None:
                self._close(story.decision, end)
                continue
            approved = bool(story.choices) and story.choices[0].choice == "approve"
            verdict = story.verdicts[-1] if story.verdicts else None
            begun = [each.t_s for each in story.receipts if each.result == "begun"]
            self._open[story.decision.id] = _Open(
                decision=story.decision,
                proposed_s=story.decision.t_s,
                verdict=verdict,
                approved=approved or story.decision.policy == "person",
                uncertain=verdict is not None and verdict.ruling is Ruling.GO,
                begun_s=begun[0] if begun else None,
                counted=bool(story.receipts),
            )

    def proposed_s(self, decision: DecisionId) -> float | None:
        """Return when an open decision was last proposed; None if it is not open."""
        found = self._open.get(decision)
        return found.proposed_s if found is not None else None

    def reserved(self, view: View) -> frozenset[str]:
        """Return the claims of open decisions, and of those who are left alone for a while."""
        claims = [each.decision.action.claims for each in self._open.values()]
        claims += [view.claims_of(each) for each in self.guard.resting(view.t_s)]
        return frozenset().union(*claims)

    def receive(
        self, decisions: Sequence[Decision], choices: Sequence[Choice], view: View
    ) -> list[Decision | Verdict]:
        """Take in new decisions and people's choices, judge all open ones; return what is new."""
        new: list[Decision | Verdict] = []
        for choice in choices:
            new += self._choose(choice, view)
        again: dict[DecisionId, DecisionId] = {}
        index = _ClaimIndex(each.decision for each in self._open.values())
        for proposed in decisions:
            decision = self._numbered(proposed, again)
            known = self._open.get(decision.id)
            if known is not None:
                known.proposed_s = view.t_s
            elif decision.id not in self._closed and self._is_free(decision, index):
                index.add(decision)
                self._open[decision.id] = _Open(decision=decision, proposed_s=view.t_s)
                new.append(decision)
        new += [verdict for each in list(self._open.values()) for verdict in self._rule(each, view)]
        return new

    def carry_out(
        self, t_s: float, *, only_returns: bool = False
    ) -> Iterator[CarriedOut | Receipt | StewardError]:
        """Do all that may be done now. Call it after what `receive` returned is in the journal."""
        for each in list(self._open.values()):
            if only_returns and not each.decision.returns and each.begun_s is None:
                continue
            if each.verdict is not None and each.verdict.ruling is Ruling.GO:
                yield from self._act(each, t_s)

    # -- taking in -----------------------------------------------------------------------------

    def _numbered(self, decision: Decision, again: dict[DecisionId, DecisionId]) -> Decision:
        """Return a decision with a new id if one of this id expired: it is proposed again."""
        id_, attempt = decision.id, 1
        while id_ in self._closed and self._closed[id_][1] is _End.EXPIRED:
            attempt += 1
            id_ = DecisionId(stable_id("d", "again", decision.id, attempt))
        again[decision.id] = id_
        after = tuple(again.get(each, each) for each in decision.after)
        unchanged = id_ == decision.id and after == decision.after
        return decision if unchanged else replace(decision, id=id_, after=after)

    def _is_free(self, decision: Decision, index: _ClaimIndex) -> bool:
        """Return whether no other open decision is about the same, and count where one is."""
        missing = [each for each in decision.after if not self._is_open_or_done(each)]
        rivals = index.rivals(decision) - {*decision.after}
        if decision.returns or not (missing or rivals):
            return True
        self.refused["what it waits for was not accepted" if missing else "conflict"] += 1
        return False

    def _is_open_or_done(self, id_: DecisionId) -> bool:
        return id_ in self._open or self._closed.get(id_, (None, None))[1] is _End.DONE

    def _choose(self, choice: Choice, view: View) -> Iterator[Decision]:
        each = self._open.get(choice.decision)
        if choice.choice == "undo":
            yield from self._undo(choice, view)
        elif each is not None and choice.choice == "approve":
            each.approved = True
        elif each is not None:
            self._close(each.decision, _End.REJECTED)
            affected = each.decision.action.affects
            if affected is not None:
                self.guard.leave_alone(affected, view.t_s)

    def _undo(self, choice: Choice, view: View) -> Iterator[Decision]:
        """Open a decision that takes another back, with reasons of its own."""
        found = self._closed.get(choice.decision)
        undo = found[0].undo if found is not None and found[1] is _End.DONE else None
        if found is None or undo is None:
            return
        decision, by_person = found[0], choice.user != STEWARD
        undoing = Decision(
            id=DecisionId(stable_id("d", "undo", decision.id)),
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
        if undoing.id not in self._open and undoing.id not in self._closed:
            self._open[undoing.id] = _Open(
                decision=undoing, proposed_s=view.t_s, approved=by_person
            )
            yield undoing

    # -- judging -------------------------------------------------------------------------------

    def _rule(self, each: _Open, view: View) -> Iterator[Verdict]:
        if self._may_be_done(each, view):
            return
        before = each.verdict
        verdict = self._judge(each, view)
        each.verdict = verdict
        if verdict.ruling is Ruling.EXPIRE:
            self._close(each.decision, _End.EXPIRED)
        if verdict.ruling is Ruling.GO and not each.counted:
            # counted at once: the next decision of this turn must see the budget that is left
            self.guard.record(each.decision, view.t_s)
            each.counted = True
        if before is None or before.ruling is not verdict.ruling:
            yield verdict

    def _judge(self, each: _Open, view: View) -> Verdict:
        """Judge a decision by those that it waits for, then by the guard."""
        decision = each.decision
        for id_ in decision.after:
            if id_ in self._open:
                why = f"waits for {id_}"
                return Verdict(decision=decision.id, t_s=view.t_s, ruling=Ruling.HOLD, why=why)
            end = self._closed.get(id_, (None, _End.EXPIRED))[1]
            if end is not _End.DONE:
                why = f"{id_}, which it waits for, {_WORDS[end]}"
                return Verdict(decision=decision.id, t_s=view.t_s, ruling=Ruling.EXPIRE, why=why)
        return self.guard.judge(decision, view, approved=each.approved, since_s=each.proposed_s)

    @staticmethod
    def _may_be_done(each: _Open, view: View) -> bool:
        """Return whether the engine is at it, or may have done it without our knowing.

        Then the engine is asked again, and nothing is judged again.
        """
        if each.begun_s is not None:
            return True
        if each.decision.returns or not (each.uncertain or each.tries):
            return False
        return each.decision.action.may_be_done(view)  # type: ignore[arg-type] # its domain's view

    # -- acting --------------------------------------------------------------------------------

    def _act(self, each: _Open, t_s: float) -> Iterator[CarriedOut | Receipt | StewardError]:
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

    def _ask(self, each: _Open, t_s: float) -> Receipt:
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

    def _take(self, each: _Open, receipt: Receipt) -> Iterator[CarriedOut | Receipt | StewardError]:
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
        self._close(decision, _End.FAILED if failed else _End.DONE)
        yield receipt if failed else CarriedOut(decision=decision, receipt=receipt)

    def _close(self, decision: Decision, end: _End) -> None:
        self._open.pop(decision.id, None)
        self._closed[decision.id] = (decision, end)
        while len(self._closed) > REMEMBERED:
            self._closed.popitem(last=False)


_ENDS = {
    DecisionState.ACTIVE: _End.DONE,
    DecisionState.DONE: _End.DONE,
    DecisionState.UNDONE: _End.DONE,
    DecisionState.FAILED: _End.FAILED,
    DecisionState.EXPIRED: _End.EXPIRED,
    DecisionState.REJECTED: _End.REJECTED,
}
_WORDS = {_End.FAILED: "failed", _End.EXPIRED: "expired", _End.REJECTED: "was rejected"}


class _ClaimIndex:
    """Which decisions are about what: jobs, GPUs, nodes, and the nodes of GPUs."""

    def __init__(self, decisions: Iterable[Decision]) -> None:
        self._claims: defaultdict[str, set[DecisionId]] = defaultdict(set)
        self._nodes: defaultdict[str, set[DecisionId]] = defaultdict(set)
        for decision in decisions:
            self.add(decision)

    def add(self, decision: Decision) -> None:
        for claim in decision.action.claims:
            self._claims[claim].add(decision.id)
        for node in _nodes(decision.action):
            self._nodes[node].add(decision.id)

    def rivals(self, decision: Decision) -> set[DecisionId]:
        """Return the decisions about the same job or GPU, or about a node with its GPUs."""
        claims = decision.action.claims
        found = [self._claims.get(each, set()) for each in claims | _nodes(decision.action)]
        found += [self._nodes.get(each, set()) for each in claims]
        return set().union(*found) - {decision.id}


def _nodes(action: Action) -> frozenset[str]:
    return frozenset(f"node:{steps_of(gpu)[0]}" for gpu in action.gpus)


def _failed(decision: Decision, t_s: float, text: str) -> Receipt:
    return Receipt(decision=decision.id, t_s=t_s, result="failed", gpus=(), text=text)
