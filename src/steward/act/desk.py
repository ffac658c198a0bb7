"""Holds decisions from the moment they are made until they are carried out, refused or expired.

What is about to be done is in the journal before it is done, and what was done right after. A
crash between the two leaves a decision with a verdict and no receipt; the next start carries it
out again, which changes nothing where it had been done, since actuators know decisions by id.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from steward.act.claims import ClaimIndex, claims_node, nodes_of
from steward.act.closed_decisions import ClosedDecisions, End
from steward.act.guard import Guard
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.actions import Action, Budget
from steward.model.actions.checks import job_claim
from steward.model.decision import (
    EFFECT_CHECK,
    Autonomy,
    Choice,
    Decision,
    DecisionState,
    Receipt,
    Ruling,
    Verdict,
)
from steward.model.identity import DecisionId
from steward.model.outcome import Story
from steward.ports import Actuator, PlacesJobs, View

__all__ = ["CarriedOut", "Desk"]

TRIES = 3
SEEN_WITHIN_S = 60.0  # what an engine has done is in the view at the latest after this time
FIRST_SEEN_WITHIN_S = 300.0  # after a restart, engines may need so long to list what they have
SPARED_S = 600.0  # nothing is planned for so long around a job that may not be stopped now
_NUMBER = re.compile(r"\b\d[\d.,]*\b")  # in a reason: seconds and GPUs that are left
LONGEST_S = 86_400.0  # what was begun and is not over by then has failed


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOut:
    """A decision that was carried out, wholly or partly, or that was begun."""

    decision: Decision
    receipt: Receipt


@dataclass(slots=True, kw_only=True)
class _Open:
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


class Desk:
    """All open decisions of a site, the guard that judges them and the actuator that acts.

    Two open decisions are never about the same thing, unless one waits for the other. Those that
    wait are released when what they wait for is done, and dropped when it fails.

    People take hours to answer. What waits for them keeps no free GPU, waiting job or failing node
    from others: a start that also takes free GPUs is refused while a stop that it needs may not go,
    a waiting job goes to the first decision that may start it without asking, and a node is
    drained although somebody is asked about one of its GPUs.

    What is about a whole node goes before what is about its GPUs: while it has to wait for an open
    decision there, no other one is opened there.
    """

    def __init__(self, guard: Guard, actuator: Actuator[Action]) -> None:
        self.guard = guard
        self.actuator = actuator
        self.refused: Counter[str] = Counter()  # proposals that were not taken, by reason
        self._open: dict[DecisionId, _Open] = {}
        self._closed = ClosedDecisions()
        self._news: list[Decision | Verdict] = []  # what the journal has to have first
        self._undos: list[Choice] = []  # that have to wait for what is being carried out
        self._first_s: float | None = None  # when the first view of this run came
        self._listed = False  # whether views hold all that the engine has
        self._awaited: frozenset[str] = frozenset()  # claims of what waits for a whole node
        self._spared: dict[str, float] = {}  # claims on jobs that may not be stopped: until when

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
            self._open[story.decision.id] = _Open(
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
        self._spared = {job: s for job, s in self._spared.items() if s > view.t_s}
        claims = [each.decision.action.claims - self._yields(each) for each in self._open.values()]
        claims += [view.claims_of(each) for each in self.guard.resting(view.t_s)]
        spared = self.guard.spared(view.t_s)
        claims += [view.claims_of(each) - {job_claim(each)} for each in spared]
        return self._awaited.union(self._spared, *claims)

    def _yields(self, each: _Open) -> frozenset[str]:
        """Return the claims that a decision gives up to others while a person is asked about it.

        Those are the job that it would start, and the nodes of its GPUs: they can be drained.
        Where everything needs a person, nothing is gained by it.
        """
        if self.guard.limits.autonomy is not Autonomy.AUTO or not self._asks(each):
            return frozenset()
        action = each.decision.action
        starts = action.budget is Budget.START or action.acts_on != action.affects
        jobs = {job_claim(action.acts_on)} if starts and action.acts_on is not None else set()
        return nodes_of(action) | jobs

    def _asks(self, each: _Open) -> bool:
        """Return whether a decision, or one that it waits for, waits for a person."""
        if each.verdict is not None and each.verdict.ruling is Ruling.ASK and not each.approved:
            return True
        return any(self._asks(self._open[id_]) for id_ in each.decision.after if id_ in self._open)

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
        self._first_s = view.t_s if self._first_s is None else self._first_s
        self._listed = self._listed or listed
        self._closed.follow(view.lasting)
        waiting, self._undos = self._undos, []
        for choice in (*waiting, *choices):
            self._choose(choice, view)
        self._accept(decisions, view)
        for each in list(self._open.values()):
            self._rule(each, view)
        new, self._news = self._news, []
        return new

    def drop(self, decisions: Iterable[DecisionId]) -> None:
        """Close decisions that could not be written down: they must not be carried out."""
        for id_ in decisions:
            if id_ in self._open:
                each = self._open[id_]
                self._close(each.decision, End.VOID, each.proposed_s)

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

    def _accept(self, decisions: Sequence[Decision], view: View) -> None:
        """Open those proposals that are new and about nothing that another one is about.

        What only makes room for others is not opened when none of those is.
        """
        again: dict[DecisionId, DecisionId] = {}
        index = ClaimIndex((each.decision, self._yields(each)) for each in self._open.values())
        accepted: set[DecisionId] = set()
        awaited: set[str] = set()
        wanted: defaultdict[DecisionId, list[DecisionId]] = defaultdict(list)
        for proposed in sorted(decisions, key=_is_no_node_first):
            decision = self._numbered(proposed, again, view.t_s)
            for id_ in decision.after:
                wanted[id_].append(decision.id)
            known = self._is_known(decision.id, view.t_s)
            if not known and self._is_free(decision, index, view.t_s):
                for id_ in sorted(index.yielding_to(decision)):
                    why = f"{decision.id} is about the same and needs no approval"
                    index.discard(self._open[id_].decision)
                    self._give_way(id_, why, view.t_s)
                index.add(decision)
                self._begin(_Open(decision=decision, proposed_s=view.t_s))
                accepted.add(decision.id)
            elif not known and self._waits_for_node(decision, view.t_s):
                index.add(decision)
                awaited |= decision.action.claims
        self._awaited = frozenset(awaited)
        self._note_dependants(wanted, accepted)

    def _note_dependants(
        self, wanted: Mapping[DecisionId, list[DecisionId]], accepted: set[DecisionId]
    ) -> None:
        """Note what each decision makes room for; close those of which nothing was accepted."""
        for id_, dependants in wanted.items():
            if id_ in accepted and not any(each in self._open for each in dependants):
                self._news.remove(self._open.pop(id_).decision)
                self.refused["what it makes room for was not accepted"] += 1
            elif id_ in self._open:
                each = self._open[id_]
                each.makes_room_for = tuple(dict.fromkeys((*each.makes_room_for, *dependants)))

    def _begin(self, each: _Open) -> None:
        self._news.append(each.decision)
        self._open[each.decision.id] = each

    def _give_way(self, id_: DecisionId, why: str, t_s: float) -> None:
        """Close a decision: another one about the same is to be carried out."""
        self._news.append(Verdict(decision=id_, t_s=t_s, ruling=Ruling.EXPIRE, why=why))
        self._close(self._open[id_].decision, End.VOID, t_s)

    def _is_known(self, id_: DecisionId, t_s: float) -> bool:
        """Return whether a proposal is open or over; both are remembered while it is made."""
        if id_ in self._open:
            self._open[id_].proposed_s = t_s
        elif id_ in self._closed:
            self._closed.touch(id_)
        return id_ in self._open or id_ in self._closed

    def _numbered(
        self, decision: Decision, again: dict[DecisionId, DecisionId], t_s: float
    ) -> Decision:
        """Return a decision with a new id where one of this id ended without being done."""
        id_ = again[decision.id] = self._closed.next_id(decision.id, t_s)
        after = tuple(again.get(each, each) for each in decision.after)
        unchanged = id_ == decision.id and after == decision.after
        return decision if unchanged else replace(decision, id=id_, after=after)

    def _is_free(self, decision: Decision, index: ClaimIndex, t_s: float) -> bool:
        """Return whether a decision may be opened, and count why not."""
        refused = "" if decision.returns else self._in_the_way(decision, index, t_s)
        if refused:
            self.refused[refused] += 1
        return not refused

    def _waits_for_node(self, decision: Decision, t_s: float) -> bool:
        """Return whether a refused decision is about a node, and might go but for a conflict."""
        return claims_node(decision.action) and self.guard.permits(decision, t_s) is Ruling.GO

    def _in_the_way(self, decision: Decision, index: ClaimIndex, t_s: float) -> str:
        if not all(id_ in self._open or self._closed.is_done(id_) for id_ in decision.after):
            return "what it waits for was not accepted"
        stops = [self._open[id_] for id_ in decision.after if id_ in self._open]
        blocked = [each for each in stops if not self._could_go(each, t_s)]
        if not blocked and not self._could_all_go(decision.after, t_s):
            blocked = stops
        goes = self.guard.permits(decision, t_s) is Ruling.GO
        if index.rivals(decision) - {*decision.after}:
            return "conflict"
        if index.yielding_to(decision) and not (goes and not blocked):
            return "conflict"
        theirs = {gpu for each in blocked for gpu in each.decision.action.gpus}
        if goes and blocked and not theirs.issuperset(decision.action.gpus):
            for each in blocked:
                self._spare(each.decision.action, t_s)
            return "it would keep GPUs free until a stop is allowed"
        return ""

    def _spare(self, stop: Action, t_s: float) -> None:
        """Let policies plan without stopping a job for a while: that may not be done now."""
        if stop.affects is not None:
            self._spared[job_claim(stop.affects)] = t_s + SPARED_S

    def _choose(self, choice: Choice, view: View) -> None:
        each = self._open.get(choice.decision)
        if choice.choice == "undo":
            self._undo(choice, view)
        elif each is not None and choice.choice == "approve":
            each.approved = True
        elif each is not None and not each.approved:  # the first counts, as in a story's state
            self._close(each.decision, End.REJECTED, view.t_s)
            affected = each.decision.action.affects
            if affected is not None:
                self.guard.leave_alone(affected, view.t_s)

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
            self._news.append(held)
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
            self._give_way(id_, f"{choice.user} undid {decision.id}", view.t_s)
        self._begin(_Open(decision=undoing, proposed_s=view.t_s, approved=by_person))
        affected = decision.action.affects
        if by_person and affected is not None:  # else the policy would do it again at once
            self.guard.leave_alone(affected, view.t_s)

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

    # -- judging -------------------------------------------------------------------------------

    def _rule(self, each: _Open, view: View) -> None:
        if self._may_be_done(each, view):
            self._ask_again(each, view.t_s)
            return
        before = each.verdict
        verdict = self._judge(each, view)
        each.verdict = verdict
        if verdict.ruling is Ruling.EXPIRE:
            unanswered = before is not None and before.ruling is Ruling.ASK
            self._close(each.decision, End.EXPIRED if unanswered else End.VOID, view.t_s)
        if verdict.ruling is Ruling.GO:
            self._charge(each, view.t_s)  # the next one of this turn must see what is left
        if before is None or _is_news(before, verdict):
            self._news.append(verdict)

    def _charge(self, each: _Open, t_s: float) -> None:
        if not each.counted:
            self.guard.record(each.decision, t_s, approved=each.approved)
            each.counted = True

    def _judge(self, each: _Open, view: View) -> Verdict:
        """Judge a decision by those that it waits for or makes room for, then by the guard."""
        ruling, why = self._by_others(each, view.t_s)
        if ruling is not None:
            return Verdict(decision=each.decision.id, t_s=view.t_s, ruling=ruling, why=why)
        verdict = self.guard.judge(
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

    def _is_in_vain(self, each: _Open, t_s: float) -> bool:
        """Return whether all that this makes room for also waits for stops that may not all go."""
        after = [self._open[id_].decision.after for id_ in each.makes_room_for if id_ in self._open]
        return bool(after) and not any(self._could_all_go(stops, t_s) for stops in after)

    def _could_all_go(self, ids: Iterable[DecisionId], t_s: float) -> bool:
        """Return whether those of these that are open may all be carried out, one with another."""
        found = [self._open[id_] for id_ in ids if id_ in self._open]
        return self.guard.permits_all([x.decision for x in found if not _may_go(x)], t_s)

    def _by_others(self, each: _Open, t_s: float) -> tuple[Ruling | None, str]:
        decision = each.decision
        for id_ in decision.after:
            closed = self._closed.get(id_)
            if id_ in self._open:
                each.proposed_s = t_s  # it is valid from when it can be carried out
                asks = not each.approved and self.guard.permits(decision, t_s) is Ruling.ASK
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
        if not any(self._could_go(dependant, t_s) for dependant in dependants):
            return Ruling.HOLD, f"{dependants[0].decision.id}, for which it makes room, may not go"
        return None, ""

    def _can_follow(self, id_: DecisionId) -> bool:
        """Return whether a decision is open, and nothing that it waits for ended undone."""
        after = self._open[id_].decision.after if id_ in self._open else ()
        return id_ in self._open and all(
            other in self._open or self._closed.is_done(other) for other in after
        )

    def _could_go(self, each: _Open, t_s: float) -> bool:
        """Return whether a decision may be carried out, or might if it were judged alone now."""
        return _may_go(each) or self.guard.permits(each.decision, t_s) is Ruling.GO

    def _left_to_engine(self, each: _Open, view: View) -> str:
        """Return why the engine decides although the view is against it; empty: it does not."""
        if self._may_have_happened(each, view):
            return "the engine is asked"
        return "the engine finds others" if self._is_placed_by_engine(each, view) else ""

    def _may_have_happened(self, each: _Open, view: View) -> bool:
        """Return whether what waited to be released looks done: engines start jobs themselves."""
        if each.released_s is None or not self._could_go(each, view.t_s):
            return False
        return view.may_be_done(each.decision.action) or self._is_gone(each.decision, view)

    def _is_placed_by_engine(self, each: _Open, view: View) -> bool:
        """Return whether room was made for a start, and others may be on the GPUs that it names."""
        action = each.decision.action
        if each.released_s is None or not isinstance(self.actuator, PlacesJobs):
            return False
        if view.is_lost(action):  # the room that was made; what is left may be nobody's
            return False
        unmet = bool(view.unmet(action)) and self._could_go(each, view.t_s)
        seen = action.acts_on is not None and bool(view.claims_of(action.acts_on))
        closed = (self._closed.get(id_) for id_ in each.decision.after)
        stopped = [x.decision.action.acts_on for x in closed if x is not None]
        current = not any(view.claims_of(x) - {f"job:{x}"} for x in stopped if x is not None)
        return unmet and seen and current and self.actuator.places(action)

    def _is_gone(self, decision: Decision, view: View) -> bool:
        """Return whether a job has left a view that has those who made room for it."""
        job = decision.action.acts_on
        closed = (self._closed.get(id_) for id_ in decision.after)
        others = {each.decision.action.acts_on for each in closed if each is not None} - {None}
        if job is None or job in others or view.claims_of(job):
            return False
        return any(view.claims_of(other) for other in others if other is not None)

    def _may_not_be_seen_yet(self, each: _Open, view: View) -> bool:
        """Return whether the view may lack what this waited for, or, after a restart, anything."""
        t_s = view.t_s
        if each.released_s is not None and t_s - each.released_s <= SEEN_WITHIN_S:
            return not view.is_lost(each.decision.action)
        began_s = t_s if self._first_s is None else self._first_s
        just_resumed = each.resumed and not self._listed and t_s - began_s <= FIRST_SEEN_WITHIN_S
        return just_resumed and bool(view.unmet(each.decision.action))

    def _ask_again(self, each: _Open, t_s: float) -> None:
        """Let what may be done go, where the first views after a restart had held it."""
        if each.verdict is not None and each.verdict.ruling is Ruling.GO:
            return
        why = "it may have been done before a restart: the engine is asked"
        each.verdict = Verdict(decision=each.decision.id, t_s=t_s, ruling=Ruling.GO, why=why)
        self._news.append(each.verdict)

    def _may_be_done(self, each: _Open, view: View) -> bool:
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

    # -- acting --------------------------------------------------------------------------------

    def _act(self, each: _Open, t_s: float) -> Iterator[CarriedOut | Receipt | StewardError]:
        self._charge(each, t_s)  # what an earlier run began may not be charged yet
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
        self._close(decision, End.FAILED if failed else End.DONE, receipt.t_s)
        yield receipt if failed else CarriedOut(decision=decision, receipt=receipt)

    def _close(self, decision: Decision, end: End, t_s: float) -> None:
        self._open.pop(decision.id, None)
        self._closed.add(decision, end, t_s)


_ENDS = {
    DecisionState.ACTIVE: End.DONE,
    DecisionState.DONE: End.DONE,
    DecisionState.UNDONE: End.DONE,
    DecisionState.FAILED: End.FAILED,
    DecisionState.EXPIRED: End.EXPIRED,
    DecisionState.REJECTED: End.REJECTED,
}
_WORDS = {
    End.FAILED: "failed",
    End.EXPIRED: "expired",
    End.VOID: "expired",
    End.REJECTED: "was rejected",
}


def _is_no_node_first(decision: Decision) -> bool:
    """Sort what is about a whole node first, unless it waits for another decision."""
    return bool(decision.after) or not claims_node(decision.action)


def _may_go(each: _Open) -> bool:
    """Return whether a decision was approved or allowed."""
    return each.approved or (each.verdict is not None and each.verdict.ruling is Ruling.GO)


def _is_news(before: Verdict, now: Verdict) -> bool:
    """Return whether a verdict says anything new, beside the numbers in its reason."""
    if before.ruling is not now.ruling or now.ruling is Ruling.GO:
        return before.ruling is not now.ruling
    return _NUMBER.sub("", before.why) != _NUMBER.sub("", now.why)


def _failed(decision: Decision, t_s: float, text: str) -> Receipt:
    return Receipt(decision=decision.id, t_s=t_s, result="failed", gpus=(), text=text)
