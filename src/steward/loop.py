"""The system on one screen: observe -> learn -> decide -> act -> verify."""

from __future__ import annotations

import gc
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from steward.act.desk import Desk, Done
from steward.act.effects import Effects
from steward.act.verify import Verifier
from steward.clients.query_worker import QueryWorker
from steward.clock import Clock
from steward.errors import StewardError
from steward.learn.rules import KINDS, RuleBook
from steward.model.decision import Autonomy, CallBack, Choice, Decision, DecisionState, Receipt
from steward.model.event import Fault, Observation
from steward.model.finding import Finding, Pattern
from steward.model.moment import Moment
from steward.model.outcome import Outcome, Story
from steward.model.rules import RuleStanding
from steward.model.view import ClusterView
from steward.observe.forwarding import Forwarder
from steward.observe.intake import Intake
from steward.observe.latest import Latest
from steward.observe.watch import Watch
from steward.ports import Detector, Estimator, Miner, Policy, Recogniser
from steward.store.journal import Journal, JournalEntry, Record
from steward.store.recording import Recording
from steward.store.records import to_row
from steward.store.telemetry import Telemetry

__all__ = ["Loop", "LoopStatus", "Stages"]

T = TypeVar("T")
DAY_S = 86400.0
SETTLED_TURNS = 30
RESUMED_S = 14 * DAY_S  # open decisions and loans of this time are taken up again
RULES_READ = 20_000  # entries of an earlier run that say how well rules did


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The plugs and parts that a site runs with."""

    watch: Watch
    moment: Moment
    miners: Sequence[Miner]
    estimators: Sequence[Estimator]
    detectors: Sequence[Detector]
    policies: Sequence[Policy]
    desk: Desk
    verifier: Verifier
    recognisers: Sequence[Recogniser] = ()
    effects: Effects = field(default_factory=lambda: Effects(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStatus:
    """How the loop is doing."""

    turns: int
    t_s: float
    last_turn_s: float  # wall time that the last turn took
    last_decided_s: float  # of which until its decisions were written down and carried out
    autonomy: Autonomy
    breaker: str
    faults: tuple[Fault, ...]  # newest last
    behind_s: float  # how late the last turn began


class Loop:
    """Goes round. Live and simulated clusters differ only in the two ends."""

    def __init__(  # noqa: PLR0913 - all that the loop holds is seen here
        self,
        stages: Stages,
        *,
        journal: Journal,
        recording: Recording,
        clock: Clock,
        every_s: float = 10.0,
        intake: Intake | None = None,
        forwarding: Forwarder | None = None,
        rules: Sequence[RuleStanding] = (),
        questions: QueryWorker | None = None,
    ) -> None:
        self.stages = stages
        self.rules = tuple(rules)  # all that the site knows, also those that do not run
        self.questions = questions  # what rules ask a Prometheus, if the site has one
        self.forwarding = forwarding
        self.intake = intake  # one of the collectors of the watch, if others send telemetry
        self.journal = journal
        self.recording = recording
        self.latest = Latest()
        self.every_s = every_s
        self.view: ClusterView = stages.moment.view(clock.now_s())
        self.patterns: tuple[Pattern, ...] = ()
        self.unsettled: tuple[Outcome, ...] = ()  # what open loans brought since their last check
        self._clock = clock
        self._t_s = float("-inf")
        self._turns = 0
        self._faults: deque[Fault] = deque(maxlen=50)
        self._found: dict[str, float] = {}  # finding or pattern: when it was last seen
        self._untold: list[Outcome] = []  # outcomes that nobody has learned from yet
        self._unwritten: list[Record] = []
        self._heard = 0  # choices up to this journal entry are known
        self._missed: list[Choice] = []  # an earlier run did not get round to these
        self._book = RuleBook()
        self._booked = 0  # entries up to this one are in the book
        self._resume(clock.now_s())
        positions = recording.about.get("positions")
        if isinstance(positions, dict):
            stages.watch.resume(positions)
        self.status = self._status()

    @property
    def telemetry(self) -> Telemetry:
        """The samples, for those who only read them."""
        return self.recording.telemetry

    def turn(self, *, behind_s: float = 0.0) -> None:
        """Look at one moment and do what it asks for."""
        began_s = time.perf_counter()
        t_s = self._next_time()
        seen = self._observe(t_s)
        view = self._learn(self.stages.moment.view(t_s))
        view, decisions = self._decide(view, seen)
        self._act(view, decisions)
        decided_s = time.perf_counter() - began_s
        self._verify(view)
        self._settle_samples(seen, t_s)
        self.view = view
        self._turns += 1
        took_s = time.perf_counter() - began_s
        self.status = self._status(took_s=took_s, decided_s=decided_s, behind_s=behind_s)
        if self.forwarding is not None:
            self.forwarding.go()

    def run(self, stop: threading.Event) -> None:
        """Go round every `every_s` seconds by the clock until told to stop."""
        due_s = self._clock.now_s()
        while not stop.is_set():
            if self._turns == SETTLED_TURNS:
                self.settle()
            now_s = self._clock.now_s()
            if now_s < due_s - self.every_s:
                due_s = now_s  # the clock jumped back; do not wait until it has caught up
            try:
                self.turn(behind_s=max(0.0, now_s - due_s))
            except Exception as fault:  # noqa: BLE001 - the last line: a bug of ours costs one turn
                self._fault(_as_fault(fault, "loop", self._t_s))
                self.status = self._status()
            now_s = self._clock.now_s()
            due_s = max(due_s + self.every_s, now_s)
            self._clock.wait(due_s - now_s, stop)

    @staticmethod
    def settle() -> None:
        """Leave what lives by now out of the search for garbage: that takes 0.2 s a time."""
        gc.collect()
        gc.freeze()

    def close(self) -> None:
        """Settle what is open and make everything durable, the last ticks too."""
        watch = self.stages.watch
        if self._turns and watch.pace:
            watch.stop()
            self._settle_samples(self._observe(self._next_time()), self._t_s)
        if self.forwarding is not None:
            self.forwarding.finish()  # while the rest is made durable
        if self.questions is not None:
            self.questions.close()
        watch.close()
        if self._turns:
            self._write(self.stages.verifier.settle(self.view))
        self._try("telemetry", self.recording.close, None)
        if self.intake is not None:
            self._try("intake", self.intake.close, None)
        if self.forwarding is not None:
            self.forwarding.close()
        self.journal.close()

    # -- observe -------------------------------------------------------------------------------

    def _observe(self, t_s: float) -> Observation:
        seen, faults = self.stages.watch.look(t_s)
        for fault in faults:
            self._fault(fault)
        self._try("telemetry", partial(self._keep, seen), None)
        if self.forwarding is not None:
            self._unwritten += self.forwarding.take(seen, t_s)
        self.stages.moment.fold(seen)
        return seen

    def _keep(self, seen: Observation) -> None:
        self.recording.keep(seen)
        self.recording.positions = self.stages.watch.positions()

    def _settle_samples(self, seen: Observation, t_s: float) -> None:
        """Bring to the disk what is due, and show what is newest: no decision waits for these."""
        self._try("telemetry", partial(self._upkeep, t_s), None)
        self.latest.take(seen.tables)
        self.latest.mark(seen.spans, t_s)

    def _upkeep(self, t_s: float) -> None:
        self.recording.upkeep(t_s)
        if self.intake is not None:
            self.intake.upkeep(t_s, self.recording.flush)

    def _next_time(self) -> float:
        """Return a time after the last one, whatever the clock says: machines' clocks jump."""
        now_s = self._clock.now_s()
        if now_s <= self._t_s:
            back_s = self._t_s - now_s
            now_s = self._t_s + self.every_s
            if back_s > self.every_s:
                self._fault(
                    Fault(
                        t_s=now_s,
                        where="clock",
                        problem=f"it jumped back by {back_s:.0f} s; steward's time goes on",
                        hint="look at the time synchronisation of this machine",
                    )
                )
        self._t_s = now_s
        return now_s

    # -- learn ---------------------------------------------------------------------------------

    def _learn(self, view: ClusterView) -> ClusterView:
        outcomes = self._due(view.t_s)
        self.stages.desk.guard.follow(view)
        self.stages.desk.guard.learn(outcomes)
        for each in self.stages.estimators:
            self._ask(each.name, partial(each.learn, view, outcomes=outcomes), None)
            view = view.with_forecasts(self._ask(each.name, partial(each.predict, view), ()))
        patterns: list[Pattern] = []
        for miner in self.stages.miners:
            patterns += self._ask(miner.name, partial(miner.mine, view), ())
        self.patterns = tuple(patterns)
        self._weigh(view.t_s)
        return view

    def _weigh(self, t_s: float) -> None:
        """Tell who recognises things how well each rule did, if anything new was said of one."""
        if not self.stages.recognisers:
            return
        read = partial(self.journal.read, after=self._booked, kinds=KINDS)
        entries: list[JournalEntry] = self._try("journal", read, [])
        judged = [self._book.take(entry.value) for entry in entries]
        self._booked = max([self._booked, *(entry.seq for entry in entries)])
        if any(judged) or not self._turns:
            weights = self._book.weights(t_s)
            for each in self.stages.recognisers:
                self._ask(each.name, partial(each.weigh, weights), None)

    def _due(self, t_s: float) -> list[Outcome]:
        """Return the outcomes that can be judged fairly now.

        Bad loans end early. Judged as they end, the first to be heard of would all be bad.
        """
        due = [outcome for outcome in self._untold if outcome.due_s <= t_s]
        self._untold = [outcome for outcome in self._untold if outcome.due_s > t_s]
        return due

    # -- decide --------------------------------------------------------------------------------

    def _decide(self, view: ClusterView, seen: Observation) -> tuple[ClusterView, list[Decision]]:
        stages = self.stages
        findings: list[Finding] = []
        for detector in stages.detectors:
            findings += self._ask(detector.name, partial(detector.detect, view), ())
        for each in stages.recognisers:
            findings += self._ask(each.name, partial(each.recognise, seen, view), ())
            self._unwritten += self._ask(each.name, partial(each.recurrences, view.t_s), ())
        if self.questions is not None:
            self._unwritten += self.questions.news(view.t_s)
        view = view.with_findings(tuple(findings))
        decisions: list[Decision] = []
        for policy in stages.policies:
            decisions += self._ask(policy.name, partial(policy.decide, view), ())
        if stages.desk.guard.limits.autonomy is Autonomy.OBSERVE:
            decisions = [decision for decision in decisions if decision.returns]
        self._unwritten += [*seen.events, *self._new((*view.findings, *self.patterns), view.t_s)]
        return view, decisions

    def _new(self, found: Sequence[Finding | Pattern], t_s: float) -> list[Finding | Pattern]:
        new = [each for each in found if each.id not in self._found]
        self._found.update({each.id: t_s for each in found})
        if len(self._found) > 10_000:
            self._found = {id_: s for id_, s in self._found.items() if s > t_s - DAY_S}
        return new

    # -- act -----------------------------------------------------------------------------------

    def _act(self, view: ClusterView, decisions: Sequence[Decision]) -> None:
        desk, moment = self.stages.desk, self.stages.moment
        written = self._write(desk.receive(decisions, self._choices(), view))
        # Nothing is done that is not in the journal first, except giving back.
        for result in desk.carry_out(view.t_s, only_returns=not written):
            self._take_note(result, view)
        moment.reserve(*desk.reserved(view))

    def _take_note(self, result: Done | Receipt | StewardError, view: ClusterView) -> None:
        match result:
            case Done():
                self._unwritten.append(result.receipt)
                self.stages.effects.begin(result.decision, result.receipt)
                loan = self.stages.verifier.begin(result.decision, result.receipt, view)
                if loan is not None:
                    self.stages.moment.lend(loan)
                if isinstance(result.decision.action, CallBack):
                    self.stages.moment.give_back(result.decision.action.loan)
            case Receipt():
                self._unwritten.append(result)
            case StewardError():
                where = f"actuator {self.stages.desk.actuator.name}"
                self._fault(_as_fault(result, where, view.t_s))

    def _choices(self) -> list[Choice]:
        said = partial(self.journal.read, after=self._heard, kinds=("choice",))
        entries: list[JournalEntry] = self._try("journal", said, [])
        self._heard = max([self._heard, *(entry.seq for entry in entries)])
        missed, self._missed = self._missed, []
        return missed + [entry.value for entry in entries if isinstance(entry.value, Choice)]

    # -- verify --------------------------------------------------------------------------------

    def _verify(self, view: ClusterView) -> None:
        outcomes = self.stages.verifier.follow(view)
        self.unsettled = self.stages.verifier.so_far(view)  # before they are written: none twice
        self._untold += outcomes
        self._write([*outcomes, *self._check_effects(view)])

    def _check_effects(self, view: ClusterView) -> list[Record]:
        """Check what rules promised, and take back what made things worse."""
        found: list[Record] = []
        for decision, outcome in self.stages.effects.follow(view):
            found.append(outcome)
            if outcome.effect is not None and outcome.effect.worse and decision.undo is not None:
                found.append(_undoing(decision, outcome, view.t_s))
        return found

    # -- inside --------------------------------------------------------------------------------

    def _write(self, records: Sequence[Record]) -> bool:
        """Make records durable, after those that could not be written before; say if it worked."""
        self._unwritten += records
        if not self._unwritten:
            return True
        try:
            self.journal.append(self._unwritten)
        except StewardError as fault:
            self._faults.append(_as_fault(fault, "journal", self._t_s))
            self._unwritten = [each for each in self._unwritten if self._can_be_written(each)]
            return False
        self._unwritten = []
        return True

    def _can_be_written(self, record: Record) -> bool:
        """Leave out what no journal can hold, and say so: one bad line must not block the rest."""
        try:
            to_row(record, seq=0)
        except StewardError as fault:
            self._faults.append(_as_fault(fault, "journal", self._t_s))
            return False
        return True

    def _ask(self, plug: str, call: Callable[[], T], otherwise: T) -> T:
        """Call a plug; its fault costs its own answer and nothing else."""
        try:
            return call()
        except Exception as fault:  # noqa: BLE001 - a plug's fault must not stop the loop
            self._fault(_as_fault(fault, plug, self._t_s))
            return otherwise

    def _try(self, where: str, call: Callable[[], T], otherwise: T) -> T:
        try:
            return call()
        except StewardError as fault:
            self._fault(_as_fault(fault, where, self._t_s))
            return otherwise

    def _fault(self, fault: Fault) -> None:
        same = any((f.where, f.problem) == (fault.where, fault.problem) for f in self._faults)
        self._faults.append(fault)
        if not same:  # a fault that comes back every turn is one entry, not thousands
            self._unwritten.append(fault.event())

    def _status(
        self, *, took_s: float = 0.0, decided_s: float = 0.0, behind_s: float = 0.0
    ) -> LoopStatus:
        guard = self.stages.desk.guard
        return LoopStatus(
            turns=self._turns,
            t_s=self.view.t_s,
            last_turn_s=took_s,
            last_decided_s=decided_s,
            autonomy=guard.limits.autonomy,
            breaker=guard.breaker(self.view.t_s),
            faults=tuple(self._faults),
            behind_s=behind_s,
        )

    def _resume(self, now_s: float) -> None:
        """Take up what an earlier run left open: decisions, loans, budgets, the breaker."""
        self._heard = self.journal.newest()
        stories = self._recent_stories(since_s=now_s - RESUMED_S)
        desk, verifier = self.stages.desk, self.stages.verifier
        over = (DecisionState.EXPIRED, DecisionState.REJECTED)
        desk.resume(story for story in stories if story.state not in over)
        for story in stories:
            self._untold += [each for each in story.outcomes if each.effect is None]
            self.stages.effects.resume(story)
            for receipt in story.receipts:
                if receipt.result != "failed":
                    desk.guard.record(story.decision, receipt.t_s)
            loan = verifier.resume(story) if story.state is DecisionState.ACTIVE else None
            if loan is not None:
                self.stages.moment.lend(loan)
                self._missed += [each for each in story.choices if each.choice == "undo"]
        for entry in self.journal.read(kinds=("finding",), newest_first=True, limit=1000):
            self._found[entry.id] = entry.t_s
        for entry in self.journal.read(kinds=KINDS, newest_first=True, limit=RULES_READ)[::-1]:
            self._book.take(entry.value)
        self._booked = self._heard
        desk.guard.learn(self._due(now_s))
        self.stages.moment.reserve(*desk.reserved(self.view))

    def _recent_stories(self, *, since_s: float) -> list[Story]:
        """Return the stories since then, oldest first."""
        found: list[Story] = []
        before: int | None = None
        while page := self.journal.stories(before=before, limit=200):
            found += [story for _, story in page if story.decision.t_s >= since_s]
            before = page[-1][0]
            if page[-1][1].decision.t_s < since_s:
                break
        return found[::-1]


def _undoing(decision: Decision, outcome: Outcome, t_s: float) -> Choice:
    note = f"the check found it worse: {outcome.text}"
    return Choice(decision=decision.id, t_s=t_s, choice="undo", user="steward", note=note)


def _as_fault(fault: Exception, where: str, t_s: float) -> Fault:
    if isinstance(fault, StewardError):
        return Fault(t_s=t_s, where=where, problem=str(fault), hint=fault.hint)
    return Fault(t_s=t_s, where=where, problem=f"{type(fault).__name__}: {fault}")
