"""What the engine remembers of each stream: how late it is there, and a matcher per rule."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import TYPE_CHECKING

from steward.decide.rules.matching import NEVER, Counts, Limits, Match, Matcher, matcher_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steward.decide.rules.joining import Leaf
    from steward.model.rules import Mode, Stream

__all__ = ["Lane", "Lanes"]

SET_BACK_NS = 3600 * 10**9
SET_BACK_ENTRIES = 50  # a few from long ago are stragglers


class Lane:
    """One stream of one entity: its clock, and the matchers that have seen something of it."""

    __slots__ = ("behind", "clock_ns", "dues", "held", "matchers", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.clock_ns = -NEVER
        self.matchers: dict[Leaf, Matcher] = {}
        self.dues: list[tuple[int, int, Leaf]] = []  # may name times that are no longer waited for
        self.held = 0
        self.behind = 0  # entries in a row that were far behind the clock

    def is_set_back(self, newest_ns: int, entries: int) -> bool:
        """Say whether so much has come from long ago, and nothing else, that this is now."""
        self.behind = self.behind + entries if newest_ns < self.clock_ns - SET_BACK_NS else 0
        return self.behind >= SET_BACK_ENTRIES

    def begin_again(self) -> None:
        """Forget the time, and what was seen."""
        self.clock_ns, self.behind = -NEVER, 0
        self.matchers.clear()
        self.dues.clear()

    def wait_for(self, due_ns: int, leaf: Leaf) -> None:
        """Remember when to come back to a matcher."""
        heapq.heappush(self.dues, (due_ns, id(leaf), leaf))

    def next_due(self) -> tuple[int, Leaf] | None:
        """Return the earliest time that some matcher waits for."""
        while self.dues:
            due_ns, _, leaf = self.dues[0]
            if self.matchers[leaf].due_ns == due_ns:
                return due_ns, leaf
            heapq.heappop(self.dues)
        return None

    def tick(self, leaf: Leaf, clock_ns: int) -> Sequence[Match]:
        """Let time pass for one matcher."""
        matcher = self.matchers[leaf]
        matches = matcher.tick(clock_ns)
        if matcher.due_ns != NEVER:
            self.wait_for(matcher.due_ns, leaf)
        return matches


class Lanes:
    """All lanes, in bounded memory: the least recently used are forgotten, and counted."""

    def __init__(self, *, mode: Mode, limits: Limits, counts: Counts) -> None:
        self._mode = mode
        self._limits = limits
        self._counts = counts
        self._lanes: OrderedDict[tuple[str, str], Lane] = OrderedDict()  # least recent first
        self._held = 0

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes.values())

    def waiting(self) -> list[Lane]:
        """Return the lanes in which something waits for its time."""
        return [lane for lane in self._lanes.values() if lane.dues]

    def of(self, stream: Stream) -> Lane:
        """Return the lane of a stream."""
        key = stream.name, stream.entity
        lane = self._lanes.pop(key, None) or Lane(stream)
        self._lanes[key] = lane
        if len(self._lanes) > self._limits.entities:
            self._forget_one()
        return lane

    def matcher(self, lane: Lane, leaf: Leaf) -> Matcher:
        """Return the matcher of a leaf for a lane."""
        found = lane.matchers.get(leaf)
        if found is None:
            found = lane.matchers[leaf] = matcher_for(
                leaf.shape, mode=self._mode, limits=self._limits, counts=self._counts
            )
        return found

    def settle(self, lane: Lane) -> None:
        """Count what a lane holds now, let go of matchers that hold nothing, and make room."""
        empty = [leaf for leaf, matcher in lane.matchers.items() if not matcher.held]
        for leaf in empty:
            del lane.matchers[leaf]
        lane.dues = [each for each in lane.dues if each[2] in lane.matchers]
        heapq.heapify(lane.dues)
        held = sum(matcher.held for matcher in lane.matchers.values())
        self._held += held - lane.held
        lane.held = held
        while self._held > self._limits.events and len(self._lanes) > 1:
            self._forget_one()

    def _forget_one(self) -> None:
        _, lane = self._lanes.popitem(last=False)
        self._held -= lane.held
        self._counts.evicted += lane.held
        self._counts.evicted_states += len(lane.matchers)
