"""Takes in what policies propose: which of it is opened, and what it has to leave to others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from steward.act.claims import ClaimIndex, claims_node, nodes_of
from steward.act.desk_state import DeskState, OpenDecision
from steward.model.actions import Action, Budget
from steward.model.actions.checks import job_claim
from steward.model.decision import Autonomy, Decision, Ruling
from steward.model.identity import DecisionId
from steward.ports import View

__all__ = ["Proposals"]

SPARED_S = 600.0  # nothing is planned for so long around a job that may not be stopped now


class Proposals:
    """Opens decisions that are about nothing that another open one is about.

    People take hours to answer. What waits for them keeps no free GPU, waiting job or failing node
    from others: a start that also takes free GPUs is refused while a stop that it needs may not go,
    a waiting job goes to the first decision that may start it without asking, and a node is
    drained although somebody is asked about one of its GPUs.

    What is about a whole node goes before what is about its GPUs: while it has to wait for an open
    decision there, no other one is opened there.
    """

    def __init__(self, state: DeskState) -> None:
        self.refused: Counter[str] = Counter()  # proposals that were not taken, by reason
        self._state, self._open, self._closed = state, state.open, state.closed
        self._awaited: frozenset[str] = frozenset()  # claims of what waits for a whole node
        self._spared: dict[str, float] = {}  # claims on jobs that may not be stopped: until when

    def reserved(self, view: View) -> frozenset[str]:
        """Return the claims of open decisions, and of those who are left alone for a while.

        Of a job that was disturbed often enough, only what it runs on: it may be started again.
        """
        self._spared = {job: s for job, s in self._spared.items() if s > view.t_s}
        claims = [each.decision.action.claims - self._yields(each) for each in self._open.values()]
        claims += [view.claims_of(each) for each in self._state.guard.resting(view.t_s)]
        spared = self._state.guard.spared(view.t_s)
        claims += [view.claims_of(each) - {job_claim(each)} for each in spared]
        return self._awaited.union(self._spared, *claims)

    def accept(self, decisions: Sequence[Decision], view: View) -> None:
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
                    self._state.give_way(id_, why, view.t_s)
                index.add(decision)
                self._state.begin(OpenDecision(decision=decision, proposed_s=view.t_s))
                accepted.add(decision.id)
            elif not known and self._waits_for_node(decision, view.t_s):
                index.add(decision)
                awaited |= decision.action.claims
        self._awaited = frozenset(awaited)
        self._note_dependants(wanted, accepted)

    def _yields(self, each: OpenDecision) -> frozenset[str]:
        """Return the claims that a decision gives up to others while a person is asked about it.

        Those are the job that it would start, and the nodes of its GPUs: they can be drained.
        Where everything needs a person, nothing is gained by it.
        """
        if self._state.guard.limits.autonomy is not Autonomy.AUTO or not self._state.asks(each):
            return frozenset()
        action = each.decision.action
        starts = action.budget is Budget.START or action.acts_on != action.affects
        jobs = {job_claim(action.acts_on)} if starts and action.acts_on is not None else set()
        return nodes_of(action) | jobs

    def _note_dependants(
        self, wanted: Mapping[DecisionId, list[DecisionId]], accepted: set[DecisionId]
    ) -> None:
        """Note what each decision makes room for; close those of which nothing was accepted."""
        for id_, dependants in wanted.items():
            if id_ in accepted and not any(each in self._open for each in dependants):
                self._state.news.remove(self._open.pop(id_).decision)
                self.refused["what it makes room for was not accepted"] += 1
            elif id_ in self._open:
                each = self._open[id_]
                each.makes_room_for = tuple(dict.fromkeys((*each.makes_room_for, *dependants)))

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
        return (
            claims_node(decision.action) and self._state.guard.permits(decision, t_s) is Ruling.GO
        )

    def _in_the_way(self, decision: Decision, index: ClaimIndex, t_s: float) -> str:
        if not all(id_ in self._open or self._closed.is_done(id_) for id_ in decision.after):
            return "what it waits for was not accepted"
        stops = [self._open[id_] for id_ in decision.after if id_ in self._open]
        blocked = [each for each in stops if not self._state.could_go(each, t_s)]
        if not blocked and not self._state.could_all_go(decision.after, t_s):
            blocked = stops
        goes = self._state.guard.permits(decision, t_s) is Ruling.GO
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


def _is_no_node_first(decision: Decision) -> bool:
    """Sort what is about a whole node first, unless it waits for another decision."""
    return bool(decision.after) or not claims_node(decision.action)
