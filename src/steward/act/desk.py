"""Holds decisions from the moment they are made until they are carried out, refused or expired.

What is about to be done is in the journal before it is done, and what was done right after. A
crash between the two leaves a decision with a verdict and no receipt; the next start carries it
out again, which changes nothing where it had been done, since actuators know decisions by id.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from steward.act.guard import Guard
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.decision import (
    Choice,
    Decision,
    Expectation,
    Preempt,
    Receipt,
    Ruling,
    Verdict,
)
from steward.model.identity import DecisionId, GpuId, JobId, stable_id
from steward.model.job import JobState
from steward.model.outcome import Story
from steward.model.view import ClusterView
from steward.ports import Actuator

__all__ = ["Desk", "Done"]

TRIES = 3
REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A decision that was carried out, wholly or partly."""

    decision: Decision
    receipt: Receipt


@dataclass(slots=True, kw_only=True)
class _Open:
    decision: Decision
    verdict: Verdict | None = None
    approved: bool = False
    begun: bool = False  # an earlier run may have carried it out
    counted: bool = False  # in the guard's budget
    tries: int = 0


class Desk:
    """All open decisions of a site, the guard that rules on them and the actuator that acts."""

    def __init__(self, guard: Guard, actuator: Actuator) -> None:
        self.guard = guard
        self.actuator = actuator
        self._open: dict[DecisionId, _Open] = {}
        self._closed: OrderedDict[DecisionId, Decision] = OrderedDict()

    def resume(self, stories: Iterable[Story]) -> None:
        """Take up again what an earlier run left open."""
        for story in stories:
            if story.receipts:
                self._close(story.decision)
                continue
            approved = bool(story.choices) and story.choices[0].choice == "approve"
            verdict = story.verdicts[-1] if story.verdicts else None
            self._open[story.decision.id] = _Open(
                decision=story.decision,
                verdict=verdict,
                approved=approved,
                begun=verdict is not None and verdict.ruling is Ruling.GO,
            )

    def reserved(self, view: ClusterView) -> tuple[set[GpuId], set[JobId]]:
        """Return the GPUs and jobs about which nothing new should be decided.

        Open decisions are about them, or they are left alone for a while.
        """
        gpus = {gpu for each in self._open.values() for gpu in each.decision.action.gpus}
        moved = (each.decision.action.moves for each in self._open.values())
        jobs = {job for job in moved if job is not None}
        for resting in self.guard.resting(view.t_s):
            job = view.details.get(resting)
            gpus.update(job.gpus if job is not None else ())
            jobs.update([resting] if job is not None and job.state is JobState.QUEUED else ())
        return gpus, jobs

    def receive(
        self, decisions: Sequence[Decision], choices: Sequence[Choice], view: ClusterView
    ) -> list[Decision | Verdict]:
        """Take in new decisions and people's choices, rule on all open ones; return what is new."""
        new: list[Decision | Verdict] = []
        undone = [decision for choice in choices for decision in self._choose(choice, view)]
        for decision in (*undone, *decisions):
            if decision.id not in self._open and decision.id not in self._closed:
                self._open[decision.id] = _Open(decision=decision)
                new.append(decision)
        new += [verdict for each in list(self._open.values()) for verdict in self._rule(each, view)]
        return new

    def carry_out(
        self, t_s: float, *, only_returns: bool = False
    ) -> Iterator[Done | Receipt | StewardError]:
        """Do all that may be done now. Call it after what `receive` returned is in the journal."""
        for each in list(self._open.values()):
            if only_returns and not each.decision.returns:
                continue
            if each.verdict is not None and each.verdict.ruling is Ruling.GO:
                yield from self._act(each, t_s)

    # -- inside --------------------------------------------------------------------------------

    def _choose(self, choice: Choice, view: ClusterView) -> Iterator[Decision]:
        each = self._open.get(choice.decision)
        if choice.choice == "undo":
            yield from self._undo(choice, view)
        elif each is not None and choice.choice == "approve":
            each.approved = True
        elif each is not None:
            self._close(each.decision)
            disturbed = each.decision.action.disturbs
            if disturbed is not None:
                self.guard.leave_alone(disturbed, view.t_s)

    def _undo(self, choice: Choice, view: ClusterView) -> Iterator[Decision]:
        decision = self._closed.get(choice.decision)
        if decision is None or decision.undo is None:
            return
        yield replace(
            decision,
            id=DecisionId(stable_id("d", "undo", decision.id)),
            t_s=view.t_s,
            policy="person",
            action=decision.undo,
            because=f"{choice.user} undid {decision.id}"
            + (f": {choice.note}" if choice.note else ""),
            forecasts=(),
            expects=Expectation(low=0.0, mid=0.0, high=0.0),
            undo=None,
        )

    def _rule(self, each: _Open, view: ClusterView) -> Iterator[Verdict]:
        if self._is_under_way(each, view):
            return
        before = each.verdict
        verdict = self.guard.judge(each.decision, view, approved=each.approved)
        each.verdict = verdict
        if verdict.ruling is Ruling.EXPIRE:
            self._close(each.decision)
        if verdict.ruling is Ruling.GO and not each.counted:
            # counted at once: the next decision of this turn must see the budget that is left
            self.guard.record(each.decision, view.t_s)
            each.counted = True
        if before is None or before.ruling is not verdict.ruling:
            yield verdict

    def _is_under_way(self, each: _Open, view: ClusterView) -> bool:
        """Whether the engine may have done it already without our knowing.

        Then it is asked again, not judged again. A job that still waits was not started, and one
        that still runs was not stopped.
        """
        action = each.decision.action
        if each.decision.returns or not (each.begun or each.tries):
            return False
        job = view.details.get(action.moves) if action.moves is not None else None
        before = JobState.RUNNING if isinstance(action, Preempt) else JobState.QUEUED
        return job is not None and job.state is not before

    def _act(self, each: _Open, t_s: float) -> Iterator[Done | Receipt | StewardError]:
        each.tries += 1
        try:
            receipt = self.actuator.carry_out(each.decision, t_s)
        except TemporaryError as fault:
            if each.tries < TRIES or each.decision.returns:
                yield fault
                return
            receipt = _failed(each.decision, t_s, f"given up after {TRIES} tries: {fault}")
        except PermanentError as fault:
            receipt = _failed(each.decision, t_s, str(fault))
        except Exception as fault:  # noqa: BLE001 - a plug's fault must not stop the loop
            receipt = _failed(each.decision, t_s, f"{type(fault).__name__}: {fault}")
        if each.decision.returns and receipt.result != "done":
            yield TemporaryError(f"{receipt.text}; what was lent is called back again next turn")
            return
        self._close(each.decision)
        if receipt.result == "failed":
            yield receipt
        else:
            yield Done(decision=each.decision, receipt=receipt)

    def _close(self, decision: Decision) -> None:
        self._open.pop(decision.id, None)
        self._closed[decision.id] = decision
        while len(self._closed) > REMEMBERED:
            self._closed.popitem(last=False)


def _failed(decision: Decision, t_s: float, text: str) -> Receipt:
    return Receipt(decision=decision.id, t_s=t_s, result="failed", gpus=(), text=text)
