"""What matchers are made from and what they hand on: shapes, things seen, matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = [
    "NEVER",
    "Counts",
    "EngineLimits",
    "MatchPattern",
    "NegationWindow",
    "Occurrence",
    "PatternMatch",
    "PatternMatcher",
]

NEVER = 2**63 - 1  # later than any time in nanoseconds


class Occurrence(NamedTuple):
    """Something that happened, ordered by when it was over and then by when we heard of it.

    A line is one moment; a match of a node inside another lasts from its first line to its last.
    """

    last_ns: int
    serial: int
    first_ns: int
    what: object


class PatternMatch(NamedTuple):
    """What a matcher found: the things seen by slot, repetitions beside each other."""

    fired_ns: int
    seen: tuple[Occurrence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NegationWindow:
    """Where nothing may happen around a candidate, and how late one may hear of it."""

    window_ns: int = 0
    slide_ns: int = 0
    anchor: int = 0
    absolute: bool = False
    slack_ns: int = 0

    def span(self, candidate: Sequence[Occurrence], lasted_ns: int) -> tuple[int, int]:
        """Return the first and the last moment that count, both included."""
        start = candidate[self.anchor].first_ns + self.slide_ns
        width = self.window_ns + (0 if self.absolute else lasted_ns)
        return start, start + max(width, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchPattern:
    """What a matcher looks for. Bit `i` of a mask is slot `i`; negations follow the slots."""

    ordered: bool
    needed: tuple[int, ...]  # how many things each slot needs
    window_ns: int = 0
    negations: tuple[NegationWindow, ...] = ()
    intervals: bool = False  # what happens lasts, and arrives in an order that says nothing
    lag_ns: int = 0  # how much later than it was over one may hear of something

    @property
    def is_single(self) -> bool:
        """Whether every thing that fits is a match."""
        return self.needed == (1,) and not self.negations

    @property
    def look_back_ns(self) -> int:
        """How long before a match something can deny it."""
        return max(0, *(-each.slide_ns for each in self.negations)) if self.negations else 0

    @property
    def keep_ns(self) -> int:
        """How long `compat` keeps what could still be part of a match."""
        reach = (self.window_ns + each.window_ns + each.slide_ns for each in self.negations)
        return max(self.window_ns, *reach) if self.negations else self.window_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """How much may be remembered. What does not fit is forgotten oldest first, and counted."""

    events_per_state: int = 10_000  # per slot of one rule for one entity
    events: int = 500_000  # over all rules and entities
    entities: int = 100_000  # streams or entities with lines, over all rules
    states_per_rule: int = 10_000  # different values that the conditions of one rule are joined on
    text_bytes: int = 4096  # what is kept of a line


@dataclass(slots=True, kw_only=True)
class Counts:
    """What did not go the plain way; nothing is dropped in silence."""

    late: int = 0  # entries older than one before: `compat` leaves them out of windows
    evicted: int = 0  # things seen that had to be forgotten before their window was over
    evicted_states: int = 0  # entities, or values joined on, that had to be forgotten with theirs
    unjoined: int = 0  # things seen that lack what they should be joined on
    hurried: int = 0  # things that were not held until the slowest stream had come as far
    set_back: int = 0  # streams that went on from an hour or more before: what waited was decided
    cut: int = 0  # lines of which only the beginning is kept
    untimed: int = 0  # lines whose time is missing or far ahead
    suppressed: int = 0  # lines of a storm that were not matched: enough of them were
    too_long: int = 0  # times that a jq program was not asked: it could take too long on the line


class PatternMatcher(Protocol):
    """Looks for one pattern among things seen. It is told only what fits, and the time."""

    @property
    def due_ns(self) -> int:
        """The earliest time at which a tick can change something."""
        ...

    @property
    def held(self) -> int:
        """How many things it remembers."""
        ...

    def add(self, seen: Occurrence, mask: int, clock_ns: int) -> Sequence[PatternMatch]:
        """Take something in that fits the slots and negations of the mask."""
        ...

    def tick(self, clock_ns: int) -> Sequence[PatternMatch]:
        """Let time pass."""
        ...
