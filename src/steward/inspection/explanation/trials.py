"""Trials of a rule on a log: what matched where, and why it did not fire.

The reason is found by trials: the same lines go to the same engine with one demand of the rule
removed (its window, its order, a negative condition, a join, the source). The removal that makes
the rule fire is the reason, and the lines of that match are the near miss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steward.decide.rules.engine import RuleEngine
from steward.inspection.explanation.condition_matches import (
    ConditionMatches,
    ConditionScan,
    scan_conditions,
)
from steward.inspection.explanation.description import duration_text
from steward.inspection.explanation.near_misses import RuleDemand, beginning, demands
from steward.inspection.feeds import Feed, LogFeed
from steward.inspection.report import EvidenceItem, evidence_item
from steward.model.rules import Hit, LogBlock, Mode, Rule

__all__ = ["ConditionSummary", "Reason", "RuleExplanation", "explain"]

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionSummary:
    """One condition of the rule: how often it held, and where first."""

    label: str
    text: str
    forbids: bool
    times: int
    elsewhere: int  # matches in logs of other sources, which the rule does not read
    other_case: int  # lines that match ignoring case; -1: not tested
    places: tuple[EvidenceItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why it did not fire, with the near miss."""

    text: str
    places: tuple[EvidenceItem, ...] = ()
    denied_by: tuple[EvidenceItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleExplanation:
    """Result of a rule on logs and series."""

    hits: tuple[Hit, ...]
    conditions: tuple[ConditionSummary, ...]
    reasons: tuple[Reason, ...]
    lines: int
    notes: tuple[str, ...] = ()


def explain(rule: Rule, feeds: Sequence[Feed], *, mode: Mode) -> RuleExplanation:
    """Run a rule over feeds and explain why it fires or does not."""
    scan = scan_conditions(rule, feeds, mode=mode)
    hits = _hits(rule, scan, mode=mode)
    conditions = tuple(_summary(condition) for condition in scan.conditions)
    reasons = () if hits else tuple(_reasons(rule, scan, mode))
    return RuleExplanation(
        hits=tuple(hits),
        conditions=conditions,
        reasons=reasons,
        lines=sum(each.tally.lines for each in feeds if isinstance(each, LogFeed)),
        notes=scan.notes,
    )


def _summary(condition: ConditionMatches) -> ConditionSummary:
    return ConditionSummary(
        label=condition.label,
        text=condition.text,
        forbids=condition.forbids,
        times=condition.times,
        elsewhere=condition.elsewhere,
        other_case=condition.other_case if not condition.times else -1,
        places=tuple(condition.places[:_SHOWN]),
    )


def _hits(
    rule: Rule, scan: ConditionScan, *, mode: Mode, respect_sources: bool = True
) -> list[Hit]:
    engine = RuleEngine([rule], mode=mode, respect_sources=respect_sources)
    if engine.joins_streams and len(scan.names) > 1:
        engine.expect(scan.names)
    hits: list[Hit] = []
    for piece in scan.pieces:
        if isinstance(piece, LogBlock):
            hits += engine.read(piece)
        elif isinstance(piece, tuple):
            hits += engine.happen(piece)
        elif not isinstance(piece, int):
            hits += engine.sample(piece)
    return [*hits, *engine.finish()]


def _reasons(rule: Rule, scan: ConditionScan, mode: Mode) -> Iterable[Reason]:
    missing = [
        condition for condition in scan.conditions if not condition.forbids and not condition.times
    ]
    found = [*_singles(rule, scan, mode)]
    if found:
        return found
    if missing:
        return [_unmet(condition) for condition in missing]
    both = _pairs(rule, scan, mode) or _progress(rule, scan, mode)
    return [both] if both else [Reason(text="several things stand in its way at once")]


def _progress(rule: Rule, scan: ConditionScan, mode: Mode) -> Reason | None:
    """Return how many conditions of a sequence are met, from the first on."""
    for count in range(len(rule.root.clauses) - 1, 0, -1):
        if hits := _hits(beginning(rule, count), scan, mode=mode):
            text = f"it comes as far as condition {count}: condition {count + 1} does not follow"
            return _reason(text, hits[0])
    return None


def _unmet(condition: ConditionMatches) -> Reason:
    if condition.elsewhere:
        return Reason(
            text=f"condition {condition.label} holds only in logs of another source, where the "
            f"rule does not look ({condition.elsewhere} times)"
        )
    hint = (
        f"; {condition.other_case} lines would fit in other capitals"
        if condition.other_case > 0
        else ""
    )
    return Reason(text=f"condition {condition.label} never holds{hint}")


def _singles(rule: Rule, scan: ConditionScan, mode: Mode) -> Iterable[Reason]:
    if hits := _hits(rule, scan, mode=mode, respect_sources=False):
        text = "the lines are in logs of another source than the rule names (--source says which)"
        yield _reason(text, hits[0])
    tried: set[str] = set()
    for demand in demands(rule):
        if demand.kind not in tried and (hits := _hits(demand.without, scan, mode=mode)):
            tried.add(demand.kind)  # the nearest of several lengths is enough
            yield _demand_reason(demand, hits[0], scan)


def _pairs(rule: Rule, scan: ConditionScan, mode: Mode) -> Reason | None:
    """Try the rule without two of its demands."""
    every = demands(rule)
    for first in every:
        for second in demands(first.without):
            if second.kind == first.kind:
                continue
            if hits := _hits(second.without, scan, mode=mode):
                return _reason(f"{first.text(hits[0])}; and {second.text(hits[0])}", hits[0])
    return None


def _demand_reason(demand: RuleDemand, hit: Hit, scan: ConditionScan) -> Reason:
    reason = _reason(demand.text(hit), hit)
    if demand.forbidden is None:
        return reason
    denied = [
        place
        for condition in scan.conditions
        if condition.forbids and condition.place == demand.forbidden.place
        for place in condition.places
    ]
    near = sorted(denied, key=lambda each: abs(each.t - hit.t_ns / 1e9))[:_SHOWN]
    inside = [each for each in near if demand.denies(hit, round(each.t * 1e9))]
    return Reason(text=reason.text, places=reason.places, denied_by=tuple(inside or near))


def _reason(text: str, hit: Hit) -> Reason:
    times = [item.t_ns for item in hit.items]
    span = duration_text(max(times) - min(times)) if len(times) > 1 else ""
    lasted = f" (these span {span})" if span else ""
    places = tuple(evidence_item(item) for item in hit.items[: 4 * _SHOWN])
    return Reason(text=text + lasted, places=places)
