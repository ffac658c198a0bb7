"""Slow, obvious matchers, written from the language and not from the engine.

`compat` reads every line and follows the field note step by step. `strict` knows all
lines at once and tries every choice of lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

FAR = 2**62


@dataclass(frozen=True)
class Forbidden:
    term: str
    window: int = 0
    slide: int = 0
    anchor: int = 0
    absolute: bool = False


@dataclass(frozen=True)
class LetterRule:
    """A rule in letters: one for each term, repetitions written out."""

    ordered: bool
    terms: tuple[str, ...]
    window: int
    forbidden: tuple[Forbidden, ...] = ()

    def slots(self) -> list[tuple[str, int]]:
        if not self.ordered:
            return [(term, self.terms.count(term)) for term in dict.fromkeys(self.terms)]
        return [(term, len(list(group))) for term, group in itertools.groupby(self.terms)]


@dataclass(frozen=True)
class MatchedLine:
    number: int
    t: int
    contains: frozenset[str]


Spot = tuple[int, int, int]  # a time, its slot, its place there
Fired = tuple[tuple[int, ...], int]  # numbers of lines by slot, and when it was certain


def span(each: Forbidden, times: list[int]) -> tuple[int, int]:
    start = times[each.anchor] + each.slide
    width = each.window + (0 if each.absolute else times[-1] - times[0])
    return start, start + max(width, 0)


# --- compat: reads every line ------------------------------------------------------------------


@dataclass
class Compat:
    wanted: LetterRule
    clock: int = -FAR
    active: int = 0
    queues: list[list[MatchedLine]] = field(default_factory=list)
    denials: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slots = self.wanted.slots()
        self.queues = [[] for _ in self.slots]
        self.denials = [[] for _ in self.wanted.forbidden]
        self.look_back = max([0] + [-each.slide for each in self.wanted.forbidden])
        reach = [self.wanted.window + f.window + f.slide for f in self.wanted.forbidden]
        self.keep = max([self.wanted.window, *reach])

    def run(self, lines: list[MatchedLine]) -> list[Fired]:
        fired = [each for line in lines for each in self.scan(line)]
        return fired + list(self.evaluate(FAR))

    def scan(self, line: MatchedLine) -> Iterator[Fired]:
        wanted = self.wanted
        if len(wanted.terms) == 1 and not wanted.ordered and not wanted.forbidden:
            self.clock = max(self.clock, line.t)
            if wanted.terms[0] in line.contains:
                yield (line.number,), self.clock
            return
        if line.t < self.clock:
            return
        self.clock = line.t
        if wanted.forbidden:
            yield from self.scan_negated(line)
        elif wanted.ordered:
            yield from self.scan_sequence(line)
        else:
            yield from self.scan_set(line)

    def scan_set(self, line: MatchedLine) -> Iterator[Fired]:
        for slot, (term, _) in enumerate(self.slots):
            self.queues[slot] = [e for e in self.queues[slot] if e.t >= line.t - self.wanted.window]
            if term in line.contains:
                self.queues[slot].append(line)
        if self.full():
            yield self.consume(), line.t

    def scan_sequence(self, line: MatchedLine) -> Iterator[Fired]:
        first = self.queues[0]
        if self.active and line.t - first[0].t >= self.wanted.window:
            self.queues[0] = [e for e in first if e.t >= line.t - self.wanted.window]
            self.repair_plain()
        for slot in range(self.active):
            if self.slots[slot][0] in line.contains:
                self.queues[slot].append(line)
        term, needed = self.slots[self.active]
        if term not in line.contains:
            return
        self.queues[self.active].append(line)
        if len(self.queues[self.active]) < needed:
            return
        self.active += 1
        if self.active == len(self.slots):
            yield self.consume(), line.t
            self.repair_plain()

    def repair_plain(self) -> None:
        needed = self.slots[0][1]
        if len(self.queues[0]) < needed:
            self.queues[1:] = [[] for _ in self.slots[1:]]
            self.active = 0
            return
        begun = self.queues[0][needed - 1].t
        self.active = 1
        for slot in range(1, len(self.slots)):
            self.queues[slot] = [e for e in self.queues[slot] if e.t >= begun]
            if len(self.queues[slot]) < self.slots[slot][1]:
                self.queues[slot + 1 :] = [[] for _ in self.slots[slot + 1 :]]
                return
            self.active += 1

    def scan_negated(self, line: MatchedLine) -> Iterator[Fired]:
        if not self.full():
            self.forget(line.t)
        if self.wanted.ordered:
            evidence = bool(self.queues[0]) or self.slots[0][0] in line.contains
            self.forbid(line, evidence=evidence)
            self.fill(line)
        else:
            for slot, (term, _) in enumerate(self.slots):
                self.queues[slot] += [line] if term in line.contains else []
            whole = [len(q) >= n for q, (_, n) in zip(self.queues, self.slots, strict=True)]
            self.forbid(line, evidence=any(whole))
        yield from self.decide(line.t)

    def forbid(self, line: MatchedLine, *, evidence: bool) -> None:
        for times, forbidden in zip(self.denials, self.wanted.forbidden, strict=True):
            if forbidden.term in line.contains and (evidence or self.look_back):
                times.append(line.t)

    def fill(self, line: MatchedLine) -> None:
        for slot in range(self.active):
            if self.slots[slot][0] in line.contains:
                self.queues[slot].append(line)
        if self.active < len(self.slots) and self.slots[self.active][0] in line.contains:
            self.queues[self.active].append(line)
            self.active += len(self.queues[self.active]) >= self.slots[self.active][1]

    def evaluate(self, clock: int) -> Iterator[Fired]:
        if clock > self.clock and self.wanted.forbidden:
            self.clock = clock
            yield from self.decide(clock)

    def decide(self, clock: int) -> Iterator[Fired]:
        while self.full():
            row = [
                (e.t, slot, place)
                for slot, (queue, (_, n)) in enumerate(zip(self.queues, self.slots, strict=True))
                for place, e in enumerate(queue[:n])
            ]
            verdict = self.verdict(row if self.wanted.ordered else sorted(row), clock)
            if verdict == "wait":
                return
            if verdict == "fire":
                yield self.consume(), clock
            else:
                del self.queues[verdict[1]][verdict[2]]
            if self.wanted.ordered:
                self.repair_negated()

    def verdict(self, row: list[Spot], clock: int) -> Spot | Literal["wait", "fire"]:
        """Return what to drop, or what else to do."""
        times = [t for t, _, _ in row]
        if times[-1] - times[0] > self.wanted.window:
            return row[0]
        for each, denials in zip(self.wanted.forbidden, self.denials, strict=True):
            start, stop = span(each, times)
            if any(start <= t <= stop for t in denials):
                return row[each.anchor]
            if stop >= clock:
                return "wait"
        return "fire"

    def repair_negated(self) -> None:
        self.active = 0
        begun = -FAR
        for slot, (_, needed) in enumerate(self.slots):
            self.queues[slot] = [e for e in self.queues[slot] if e.t >= begun]
            if len(self.queues[slot]) < needed:
                self.queues[slot + 1 :] = [[] for _ in self.slots[slot + 1 :]]
                return
            begun = self.queues[slot][0].t
            self.active += 1

    def forget(self, t: int) -> None:
        if not self.wanted.ordered:
            self.queues = [[e for e in q if e.t >= t - self.keep] for q in self.queues]
        elif self.queues[0] and self.queues[0][0].t < t - self.keep:
            self.queues[0] = [e for e in self.queues[0] if e.t >= t - self.keep]
            self.repair_negated()
        oldest = t - self.keep - self.look_back
        self.denials = [[n for n in times if n >= oldest] for times in self.denials]

    def full(self) -> bool:
        if self.wanted.ordered:
            return self.active == len(self.slots)
        return all(len(q) >= n for q, (_, n) in zip(self.queues, self.slots, strict=True))

    def consume(self) -> tuple[int, ...]:
        parts: list[int] = []
        for queue, (_, needed) in zip(self.queues, self.slots, strict=True):
            parts += [e.number for e in queue[:needed]]
            del queue[:needed]
        return tuple(parts)


# --- strict: knows everything, tries everything -----------------------------------------------


def strict(wanted: LetterRule, lines: list[MatchedLine]) -> list[Fired]:
    """Return matches of lines that are in the order of time.

    Again and again: of all choices of lines that are not used up, the oldest one that lies within
    the window (and, for a sequence, is in order) is the candidate. It is denied if something
    forbidden lies in its way, and loses its anchor; or else fires, and uses up its lines.
    """
    used: set[tuple[int, int]] = set()  # slot and number of a line
    fired: list[Fired] = []
    known = 0  # candidates are decided one after another
    while True:
        candidate = _oldest(wanted, lines, used)
        if candidate is None:
            return fired
        parts = [(slot, lines[number]) for slot, number in candidate]
        by_time = parts if wanted.ordered else sorted(parts, key=lambda p: (p[1].t, p[0]))
        times = [line.t for _, line in by_time]
        complete = max(line.number for _, line in parts)
        certain, denied = complete, None
        for each in wanted.forbidden:
            start, stop = span(each, times)
            within = [e.number for e in lines if each.term in e.contains and start <= e.t <= stop]
            if within:
                denied = by_time[each.anchor]
                known = max(known, certain, min(within))  # negations before it were waited for
                break
            later = [line.number for line in lines if line.t > stop]
            certain = max(certain, min(later, default=len(lines)))
        if denied is not None:
            used.add((denied[0], denied[1].number))
            continue
        known = max(known, certain)
        fired.append(
            (tuple(n for _, n in candidate), lines[known].t if known < len(lines) else FAR)
        )
        used |= set(candidate)


def _oldest(
    wanted: LetterRule, lines: list[MatchedLine], used: set[tuple[int, int]]
) -> list[tuple[int, int]] | None:
    """Return slots and numbers of lines: of all choices, the one with the oldest lines."""
    slots = wanted.slots()
    choices = []
    per_slot = []
    for slot, (term, needed) in enumerate(slots):
        free = [e.number for e in lines if term in e.contains and (slot, e.number) not in used]
        per_slot.append(list(itertools.combinations(free, needed)))
    for choice in itertools.product(*per_slot):
        numbers = [number for part in choice for number in part]
        times = [lines[number].t for number in numbers]
        in_order = all(a < b for a, b in itertools.pairwise(numbers))
        if max(times) - min(times) <= wanted.window and (in_order or not wanted.ordered):
            choices.append(choice)
    if not choices:
        return None
    oldest = min(choices)
    return [(slot, number) for slot, part in enumerate(oldest) for number in part]
