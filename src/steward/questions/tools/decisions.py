"""The tools `decisions` and `outcomes`: what was decided and why, and how it turned out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from steward.model.decision import DecisionState
from steward.model.outcome import Outcome
from steward.model.yardstick import YARDSTICKS
from steward.questions.facts import Fact, Proposal, Reply, Sentence, say, unknown
from steward.questions.records import Records
from steward.questions.tools.shapes import Span, WindowArguments
from steward.questions.tools.sources import journal_source, span_source
from steward.store.journal_summary import TrackedStory

__all__ = ["DecisionArguments", "OutcomeArguments", "decision_line", "decisions", "outcomes"]

MOST_NAMED = 5
HOUR_S = 3600.0
KEPT_SHARE = 0.5
State = Literal[
    "", "advised", "waiting", "approved", "under-way", "rejected", "held", "active", "done",
    "failed", "undone", "expired",
]  # fmt: skip


class DecisionArguments(WindowArguments):
    """One decision by its id, or those of a time, in a state."""

    decision: str = Field("", max_length=200, description="a decision's id, as d-0123456789ab")
    state: State = Field("", description="only those in this state; waiting: for a person")
    action: str = Field("", max_length=40, description="only this type of action, as lend or drain")


class OutcomeArguments(WindowArguments):
    """Outcomes of one decision, or of all in a time."""

    decision: str = Field("", max_length=200, description="a decision's id; empty: all together")


class _Facts:
    """Makes facts about one decision."""

    def __init__(self, id_: str) -> None:
        self._source, self._link = journal_source("decision", id_)

    def __call__(self, label: str, value: str | float, unit: str = "name") -> Fact:
        return Fact(label=label, value=value, unit=unit, source=self._source, link=self._link)


def decisions(records: Records, asked: DecisionArguments) -> Reply:
    """Explain one decision, or list those of a time."""
    if asked.decision:
        found = records.ledger.story(asked.decision)
        if found is None:
            return unknown(f"There is no decision {asked.decision} in the journal.")
        return Reply(sentences=tuple(_explained(found)), proposals=_proposals([found]))
    if asked.state == "waiting":
        return _waiting(records)
    span = asked.span(records, "24h")
    chosen = [
        each
        for each in records.ledger.decided(span.from_s, span.to_s)
        if (not asked.state or each.state.value == asked.state)
        and (not asked.action or each.story.decision.action.type == asked.action)
    ]
    return Reply(sentences=tuple(_listed(chosen, asked, span)))


def _waiting(records: Records) -> Reply:
    open_ = [each for each in records.ledger.stories if each.state is DecisionState.WAITING]
    source = span_source("decisions", 0.0, records.now_s, state="waiting")
    count = Fact(
        label="decisions that wait for approval",
        value=len(open_),
        unit="decisions",
        source=source,
        link="/decisions?show=Waiting",
    )
    wait = "waits" if len(open_) == 1 else "wait"
    told = [say(f"{{count}} {wait} for approval.", count=count)]
    told += [decision_line(each) for each in open_[:MOST_NAMED]]
    return Reply(sentences=tuple(told), proposals=_proposals(open_[:MOST_NAMED]))


def _proposals(stories: Sequence[TrackedStory]) -> tuple[Proposal, ...]:
    return tuple(
        Proposal(
            text="A person can approve it; nothing happens before.",
            decision=each.story.decision.id,
            command=f"steward decisions approve {each.story.decision.id}",
            link=f"/decisions/{each.story.decision.id}",
        )
        for each in stories
        if each.state is DecisionState.WAITING
    )


def _listed(
    chosen: Sequence[TrackedStory], asked: DecisionArguments, span: Span
) -> Iterator[Sentence]:
    given = {"state": asked.state, "action": asked.action}
    source = span_source(
        "decisions", span.from_s, span.to_s, **{k: v for k, v in given.items() if v}
    )

    def fact(label: str, value: str | float, unit: str) -> Fact:
        return Fact(label=label, value=value, unit=unit, source=source, link="/decisions")

    kind = f" in state {asked.state}" if asked.state else ""
    facts = {
        "count": fact("decisions", len(chosen), "decisions"),
        "start": fact("from", span.from_s, "time"),
    }
    if span.from_s <= 0:
        yield say(f"There are {{count}}{kind} so far.", count=facts["count"])
    else:
        yield say(f"There are {{count}}{kind} since {{start}}.", **facts)
    kinds = Counter(each.story.decision.action.type for each in chosen).most_common(MOST_NAMED)
    if kinds:
        parts = [
            (fact("type of action", name, "name"), fact(f"decisions of type {name}", n, ""))
            for name, n in kinds
        ]
        text = ", ".join(f"{name.text} {n.text}" for name, n in parts)
        yield Sentence(text=f"By action: {text}.", facts=tuple(f for pair in parts for f in pair))
    for each in chosen[:MOST_NAMED]:
        yield decision_line(each)


def decision_line(tracked: TrackedStory) -> Sentence:
    """Return one sentence that names a decision."""
    made = tracked.story.decision
    fact = _Facts(made.id)
    return say(
        "{id} ({state}, {t}): {what}.",
        id=fact("decision", made.id),
        state=fact("state", tracked.state.value),
        t=fact("decided", made.t_s, "time"),
        what=fact("what it does", made.action.sentence, "text"),
    )


def _explained(tracked: TrackedStory) -> Iterator[Sentence]:
    story = tracked.story
    fact = _Facts(story.decision.id)
    yield decision_line(tracked)
    because = fact("reason", story.decision.because.rstrip("."), "text")
    policy = fact("policy", story.decision.policy)
    yield say("Policy {policy} decided it: {because}.", policy=policy, because=because)
    for each in story.choices[-2:]:
        word = {"approve": "approved", "reject": "rejected", "undo": "asked to undo"}[each.choice]
        when = fact("when", each.t_s, "time")
        yield say(f"{{user}} {word} it on {{when}}.", user=fact("who", each.user), when=when)
    if story.verdicts and not story.choices:
        last = story.verdicts[-1]
        facts = {"ruling": fact("ruling", last.ruling.value), "why": fact("why", last.why, "text")}
        yield say("The guard's ruling is {ruling}: {why}.", **facts)
    if story.receipts:
        last_receipt = story.receipts[-1]
        facts = {
            "result": fact("result", last_receipt.result),
            "text": fact("what was done", last_receipt.text, "text"),
        }
        yield say("It was carried out, result {result}: {text}.", **facts)
    yield from _came_of(fact, story.outcomes)


def _came_of(fact: _Facts, found: Sequence[Outcome]) -> Iterator[Sentence]:
    for each in found[-2:]:
        yard = YARDSTICKS[each.yardstick]
        scale, unit = (HOUR_S, "GPU-hours") if yard.unit == "GPU-seconds" else (1.0, yard.unit)
        facts = {
            "gained": fact("gained", each.gained.mid / scale, unit),
            "low": fact("gained at least", each.gained.low / scale, unit),
            "high": fact("gained at most", each.gained.high / scale, unit),
            "expected": fact("expected", each.expected / scale, unit),
        }
        yield say("Measured: {gained} ({low} to {high}), expected {expected}.", **facts)
    if not found:
        yield Sentence(text="No outcome is measured yet.")


# -- outcomes --------------------------------------------------------------------------------------


def outcomes(records: Records, asked: OutcomeArguments) -> Reply:
    """Return how one decision, or all of a time, turned out against what was promised."""
    if asked.decision:
        found = records.ledger.story(asked.decision)
        if found is None:
            return unknown(f"There is no decision {asked.decision} in the journal.")
        fact = _Facts(asked.decision)
        return Reply(sentences=(decision_line(found), *_came_of(fact, found.story.outcomes)))
    span = asked.span(records)
    source = span_source("outcomes", span.from_s, span.to_s)
    chosen = records.ledger.decided(span.from_s, span.to_s)
    if not chosen:
        return unknown(f"No decision was made {span.words}.")
    return Reply(sentences=tuple(_kept(chosen, source)))


def _kept(chosen: Sequence[TrackedStory], source: str) -> Iterator[Sentence]:
    def fact(label: str, value: float, unit: str = "decisions") -> Fact:
        return Fact(label=label, value=value, unit=unit, source=source, link="/savings")

    shares = [
        share
        for each in chosen
        for outcome in each.story.outcomes[:1]
        if (share := outcome.kept_share) is not None
    ]
    states = Counter(each.state for each in chosen)
    if shares:
        yield say(
            "Of {count} with a promise that was checked, {kept} kept at least {half} of it; on "
            "average {mean} of what was promised came.",
            count=fact("decisions whose promise was checked", len(shares)),
            half=fact("what counts as kept", KEPT_SHARE, "share"),
            kept=fact("that kept at least half", sum(share >= KEPT_SHARE for share in shares)),
            mean=fact(
                "mean share of the promise that was kept", sum(shares) / len(shares), "share"
            ),
        )
    else:
        yield Sentence(text="No promise has been checked yet.")
    yield say(
        "Of {all}, {failed} failed and {undone} were undone.",
        all=fact("decisions", len(chosen)),
        failed=fact("failed", states[DecisionState.FAILED], ""),
        undone=fact("undone", states[DecisionState.UNDONE], ""),
    )
