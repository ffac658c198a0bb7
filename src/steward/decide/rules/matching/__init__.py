"""Matchers: combine several occurrences into matches.

Belongs here: sets and sequences with windows and negations, over occurrences, without their text.
Does not: tests of lines (`terms`), joins over several sources (`joining`).
"""

from __future__ import annotations

from steward.decide.rules.matching.pattern import (
    NEVER,
    Counts,
    EngineLimits,
    MatchPattern,
    NegationWindow,
    Occurrence,
    PatternMatch,
    PatternMatcher,
)
from steward.decide.rules.matching.preq_negated_sequence import PreqNegatedSequence
from steward.decide.rules.matching.preq_negated_set import PreqNegatedSet
from steward.decide.rules.matching.preq_sequence import PreqSequence
from steward.decide.rules.matching.strict_matcher import StrictMatcher
from steward.decide.rules.matching.unordered import SingleMatcher, UnorderedMatcher
from steward.model.rules import Mode

__all__ = [
    "NEVER",
    "Counts",
    "EngineLimits",
    "MatchPattern",
    "NegationWindow",
    "Occurrence",
    "PatternMatch",
    "PatternMatcher",
    "matcher_for",
]


def matcher_for(
    pattern: MatchPattern, *, mode: Mode, limits: EngineLimits, counts: Counts
) -> PatternMatcher:
    """Return an empty matcher."""
    if pattern.is_single:
        return SingleMatcher()
    most = max(limits.events_per_state, 2 * max(pattern.needed))
    plain_set = not pattern.negations and not pattern.ordered and not pattern.intervals
    if plain_set:
        return UnorderedMatcher(pattern, most=most, counts=counts)
    if mode is Mode.STRICT:
        return StrictMatcher(pattern, most=most, counts=counts)
    if not pattern.negations:
        return PreqSequence(pattern, most=most, counts=counts)
    kind = PreqNegatedSequence if pattern.ordered else PreqNegatedSet
    return kind(pattern, most=most, counts=counts)
