"""State of each stream: its clock, and a matcher per rule."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import TYPE_CHECKING

from steward.decide.rules.matching import (
    NEVER,
    Counts,
    EngineLimits,
    PatternMatch,
    PatternMatcher,
    matcher_for,
)
from steward.decide.rules.storm_limit import StormWindow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steward.decide.rules.joining import LogLeaf
    from steward.model.rules import Mode, Stream

__all__ = ["StreamState", "StreamStates"]

SET_BACK_NS = 3600 * 10**9
SET_BACK_ENTRIES = 50  # fewer entries from long ago are stragglers


class StreamState:
    """One stream of one entity: its clock, and its non-empty matchers."""

    __slots__ = ("behind", "clock_ns", "dues", "held", "matchers", "storm", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.clock_ns = -NEVER
        self.matchers: dict[LogLeaf, PatternMatcher] = {}
        self.dues: list[tuple[int, int, LogLeaf]] = []  # may hold stale due times
        self.held = 0
        self.behind = 0  # entries in a row that were far behind the clock
        self.storm = StormWindow()

    def is_set_back(self, newest_ns: int, entries: int) -> bool:
        """Return whether enough consecutive entries are old that the clock was set back."""
        self.behind = self.behind + entries if newest_ns < self.clock_ns - SET_BACK_NS else 0
        return self.behind >= SET_BACK_ENTRIES

    def begin_again(self) -> None:
        """Reset the clock and the matchers."""
        self.clock_ns, self.behind = -NEVER, 0
        self.storm = StormWindow()
        self.matchers.clear()
        self.dues.clear()

    def wait_for(self, due_ns: int, leaf: LogLeaf) -> None:
        """Add a due time of a matcher."""
        heapq.heappush(self.dues, (due_ns, id(leaf), leaf))

    def next_due(self) -> tuple[int, LogLeaf] | None:
        """Return the earliest due time of the matchers."""
        while self.dues:
            due_ns, _, leaf = self.dues[0]
            if self.matchers[leaf].due_ns == due_ns:
                return due_ns, leaf
            heapq.heappop(self.dues)
        return None

    def tick(self, leaf: LogLeaf, clock_ns: int) -> Sequence[PatternMatch]:
        """Advance time for one matcher."""
        matcher = self.matchers[leaf]
        matches = matcher.tick(clock_ns)
        if matcher.due_ns != NEVER:
            self.wait_for(matcher.due_ns, leaf)
        return matches


class StreamStates:
    """All streams, in bounded memory: the least recently used are evicted, and counted."""

    def __init__(self, *, mode: Mode, limits: EngineLimits, counts: Counts) -> None:
        self._mode = mode
        self._limits = limits
        self._counts = counts
        self._streams: OrderedDict[tuple[str, str], StreamState] = (
            OrderedDict()
        )  # least recent first
        self._held = 0
        self._waiting: dict[tuple[str, str], StreamState] = {}

    def __iter__(self) -> Iterator[StreamState]:
        return iter(self._streams.values())

    def waiting(self) -> list[StreamState]:
        """Return the streams with pending due times."""
        return [state for state in self._waiting.values() if state.dues]

    def of(self, stream: Stream) -> StreamState:
        """Return the state of a stream."""
        key = stream.name, stream.entity
        state = self._streams.pop(key, None) or StreamState(stream)
        self._streams[key] = state
        if len(self._streams) > self._limits.entities:
            self._forget_one()
        return state

    def matcher(self, state: StreamState, leaf: LogLeaf) -> PatternMatcher:
        """Return the matcher of a leaf for a state."""
        found = state.matchers.get(leaf)
        if found is None:
            found = state.matchers[leaf] = matcher_for(
                leaf.pattern, mode=self._mode, limits=self._limits, counts=self._counts
            )
        return found

    def settle(self, state: StreamState) -> None:
        """Update the counts of a state, drop empty matchers, and enforce limits."""
        empty = [leaf for leaf, matcher in state.matchers.items() if not matcher.held]
        for leaf in empty:
            del state.matchers[leaf]
        state.dues = [each for each in state.dues if each[2] in state.matchers]
        heapq.heapify(state.dues)
        if state.dues:
            self._waiting[state.stream.name, state.stream.entity] = state
        else:
            self._waiting.pop((state.stream.name, state.stream.entity), None)
        held = sum(matcher.held for matcher in state.matchers.values())
        self._held += held - state.held
        state.held = held
        while self._held > self._limits.events and len(self._streams) > 1:
            self._forget_one()

    def _forget_one(self) -> None:
        key, state = self._streams.popitem(last=False)
        self._waiting.pop(key, None)
        self._held -= state.held
        self._counts.evicted += state.held
        self._counts.evicted_states += len(state.matchers)
