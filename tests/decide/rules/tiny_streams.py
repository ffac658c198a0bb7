"""Streams and shapes in a few letters: `A1 B2 N4 x7` is A at 1, B at 2, N at 4, nothing at 7."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from steward.decide.rules.matching import (
    NEVER,
    Counts,
    EngineLimits,
    MatchPattern,
    NegationWindow,
    Occurrence,
    matcher_for,
)
from steward.model.rules import Mode

Moments = tuple[int, ...]
TOKEN = re.compile(r"([A-Za-z]+\d?)@?(\d+)")


def slots_of(terms: Sequence[str], *, ordered: bool) -> list[tuple[str, int]]:
    """Merge equal terms: neighbours in a sequence, all of them in a set."""
    slots: list[tuple[str, int]] = []
    for term in terms:
        names = [name for name, _ in slots]
        at = (
            (len(slots) - 1 if names[-1:] == [term] else -1)
            if ordered
            else (names.index(term) if term in names else -1)
        )
        if at >= 0:
            slots[at] = (term, slots[at][1] + 1)
        else:
            slots.append((term, 1))
    return slots


def letters(line: str) -> list[tuple[str, int]]:
    """Take a stream apart: the terms of each line (`x`: none), and its time."""
    return [(say, int(t)) for say, t in (token.split("@") for token in _tokens(line))]


def _tokens(line: str) -> list[str]:
    found = []
    for word in line.split():
        if "@" in word:
            found.append(word)
        else:
            cut = len(word.rstrip("0123456789"))
            found.append(f"{word[:cut]}@{word[cut:]}")
    return found


class Trial:
    """One matcher, fed every line, as by the engine."""

    def __init__(
        self,
        terms: str,
        window: int,
        *,
        mode: Mode,
        ordered: bool = True,
        negations: Sequence[tuple[str, NegationWindow]] = (),
        limits: EngineLimits | None = None,
    ) -> None:
        slots = slots_of(terms.split(","), ordered=ordered)
        self.names = [name for name, _ in slots] + [name for name, _ in negations]
        self.counts = Counts()
        self.mode = mode
        pattern = MatchPattern(
            ordered=ordered,
            needed=tuple(needed for _, needed in slots),
            window_ns=window,
            negations=tuple(negation for _, negation in negations),
        )
        self.matcher = matcher_for(
            pattern, mode=mode, limits=limits or EngineLimits(), counts=self.counts
        )
        self.clock = -NEVER
        self.serial = itertools.count()

    def feed(self, line: str) -> list[tuple[Moments, int]]:
        """Return the times of what matched, and when that was certain."""
        found = []
        for say, t in letters(line):
            late = t < self.clock
            self.clock = max(self.clock, t)
            mask = sum(1 << bit for bit, name in enumerate(self.names) if contains(say, name))
            if late and self.mode is Mode.PREQ:
                continue
            if mask:
                seen = Occurrence(t, next(self.serial), t, say)
                found += self.matcher.add(seen, mask, self.clock)
            elif self.clock >= self.matcher.due_ns:
                found += self.matcher.tick(self.clock)
        return [(tuple(each.last_ns for each in match.seen), match.fired_ns) for match in found]

    def matches(self, line: str) -> list[Moments]:
        """Return the times of what matched, also of what waited until the end of the stream."""
        found = [times for times, _ in self.feed(line)]
        rest = self.matcher.tick(2**62)
        return found + [tuple(each.last_ns for each in match.seen) for match in rest]


def contains(say: str, name: str) -> bool:
    """Return whether a line contains a term: `AB` contains A and B, `N1` contains N1."""
    return name in re.findall(r"[A-Z]\d?", say)
