"""Matchers: what several things that were seen mean together.

Belongs here: sets and sequences with windows and guards, over things whose text nobody looks at
any more. Does not: tests of lines (`terms`), joins over several sources (`joining`).
"""

from __future__ import annotations

from steward.decide.rules.matching.compat.negated_sequence import CompatNegatedSequence
from steward.decide.rules.matching.compat.negated_set import CompatNegatedSet
from steward.decide.rules.matching.compat.sequence import CompatSequence
from steward.decide.rules.matching.sets import AnyOrder
from steward.decide.rules.matching.shape import (
    NEVER,
    Counts,
    Guard,
    Limits,
    Match,
    Matcher,
    Seen,
    Shape,
)
from steward.decide.rules.matching.single import One
from steward.decide.rules.matching.strict.matcher import StrictMatcher
from steward.model.rules import Mode

__all__ = ["NEVER", "Counts", "Guard", "Limits", "Match", "Matcher", "Seen", "Shape", "matcher_for"]


def matcher_for(shape: Shape, *, mode: Mode, limits: Limits, counts: Counts) -> Matcher:
    """Return a matcher that has seen nothing yet."""
    if shape.is_single:
        return One()
    most = max(limits.events_per_state, 2 * max(shape.needed))
    plain_set = not shape.guards and not shape.ordered and not shape.intervals
    if plain_set:
        return AnyOrder(shape, most=most, counts=counts)
    if mode is Mode.STRICT:
        return StrictMatcher(shape, most=most, counts=counts)
    if not shape.guards:
        return CompatSequence(shape, most=most, counts=counts)
    kind = CompatNegatedSequence if shape.ordered else CompatNegatedSet
    return kind(shape, most=most, counts=counts)
