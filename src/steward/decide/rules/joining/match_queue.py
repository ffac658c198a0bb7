"""Queue of reports, delivered to parent nodes in the order of their times."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, cast

from steward.decide.rules.joining.join_states import JoinStates, Key
from steward.decide.rules.joining.node_match import NodeMatch, hit_of, merged
from steward.decide.rules.matching import NEVER, Counts, EngineLimits, Occurrence, PatternMatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steward.decide.rules.joining.plan import Join, ParentLink
    from steward.model.rules import Hit

__all__ = ["MatchQueue"]

_ROOM = 1000  # due times before stale ones are removed


class MatchQueue:
    """Hold reports until every stream has reached their time; streams may come in any order."""

    def __init__(self, joins: Sequence[Join], *, limits: EngineLimits, counts: Counts) -> None:
        self._states = {join: JoinStates(join, limits=limits, counts=counts) for join in joins}
        self._counts = counts
        self._numbers = itertools.count()
        self._reports: list[tuple[int, int, int, ParentLink, Occurrence]] = []
        self._dues: list[tuple[int, int, JoinStates, Key]] = []
        self._room = _ROOM
        self._most = limits.events

    def post(self, up: ParentLink, seen: Occurrence, at_ns: int) -> None:
        """Queue a report, which is delivered when that time is reached."""
        heapq.heappush(self._reports, (at_ns, seen.serial, next(self._numbers), up, seen))

    def advance(self, until_ns: int) -> list[Hit]:
        """Deliver all reports up to a time, and advance time to it."""
        hits: list[Hit] = []
        while True:
            due_ns = self._dues[0][0] if self._dues else NEVER
            next_ns = self._reports[0][0] if self._reports else NEVER
            if min(due_ns, next_ns) > until_ns:
                if len(self._reports) <= self._most:
                    return hits
                self._counts.hurried += 1
            hits += self._tick() if due_ns <= next_ns else self._deliver_next()

    def _deliver_next(self) -> list[Hit]:
        at_ns, _, _, up, seen = heapq.heappop(self._reports)
        states = self._states[up.join]
        keys = states.keys_of(cast("NodeMatch", seen.what))
        if not keys:
            self._counts.unjoined += 1
        hits: list[Hit] = []
        for key in keys:
            if not states.is_repeat(up, key, seen):
                matches, due_ns = states.add(key, seen, up.mask, at_ns)
                hits += self._pass_on(states, key, matches, due_ns)
        return hits

    def _tick(self) -> list[Hit]:
        due_ns, _, states, key = heapq.heappop(self._dues)
        matches, next_due_ns = states.tick(key, due_ns)
        return self._pass_on(states, key, matches, next_due_ns)

    def _come_back(self, due_ns: int, states: JoinStates, key: Key) -> None:
        """Add a due time; remove due times of evicted states."""
        if len(self._dues) >= self._room:
            self._dues = [each for each in self._dues if each[2].waits_for(each[3], each[0])]
            heapq.heapify(self._dues)
            self._room = 2 * len(self._dues) + _ROOM
        heapq.heappush(self._dues, (due_ns, next(self._numbers), states, key))

    def _pass_on(
        self, states: JoinStates, key: Key, matches: Sequence[PatternMatch], due_ns: int
    ) -> list[Hit]:
        if due_ns != NEVER:
            self._come_back(due_ns, states, key)
        if not matches:
            return []
        join = states.join
        joined_on = dict(zip(join.correlations, key, strict=False))
        hits: list[Hit] = []
        for match in matches:
            parts = [cast("NodeMatch", each.what) for each in match.seen]
            if join.up is None:
                hits.append(hit_of(join.rule, parts, joined_on, match.fired_ns))
                continue
            report = merged(parts, joined_on, match.fired_ns)
            first_ns = min(each.first_ns for each in match.seen)
            last_ns = max(each.last_ns for each in match.seen)
            self.post(
                join.up, Occurrence(last_ns, match.seen[-1].serial, first_ns, report), last_ns
            )
        return hits
