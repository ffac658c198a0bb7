"""What the loop keeps between turns: faults, records to write, outcomes to learn from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import polars as pl

from steward.act.guard import Guard
from steward.errors import StewardError
from steward.learn.rules import KINDS, RuleTally
from steward.model.actions import domain_of
from steward.model.decision import Choice, Decision, StandingApproval
from steward.model.event import Fault
from steward.model.finding import Finding, Pattern
from steward.model.identity import DecisionId
from steward.model.outcome import Outcome
from steward.ports import Learner
from steward.store.journal import Journal, JournalEntry, Record
from steward.store.learned import LearnedStates, name_of
from steward.store.records import to_row

__all__ = ["PLUG_FAULTS", "Bookkeeping", "as_fault"]

PLUG_FAULTS = (Exception, pl.exceptions.PanicException)  # the latter is no `Exception`
T = TypeVar("T")
DAY_S = 86400.0
SAVE_EVERY_S = 600.0  # of the clock of the loop; learned state is saved at least so often
MEASURED_EVERY_S = 60.0  # the same for what is being measured: it cannot be learned anew
RULES_READ = 20_000  # entries that say how well rules did, where no saved tally has them


class Bookkeeping:
    """The loop's memory. A fault of a plug or of the disk ends here and costs its own part only."""

    def __init__(
        self, journal: Journal, learned: LearnedStates | None = None, *, domain: str = "cluster"
    ) -> None:
        self.journal = journal
        self.domain = domain
        self.learned = learned
        self.t_s = float("-inf")
        self.faults: deque[Fault] = deque(maxlen=50)
        self.unlearned: list[Outcome] = []  # outcomes that nothing was learned from yet
        self.missed_choices: list[Choice] = []  # an earlier run did not get to these
        self.last_choice_seq = 0  # choices up to this journal entry are known
        self.rules = RuleTally()
        self.found: dict[str, float] = {}  # finding or pattern: when it was last seen
        self._unwritten: list[Record] = []
        self._unwritable: list[DecisionId] = []
        self._saved_s = self._measured_s = float("-inf")
        self._measuring: Learner | None = None

    # -- records -------------------------------------------------------------------------------

    def note(self, records: Sequence[Record]) -> None:
        """Add records that the next write makes durable."""
        self._unwritten += records

    def write(self, records: Sequence[Record], t_s: float) -> bool:
        """Make records durable, after those that could not be written before."""
        self.t_s = t_s
        self._unwritten += records
        if not self._unwritten:
            return True
        try:
            self.journal.append(self._unwritten)
        except StewardError as fault:
            self.faults.append(as_fault(fault, "journal", t_s))
            self._unwritten = [each for each in self._unwritten if self._can_be_written(each)]
            return False
        self._unwritten = []
        return True

    def _can_be_written(self, record: Record) -> bool:
        """Leave out what no journal can hold, with a fault: it must not block the rest."""
        try:
            to_row(record, seq=0)
        except StewardError as fault:
            self.faults.append(as_fault(fault, "journal", self.t_s))
            if isinstance(record, Decision):
                self._unwritable.append(record.id)
            return False
        return True

    def take_unwritable(self) -> list[DecisionId]:
        """Return the decisions that no journal can hold, once: they must not be carried out."""
        found, self._unwritable = self._unwritable, []
        return found

    def new_findings(
        self, found: Sequence[Finding | Pattern], t_s: float
    ) -> list[Finding | Pattern]:
        """Return those that were not known yet, and remember all."""
        new = [each for each in found if each.id not in self.found]
        self.found.update({each.id: t_s for each in found})
        if len(self.found) > 10_000:
            self.found = {id_: s for id_, s in self.found.items() if s > t_s - DAY_S}
        return new

    def choices(self, guard: Guard) -> list[Choice]:
        """Return what people chose since the last turn; standing approvals go to the guard."""
        read = partial(self.journal.read, after=self.last_choice_seq, kinds=("choice", "approval"))
        entries: list[JournalEntry] = self.attempt("journal", read, [])
        self.last_choice_seq = max([self.last_choice_seq, *(entry.seq for entry in entries)])
        for entry in entries:
            if isinstance(entry.value, StandingApproval):
                guard.allow(entry.value)
        missed, self.missed_choices = self.missed_choices, []
        made = [entry.value for entry in entries if isinstance(entry.value, Choice)]
        return missed + [each for each in made if self._is_ours(each.decision)]

    def _is_ours(self, decision: DecisionId) -> bool:
        """Return whether a decision is of this loop's domain; unknown ones are everybody's."""
        read = partial(self.journal.read, kinds=("decision",), ids=(decision,), limit=1)
        found: list[JournalEntry] = self.attempt("journal", read, [])
        values = [entry.value for entry in found if isinstance(entry.value, Decision)]
        return all(domain_of(each.action) == self.domain for each in values)

    def due_outcomes(self, t_s: float) -> list[Outcome]:
        """Return the outcomes that can be judged fairly now.

        Bad loans end early. Judged as they end, the first to be known would all be bad.
        """
        due = [outcome for outcome in self.unlearned if outcome.due_s <= t_s]
        self.unlearned = [outcome for outcome in self.unlearned if outcome.due_s > t_s]
        return due

    # -- learned state -------------------------------------------------------------------------

    def rule_weights(self, t_s: float, *, first: bool) -> dict[str, float] | None:
        """Return how far each rule is trusted, if anything about one has changed."""
        read = partial(self.journal.read, after=self.rules.seq, kinds=KINDS)
        entries: list[JournalEntry] = self.attempt("journal", read, [])
        judged = self._tally(entries)
        return self.rules.weights(t_s) if first or judged else None

    def restore_rules(self) -> None:
        """Restore the tally of rules, and add what the journal has beyond it.

        A tally that does not fit is discarded with the reason as a fault, and the journal's newest
        entries take its place.
        """
        self.restore_learned([self.rules])
        newest = self.journal.newest()
        if self.rules.seq > newest:
            self._discarded(self.rules.name, "the journal has lost entries that it was made from")
            self.rules = RuleTally()
        missing = self.journal.read(
            after=self.rules.seq, kinds=KINDS, newest_first=True, limit=RULES_READ
        )
        self._tally(missing[::-1])
        self.rules.seq = max(self.rules.seq, newest)

    def _tally(self, entries: Sequence[JournalEntry]) -> bool:
        judged = [self.rules.add(entry.value) for entry in entries]
        self.rules.seq = max([self.rules.seq, *(entry.seq for entry in entries)])
        return any(judged)

    def save_learned_if_due(self, plugs: Sequence[object], t_s: float) -> None:
        """Save learned state every ten minutes, and measurements every minute.

        A crash loses no more than that.
        """
        if self._measuring is not None and t_s - self._measured_s >= MEASURED_EVERY_S:
            self._measured_s = t_s
            self._save(self._measuring, t_s, durable=False)
        if t_s - self._saved_s >= SAVE_EVERY_S:
            self.save_learned(plugs, t_s)

    def save_learned(self, plugs: Sequence[object], t_s: float) -> None:
        """Save the state of every plug that learns, and the tally of rules."""
        self._saved_s = t_s
        for plug in (*plugs, self.rules):
            if isinstance(plug, Learner):
                self._save(plug, t_s)

    def restore_measured(self, verifier: object) -> None:
        """Restore what a verifier measured, and save it from now on."""
        if isinstance(verifier, Learner):
            self.restore_learned([verifier])
            self._measuring = verifier

    def _save(self, plug: Learner, t_s: float, *, durable: bool = True) -> None:
        def save(learned: LearnedStates) -> None:
            until = {"until_s": t_s}
            name, version = name_of(plug), plug.state_version
            learned.save(name, version, plug.save_state(), learnt_from=until, durable=durable)

        if self.learned is not None:
            self.call(name_of(plug), partial(save, self.learned), None)

    def restore_learned(self, plugs: Sequence[object]) -> None:
        """Restore saved states; one that does not fit is discarded, with the reason as a fault."""
        if self.learned is None:
            return
        for plug in plugs:
            if isinstance(plug, Learner):
                why = self.learned.restore(plug)
                if why:
                    self._discarded(name_of(plug), why)

    def _discarded(self, name: str, why: str) -> None:
        problem = f"the learned state of {name} was discarded: {why}"
        hint = "it learns anew from what it sees"
        self.fault(Fault(t_s=self.t_s, where="learned", problem=problem, hint=hint))

    # -- faults --------------------------------------------------------------------------------

    def call(self, plug: str, call: Callable[[], T], otherwise: T) -> T:
        """Call a plug; its fault costs its own answer and nothing else."""
        try:
            return call()
        except PLUG_FAULTS as fault:
            self.fault(as_fault(fault, plug, self.t_s))
            return otherwise

    def attempt(self, where: str, call: Callable[[], T], otherwise: T) -> T:
        """Call a part of our own; what it expects to go wrong is a fault, not the end."""
        try:
            return call()
        except StewardError as fault:
            self.fault(as_fault(fault, where, self.t_s))
            return otherwise

    def fault(self, fault: Fault) -> None:
        """Remember a fault; one that comes back every turn is one journal entry."""
        same = any((f.where, f.problem) == (fault.where, fault.problem) for f in self.faults)
        self.faults.append(fault)
        if not same:
            self._unwritten.append(fault.event())


def as_fault(fault: BaseException, where: str, t_s: float) -> Fault:
    """Return an exception as a fault of steward."""
    if isinstance(fault, StewardError):
        return Fault(t_s=t_s, where=where, problem=str(fault), hint=fault.hint)
    return Fault(t_s=t_s, where=where, problem=f"{type(fault).__name__}: {fault}")
