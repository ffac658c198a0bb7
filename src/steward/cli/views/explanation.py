"""A decision's whole story as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from steward.cli.output import plain
from steward.cli.words import gpu_hours, in_unit, moment, moment_ago, number, span, sparkline
from steward.model.decision import Choice, Decision, DecisionState
from steward.model.finding import Finding
from steward.model.frame import T_S, Frame
from steward.model.outcome import Outcome
from steward.store.explain import DecisionExplanation

__all__ = ["lines_of", "record_of"]

Line = tuple[str, str]
_OPEN = (DecisionState.ADVISED, DecisionState.WAITING, DecisionState.HELD)


def record_of(found: DecisionExplanation) -> dict[str, Any]:
    """Return a story as JSON shows it; samples are rows of time and value."""
    return {
        "state": found.story.state.value,
        "gained_gpu_seconds": found.story.gained,
        "story": plain(found.story),
        "findings": plain(found.findings),
        "samples": {name: plain(_values(name, frame)) for name, frame in found.samples.items()},
    }


def lines_of(found: DecisionExplanation, now_s: float) -> Iterator[str]:
    """Write the story: what, why, expected, allowed, approved, done, measured, and the samples."""
    story = found.story
    decision = story.decision
    undo = f"; taking it back: {story.undo_state.value}" if story.undo_state else ""
    yield f"decision {decision.id}: {story.state.value}{undo}"
    yield from _pairs(_head(decision, now_s))
    if story.state in _OPEN:
        yield from _pairs([("by hand", f"steward decisions commands {decision.id}")])
    ruled = [(each.ruling.value, each.t_s, each.why) for each in story.verdicts]
    yield from _part("rulings of the guard", ruled)
    said = [(each.choice, each.t_s, _by(each)) for each in story.choices]
    yield from _part("choices", said)
    done = [(each.result, each.t_s, each.text) for each in story.receipts]
    yield from _part("receipts", done)
    ends = [("final" if each.final else "so far", each) for each in story.outcomes]
    yield from _part("what came of it", [(word, each.t_s, _outcome(each)) for word, each in ends])
    yield from _findings(found)


def _head(decision: Decision, now_s: float) -> Iterator[Line]:
    expects = decision.expects
    promise = f"{number(expects.low / 3600)} to {number(expects.high / 3600)}"
    yield "what", decision.action.sentence
    yield "decided", f"{moment_ago(decision.t_s, now_s)} by {decision.policy}"
    yield "why", decision.because
    yield "tenant", decision.tenant
    yield "expected", f"{gpu_hours(expects.mid)} ({promise}) after {span(decision.check_after_s)}"
    yield "undo", decision.undo.sentence if decision.undo else "it is itself a way back"
    for forecast in decision.forecasts:
        low, mid, high = (number(v) for v in (forecast.low, forecast.mid, forecast.high))
        yield "believed", f"{forecast.quantity} of {forecast.subject} is {mid} ({low} to {high})"


def _by(choice: Choice) -> str:
    return f"by {choice.user}" + (f": {choice.note}" if choice.note else "")


def _outcome(outcome: Outcome) -> str:
    """Write an outcome in hours where its yardstick is GPU time, else in its own unit."""
    _, unit = in_unit(outcome.expected, outcome.yardstick)
    low, mid, high, promised = (
        number(in_unit(each, outcome.yardstick)[0])
        for each in (outcome.gained.low, outcome.gained.mid, outcome.gained.high, outcome.expected)
    )
    return (
        f"{mid} {unit} ({low} to {high}) over {span(outcome.to_s - outcome.from_s)}, "
        f"promised {promised}; {outcome.text}"
    )


def _findings(found: DecisionExplanation) -> Iterator[str]:
    missing = len(found.story.decision.findings) - len(found.findings)
    if missing:
        yield from ("", f"{missing} of its findings are not in the journal any more")
    for finding in found.findings:
        yield ""
        yield f"finding {finding.id}: {finding.title}"
        yield from _pairs(_finding(finding))
        for evidence in finding.evidence:
            name = f"{evidence.entity} {evidence.metric}"
            yield f"  {name}: {evidence.says}"
            yield f"    {_samples(name, found.samples.get(name))}"


def _finding(finding: Finding) -> Iterator[Line]:
    yield "severity", f"{finding.severity.value} ({finding.rule})"
    yield "subject", finding.subject
    yield "since", moment(finding.since_s)


def _samples(name: str, frame: Frame | None) -> str:
    values = [value for _, value in _values(name, frame)] if frame is not None else []
    known = [value for value in values if value is not None]
    if not known:
        return "its samples are not there any more"
    low, mean, high = min(known), sum(known) / len(known), max(known)
    figures = f"lowest {number(low)}, mean {number(mean)}, highest {number(high)}"
    return f"{sparkline(values)}  {figures}, {len(values)} samples"


def _values(name: str, frame: Frame) -> list[tuple[float, float | None]]:
    metric = name.rpartition(" ")[2]
    if metric not in frame.columns:
        return []
    return list(zip(frame[T_S].to_list(), frame[metric].to_list(), strict=True))


def _part(title: str, said: Sequence[tuple[str, float, str]]) -> Iterator[str]:
    if said:
        yield from ("", title)
        yield from (f"  {moment(t_s)}  {word}: {text}" for word, t_s, text in said)


def _pairs(pairs: Iterable[Line]) -> Iterator[str]:
    return (f"  {name:<9} {text}" for name, text in pairs)
