"""Input and output of matchers: patterns, occurrences, matches, limits and counts."""

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
    """Something that happened, ordered by its end and then by its arrival.

    A line is one moment; a match of a node inside another lasts from its first line to its last.
    """

    last_ns: int
    serial: int
    first_ns: int
    what: object


class PatternMatch(NamedTuple):
    """A match: the occurrences by slot, repetitions next to each other."""

    fired_ns: int
    seen: tuple[Occurrence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NegationWindow:
    """The window of a negation around a candidate, and how late its occurrences may arrive."""

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
    """The pattern of a matcher. Bit `i` of a mask is slot `i`; negations follow the slots."""

    ordered: bool
    needed: tuple[int, ...]  # occurrences that each slot needs
    window_ns: int = 0
    negations: tuple[NegationWindow, ...] = ()
    intervals: bool = False  # occurrences are intervals, and arrive in any order
    lag_ns: int = 0  # how long after its end an occurrence may arrive

    @property
    def is_single(self) -> bool:
        """Whether every fitting occurrence is a match."""
        return self.needed == (1,) and not self.negations

    @property
    def look_back_ns(self) -> int:
        """How long before a match an occurrence can deny it."""
        return max(0, *(-each.slide_ns for each in self.negations)) if self.negations else 0

    @property
    def keep_ns(self) -> int:
        """How long preq keeps what could still be part of a match."""
        reach = (self.window_ns + each.window_ns + each.slide_ns for each in self.negations)
        return max(self.window_ns, *reach) if self.negations else self.window_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """Limits of memory and work. What is evicted or left out beyond them is counted."""

    events_per_state: int = 10_000  # per slot of one rule for one entity
    events: int = 500_000  # over all rules and entities
    entities: int = 100_000  # streams or entities with lines, over all rules
    states_per_rule: int = 10_000  # distinct join keys of one rule
    text_bytes: int = 4096  # kept bytes of a line
    storm_lines: int = 500  # of one stream for one term in 10 s; `preq`: all


@dataclass(slots=True, kw_only=True)
class Counts:
    """Counters of dropped, late and cut input; nothing is dropped in silence."""

    late: int = 0  # entries older than one before: preq leaves them out of windows
    evicted: int = 0  # occurrences evicted before their window was over
    evicted_states: int = 0  # entities or join keys evicted with their occurrences
    unjoined: int = 0  # occurrences without the join attribute
    hurried: int = 0  # reports delivered before the slowest stream had reached their time
    set_back: int = 0  # streams whose clock went back by an hour or more
    cut: int = 0  # lines of which only the beginning is kept
    untimed: int = 0  # lines whose time is missing or far ahead
    suppressed: int = 0  # matches of terms that were left out: more in 10 s than `storm_lines`
    too_long: int = 0  # lines too long for a jq program


class PatternMatcher(Protocol):
    """Matcher of one pattern. Its input is the fitting occurrences, and the time."""

    @property
    def due_ns(self) -> int:
        """The earliest time at which a tick can change something."""
        ...

    @property
    def held(self) -> int:
        """Number of occurrences in memory."""
        ...

    def add(self, seen: Occurrence, mask: int, clock_ns: int) -> Sequence[PatternMatch]:
        """Add an occurrence that fits the slots and negations of the mask."""
        ...

    def tick(self, clock_ns: int) -> Sequence[PatternMatch]:
        """Advance time."""
        ...
