"""Matchers of one join: one for each value of its join attributes."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import TYPE_CHECKING, cast

from steward.decide.rules.joining.attributes import values_of
from steward.decide.rules.matching import (
    NEVER,
    Counts,
    EngineLimits,
    Occurrence,
    PatternMatch,
    PatternMatcher,
    matcher_for,
)
from steward.model.rules import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steward.decide.rules.joining.node_match import NodeMatch
    from steward.decide.rules.joining.plan import Join, ParentLink

__all__ = ["JoinStates", "Key"]

Key = tuple[str, ...]


class JoinStates:
    """Keep one matcher per join key; evict and count the least recently used."""

    def __init__(self, join: Join, *, limits: EngineLimits, counts: Counts) -> None:
        self.join = join
        self._limits = limits
        self._counts = counts
        self._matchers: OrderedDict[Key, PatternMatcher] = (
            OrderedDict()
        )  # least recently used first
        self._held = 0
        self._counted: OrderedDict[tuple[Key, int, str], int] = OrderedDict()  # oldest first

    def keys_of(self, report: NodeMatch) -> tuple[Key, ...]:
        """Return the join keys of a report: one, one per host of a host list, or none."""
        if self.join.per_entity:
            return ((report.entity,),)
        values = [report.attributes.get(name, "") for name in self.join.correlations]
        if "" in values:
            return ()
        lists = zip(self.join.correlations, values, strict=True)
        return tuple(itertools.product(*(values_of(name, value) for name, value in lists)))

    def is_repeat(self, link: ParentLink, key: Key, seen: Occurrence) -> bool:
        """Return whether a value that must differ was counted within the window; note it if not."""
        if not link.distinct:
            return False
        report = cast("NodeMatch", seen.what)
        value = (key, link.mask, report.attributes.get(link.distinct, ""))
        before_ns = self._counted.get(value)
        if before_ns is not None and seen.last_ns - before_ns <= self.join.pattern.window_ns:
            return True
        self._counted.pop(value, None)
        self._counted[value] = seen.last_ns
        if len(self._counted) > self._limits.events:
            self._counted.popitem(last=False)
        return False

    def add(
        self, key: Key, seen: Occurrence, mask: int, at_ns: int
    ) -> tuple[Sequence[PatternMatch], int]:
        """Add a report; return the matches, and the next due time if it changed."""
        matcher = self._matchers.pop(key, None) or matcher_for(
            self.join.pattern, mode=Mode.STRICT, limits=self._limits, counts=self._counts
        )
        before, was_due_ns = matcher.held, matcher.due_ns
        matches = matcher.add(seen, mask, at_ns)
        self._keep(key, matcher, before)
        return matches, matcher.due_ns if matcher.due_ns != was_due_ns else NEVER

    def tick(self, key: Key, due_ns: int) -> tuple[Sequence[PatternMatch], int]:
        """Advance time for one key, if it is still due at this time."""
        if not self.waits_for(key, due_ns):
            return (), NEVER
        matcher = self._matchers.pop(key)
        before = matcher.held
        matches = matcher.tick(due_ns)
        self._keep(key, matcher, before)
        return matches, matcher.due_ns

    def waits_for(self, key: Key, due_ns: int) -> bool:
        """Return whether a key is still due at this time."""
        matcher = self._matchers.get(key)
        return matcher is not None and matcher.due_ns == due_ns

    def _keep(self, key: Key, matcher: PatternMatcher, before: int) -> None:
        held = matcher.held
        self._held += held - before
        if held:
            self._matchers[key] = matcher
        while len(self._matchers) > self._limits.states_per_rule or (
            self._held > self._limits.events and len(self._matchers) > 1
        ):
            _, forgotten = self._matchers.popitem(last=False)
            self._held -= forgotten.held
            self._counts.evicted += forgotten.held
            self._counts.evicted_states += 1
