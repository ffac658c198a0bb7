"""How far a rule gets on a log: what matched where, and why it did not fire.

The reason is found by trying: the same lines go to the same engine with one demand of the rule
taken away (its window, its order, a negative condition, a join, the source). Whatever makes it fire
is what stood in the way, and the lines of that match are the near miss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steward.decide.rules.engine import RuleEngine
from steward.inspection.explanation.condition_matches import ConditionMatches, Kept, look
from steward.inspection.explanation.description import lasting
from steward.inspection.explanation.near_misses import RuleDemand, beginning, demands
from steward.inspection.feeds import Feed, LogFeed
from steward.inspection.report import Proof, proof_of
from steward.model.rules import Hit, LogBlock, Mode, Rule

__all__ = ["ConditionSummary", "Reason", "RuleExplanation", "explain"]

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionSummary:
    """One condition of the rule: how often it held, and where first."""

    label: str
    words: str
    forbids: bool
    times: int
    elsewhere: int  # times in logs of other sources, where the rule does not look
    other_case: int  # lines that would fit if capitals did not matter; -1: nobody looked
    places: tuple[Proof, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why it did not fire, with the near miss."""

    words: str
    places: tuple[Proof, ...] = ()
    denied_by: tuple[Proof, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleExplanation:
    """What a rule made of logs and series."""

    hits: tuple[Hit, ...]
    sightings: tuple[ConditionSummary, ...]
    reasons: tuple[Reason, ...]
    lines: int
    notes: tuple[str, ...] = ()


def explain(rule: Rule, feeds: Sequence[Feed], *, mode: Mode) -> RuleExplanation:
    """Say how far a rule gets on what is fed."""
    kept = look(rule, feeds, mode=mode)
    hits = _hits(rule, kept, mode=mode)
    sightings = tuple(_sighting(spot) for spot in kept.spots)
    reasons = () if hits else tuple(_reasons(rule, kept, mode))
    return RuleExplanation(
        hits=tuple(hits),
        sightings=sightings,
        reasons=reasons,
        lines=sum(each.tally.lines for each in feeds if isinstance(each, LogFeed)),
        notes=kept.notes,
    )


def _sighting(spot: ConditionMatches) -> ConditionSummary:
    return ConditionSummary(
        label=spot.label,
        words=spot.words,
        forbids=spot.forbids,
        times=spot.times,
        elsewhere=spot.elsewhere,
        other_case=spot.other_case if not spot.times else -1,
        places=tuple(spot.places[:_SHOWN]),
    )


def _hits(rule: Rule, kept: Kept, *, mode: Mode, respect_sources: bool = True) -> list[Hit]:
    engine = RuleEngine([rule], mode=mode, respect_sources=respect_sources)
    if engine.joins_streams and len(kept.names) > 1:
        engine.expect(kept.names)
    hits: list[Hit] = []
    for piece in kept.pieces:
        if isinstance(piece, LogBlock):
            hits += engine.read(piece)
        elif isinstance(piece, tuple):
            hits += engine.happen(piece)
        elif not isinstance(piece, int):
            hits += engine.sample(piece)
    return [*hits, *engine.finish()]


def _reasons(rule: Rule, kept: Kept, mode: Mode) -> Iterable[Reason]:
    missing = [spot for spot in kept.spots if not spot.forbids and not spot.times]
    found = [*_singles(rule, kept, mode)]
    if found:
        return found
    if missing:
        return [_never(spot) for spot in missing]
    both = _pairs(rule, kept, mode) or _progress(rule, kept, mode)
    return [both] if both else [Reason(words="several things stand in its way at once")]


def _progress(rule: Rule, kept: Kept, mode: Mode) -> Reason | None:
    """Say how far a sequence comes: the most conditions from the first on that are met."""
    for count in range(len(rule.root.clauses) - 1, 0, -1):
        if hits := _hits(beginning(rule, count), kept, mode=mode):
            words = f"it comes as far as condition {count}: condition {count + 1} does not follow"
            return _reason(words, hits[0])
    return None


def _never(spot: ConditionMatches) -> Reason:
    if spot.elsewhere:
        return Reason(
            words=f"condition {spot.label} holds only in logs of another source, where the rule "
            f"does not look ({spot.elsewhere} times)"
        )
    hint = f"; {spot.other_case} lines would fit in other capitals" if spot.other_case > 0 else ""
    return Reason(words=f"condition {spot.label} never holds{hint}")


def _singles(rule: Rule, kept: Kept, mode: Mode) -> Iterable[Reason]:
    if hits := _hits(rule, kept, mode=mode, respect_sources=False):
        words = "the lines are in logs of another source than the rule names (--source says which)"
        yield _reason(words, hits[0])
    told: set[str] = set()
    for demand in demands(rule):
        if demand.kind not in told and (hits := _hits(demand.without, kept, mode=mode)):
            told.add(demand.kind)  # of several lengths the one that is nearest is enough
            yield _told(demand, hits[0], kept)


def _pairs(rule: Rule, kept: Kept, mode: Mode) -> Reason | None:
    """Try to take away two demands, then all of them."""
    every = demands(rule)
    for first in every:
        for second in demands(first.without):
            if second.kind == first.kind:
                continue
            if hits := _hits(second.without, kept, mode=mode):
                return _reason(f"{first.words(hits[0])}; and {second.words(hits[0])}", hits[0])
    return None


def _told(demand: RuleDemand, hit: Hit, kept: Kept) -> Reason:
    reason = _reason(demand.words(hit), hit)
    if demand.forbidden is None:
        return reason
    denied = [
        place
        for spot in kept.spots
        if spot.forbids and spot.place == demand.forbidden.place
        for place in spot.places
    ]
    near = sorted(denied, key=lambda each: abs(each.t - hit.t_ns / 1e9))[:_SHOWN]
    inside = [each for each in near if demand.denies(hit, round(each.t * 1e9))]
    return Reason(words=reason.words, places=reason.places, denied_by=tuple(inside or near))


def _reason(words: str, hit: Hit) -> Reason:
    times = [item.t_ns for item in hit.items]
    span = lasting(max(times) - min(times)) if len(times) > 1 else ""
    lasted = f" (these span {span})" if span else ""
    places = tuple(proof_of(item) for item in hit.items[: 4 * _SHOWN])
    return Reason(words=words + lasted, places=places)
