"""The system on one screen: observe -> learn -> decide -> act -> verify.

Faults and unwritten records are kept in `bookkeeping.py`; `resume.py` takes up what an earlier run
left open. The loop knows no domain by name: its view, plugs and verifier are of one domain `V`.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic

from steward.act.desk import CarriedOut
from steward.bookkeeping import PLUG_FAULTS, Bookkeeping, as_fault
from steward.clients.query_worker import QueryWorker
from steward.clock import Clock, SteadyTime
from steward.errors import StewardError
from steward.model.decision import EFFECT_CHECK, Autonomy, Choice, Decision, Receipt
from steward.model.event import Fault, LogLine, Observation
from steward.model.finding import Finding, Pattern
from steward.model.outcome import Outcome
from steward.model.rules import RuleStanding
from steward.observe.forwarding import Forwarder
from steward.observe.intake import Intake
from steward.observe.latest import Latest
from steward.ports import Timed, V
from steward.resume import resume
from steward.stages import Stages
from steward.store.disk_thread import DiskThread
from steward.store.journal import Journal
from steward.store.learned import LearnedStates
from steward.store.recording import Recording
from steward.store.telemetry import Telemetry

__all__ = ["Loop", "LoopStatus"]

SETTLED_TURNS = 30
WAKE_EVERY_S = 0.1
READ_AGAIN_S = 1200.0  # recorded lines of so long are recognised again after a restart
READ_AGAIN_LINES = 100_000  # at most; the newest


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
    refused: int = 0  # proposals that were in conflict with open decisions
    unreachable: tuple[Fault, ...] = ()  # engines that do not answer, since when and why


class Loop(Generic[V]):
    """Runs turns. Live and simulated systems differ only in the two ends."""

    def __init__(  # noqa: PLR0913 - all that the loop holds is seen here
        self,
        stages: Stages[V],
        *,
        journal: Journal,
        recording: Recording,
        clock: Clock,
        every_s: float = 10.0,
        intake: Intake | None = None,
        forwarding: Forwarder | None = None,
        rules: Sequence[RuleStanding] = (),
        questions: QueryWorker | None = None,
        learned: LearnedStates | None = None,
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
        self.view: V = stages.moment.view(clock.now_s())
        self.patterns: tuple[Pattern, ...] = ()
        self.unsettled: tuple[Outcome, ...] = ()  # what open loans brought since their last check
        self.wake: threading.Event | None = None  # set by others: take the next turn now
        self._clock = clock
        self._disk = DiskThread("telemetry")  # done before samples of the next turn are kept
        self._time = SteadyTime(clock, least_s=every_s)
        self._turns = 0
        self._book = Bookkeeping(journal, learned, domain=stages.domain)
        lines = self._recorded_lines(clock.now_s()) if stages.recognisers else ()
        resume(self._book, stages, self.view, clock.now_s(), lines=lines)
        self._weigh_rules(clock.now_s(), first=True)
        positions = recording.about.get("positions")
        if isinstance(positions, dict):
            stages.watch.resume(positions)
        self.status = self._status()

    @property
    def telemetry(self) -> Telemetry:
        """The samples, for those who only read them."""
        return self.recording.telemetry

    # -- one turn ------------------------------------------------------------------------------

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
        self._weigh_rules(t_s)
        self._write_samples(seen, t_s)
        self.view = view
        self._turns += 1
        took_s = time.perf_counter() - began_s
        self.status = self._status(took_s=took_s, decided_s=decided_s, behind_s=behind_s)
        if self.forwarding is not None:
            self.forwarding.go()

    def _observe(self, t_s: float) -> Observation:
        seen, faults = self.stages.watch.look(t_s)
        for fault in faults:
            self._book.fault(fault)
        self._book.call("telemetry", self._disk.wait, None)  # else these samples would be lost too
        self._book.attempt("telemetry", partial(self._keep, seen), None)
        if self.forwarding is not None:
            self._book.note(self.forwarding.take(seen, t_s))
        self.stages.moment.fold(seen)
        if seen.ceilings is not None:
            self.stages.desk.guard.bind(seen.ceilings)
        return seen

    def _learn(self, view: V) -> V:
        book, outcomes = self._book, self._book.due_outcomes(view.t_s)
        self.stages.desk.guard.follow(view)
        self.stages.desk.guard.learn(outcomes)
        for each in self.stages.estimators:
            book.call(each.name, partial(each.learn, view, outcomes=outcomes), None)
            view = view.with_forecasts(book.call(each.name, partial(each.predict, view), ()))
        patterns: list[Pattern] = []
        for miner in self.stages.miners:
            patterns += book.call(miner.name, partial(miner.mine, view), ())
        self.patterns = tuple(patterns)
        return view

    def _decide(self, view: V, seen: Observation) -> tuple[V, list[Decision]]:
        stages, book = self.stages, self._book
        findings: list[Finding] = []
        for detector in stages.detectors:
            findings += book.call(detector.name, partial(detector.detect, view), ())
        for each in stages.recognisers:
            findings += book.call(each.name, partial(each.recognise, seen, view), ())
            book.note(book.call(each.name, partial(each.recurrences, view.t_s), ()))
        if self.questions is not None:
            book.note(self.questions.news(view.t_s))
        view = view.with_findings(tuple(findings))
        decisions: list[Decision] = []
        for policy in stages.policies:
            decisions += book.call(policy.name, partial(policy.decide, view), ())
        if stages.desk.guard.limits.autonomy is Autonomy.OBSERVE:
            guard = stages.desk.guard
            decisions = [decision for decision in decisions if not guard.is_silenced(decision)]
        book.note([*seen.events, *book.new_findings((*view.findings, *self.patterns), view.t_s)])
        return view, decisions

    def _act(self, view: V, decisions: Sequence[Decision]) -> None:
        desk = self.stages.desk
        choices = self._book.choices(desk.guard)
        listed = self.stages.watch.has_listed and self.intake is None  # agents send when they can
        new = desk.receive(decisions, choices, view, listed=listed)
        written = self._book.write(new, view.t_s)
        desk.drop(self._book.take_unwritable())
        # Nothing is done that is not in the journal first, except giving back.
        for result in desk.carry_out(view.t_s, only_returns=not written):
            self._take_note(result, view)
        self.stages.moment.reserve(desk.reserved(view))

    def _take_note(self, result: CarriedOut | Receipt | StewardError, view: V) -> None:
        match result:
            case CarriedOut():
                self._book.note([result.receipt])
                self.stages.moment.apply(result.decision, result.receipt)
                self.stages.verifier.begin(result.decision, result.receipt, view)
            case Receipt():
                self._book.note([result])
                self.stages.verifier.forget(result.decision)
            case StewardError():
                where = f"actuator {self.stages.desk.actuator.name}"
                self._book.fault(as_fault(result, where, view.t_s))

    def _verify(self, view: V) -> None:
        """Measure what is due, and undo what made things worse."""
        verifier = self.stages.verifier
        none: Sequence[tuple[Decision, Outcome]] = ()
        found = self._book.call("verifier", partial(verifier.follow, view), none)
        self.unsettled = verifier.so_far(view)  # before they are written: none twice
        self._book.unlearned += [outcome for _, outcome in found]
        undone = [
            _undoing(decision, outcome, view.t_s)
            for decision, outcome in found
            if outcome.effect is not None and outcome.effect.worse and decision.undo is not None
        ]
        self._book.write([*(outcome for _, outcome in found), *undone], view.t_s)

    def _weigh_rules(self, t_s: float, *, first: bool = False) -> None:
        """Set how far each rule is trusted from now on, if anything about one has changed."""
        if not self.stages.recognisers:
            return
        weights = self._book.rule_weights(t_s, first=first)
        for each in self.stages.recognisers if weights is not None else ():
            self._book.call(each.name, partial(each.weigh, weights or {}), None)

    # -- around the turns ----------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Take a turn every `every_s` seconds by the clock until `stop` is set."""
        due_s = self._clock.now_s()
        while not stop.is_set():
            if self._turns == SETTLED_TURNS:
                self.settle()
            now_s = self._clock.now_s()
            if now_s < due_s - self.every_s:
                due_s = now_s  # the clock jumped back; do not wait until it has caught up
            try:
                self.turn(behind_s=max(0.0, now_s - due_s))
            except PLUG_FAULTS as fault:  # the last line: a bug of ours costs one turn
                self._book.fault(as_fault(fault, "loop", self._time.t_s))
                self.status = self._status()
            now_s = self._clock.now_s()
            due_s = self._next_turn_s(max(due_s + self.every_s, now_s), now_s)
            if self._rest(due_s - now_s, stop):
                due_s = self._clock.now_s()

    def _next_turn_s(self, due_s: float, now_s: float) -> float:
        """Return when the next turn begins: earlier than `due_s` where the engine needs it."""
        actuator = self.stages.desk.actuator
        wanted_s = actuator.next_s() if isinstance(actuator, Timed) else None
        if wanted_s is None or wanted_s <= now_s:  # what is late is tried again at the usual pace
            return due_s
        return min(due_s, wanted_s)

    def _rest(self, seconds: float, stop: threading.Event) -> bool:
        """Wait for the next turn; return True if one is wanted before it is due."""
        if self.wake is None:
            self._clock.wait(seconds, stop)
            return False
        end_s = self._clock.elapsed_s() + seconds
        while not stop.is_set() and (left_s := end_s - self._clock.elapsed_s()) > 0:
            if self.wake.is_set():
                self.wake.clear()
                return True
            self._clock.wait(min(left_s, WAKE_EVERY_S), stop)
        return False

    @staticmethod
    def settle() -> None:
        """Leave what lives by now out of garbage collection: that takes 0.2 s a time."""
        gc.collect()
        gc.freeze()

    def close(self) -> None:
        """Settle what is open and make everything durable, the last ticks too."""
        watch, book = self.stages.watch, self._book
        if self._turns and watch.pace:
            watch.stop()
            t_s = self._next_time()
            seen = self._observe(t_s)
            self._decide(self._learn(self.stages.moment.view(t_s)), seen)  # found, not acted on
            self._write_samples(seen, t_s)
        if self.forwarding is not None:
            self.forwarding.finish()  # while the rest is made durable
        if self.questions is not None:
            self.questions.close()
        watch.close()
        if self._turns:
            book.write(self.stages.verifier.settle(self.view), self._time.t_s)
            book.save_learned((*self.stages.estimators, *self.stages.miners), self._time.t_s)
        book.call("telemetry", self._disk.close, None)
        book.attempt("telemetry", self.recording.close, None)
        if self.intake is not None:
            book.attempt("intake", self.intake.close, None)
        if self.forwarding is not None:
            self.forwarding.close()
        self.journal.close()

    def _recorded_lines(self, now_s: float) -> tuple[LogLine, ...]:
        """Return the lines that an earlier run has read: a stream goes on behind them."""
        newest = partial(self.recording.logs.newest, from_s=now_s - READ_AGAIN_S)
        return self._book.attempt("telemetry", partial(newest, limit=READ_AGAIN_LINES), ())

    def _next_time(self) -> float:
        t_s, problem = self._time.next()
        if problem:
            hint = "look at the time synchronisation of this machine"
            self._book.fault(Fault(t_s=t_s, where="clock", problem=problem, hint=hint))
        self._book.t_s = t_s
        return t_s

    def _keep(self, seen: Observation) -> None:
        self.recording.keep(seen)
        self.recording.positions = self.stages.watch.positions()

    def _write_samples(self, seen: Observation, t_s: float) -> None:
        """Write what is due beside the loop, and show what is newest: no decision waits for it."""
        self._book.attempt("telemetry", partial(self._upkeep, t_s), None)
        learners = (*self.stages.estimators, *self.stages.miners)
        self._book.save_learned_if_due(learners, t_s)
        self.latest.take(seen.tables)
        self.latest.mark(seen.spans, t_s)

    def _upkeep(self, t_s: float) -> None:
        self.journal.upkeep()
        for problem in self.recording.new_damage():
            self._book.fault(Fault(t_s=t_s, where="telemetry", problem=problem))
        release = self.intake.due_release(t_s) if self.intake is not None else None
        self._disk.begin(partial(self._write_due, t_s, release))

    def _write_due(self, t_s: float, release: int | None) -> None:
        self.recording.upkeep(t_s)
        if self.intake is not None and release is not None:
            self.recording.flush()
            self.intake.release(release)

    def _status(
        self, *, took_s: float = 0.0, decided_s: float = 0.0, behind_s: float = 0.0
    ) -> LoopStatus:
        desk = self.stages.desk
        return LoopStatus(
            turns=self._turns,
            t_s=self.view.t_s,
            last_turn_s=took_s,
            last_decided_s=decided_s,
            autonomy=desk.guard.limits.autonomy,
            breaker=desk.guard.breaker(self.view.t_s),
            faults=tuple(self._book.faults),
            behind_s=behind_s,
            refused=desk.refused.total(),
            unreachable=self.stages.watch.unreachable,
        )


def _undoing(decision: Decision, outcome: Outcome, t_s: float) -> Choice:
    note = f"the check found it worse: {outcome.text}"
    return Choice(decision=decision.id, t_s=t_s, choice="undo", user=EFFECT_CHECK, note=note)
