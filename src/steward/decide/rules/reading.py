"""From the entries of a block that some term holds for to matches of leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.joining import Leaf
from steward.decide.rules.lanes import Lane, Lanes
from steward.decide.rules.matching import NEVER, Counts, Limits, Match, Seen
from steward.decide.rules.routes import Route, Routes
from steward.decide.rules.terms import Found, compile_extract
from steward.model.rules import Extract, Item, LogBlock, Mode, Stream, Term

__all__ = ["Line", "Reader", "item_of", "line_of"]

Longs = NDArray[np.int64]
_NOTHING: Mapping[str, str] = MappingProxyType({})
_CUT = " …".encode()  # where a line goes on


class Line(NamedTuple):
    """What is kept of an entry that some term holds for."""

    text: bytes
    number: int
    stream: Stream
    extracted: Mapping[str, str]


class Candidate(NamedTuple):
    """An entry that a leaf wants, and for which slots and guards."""

    entry: int
    mask: int
    seen: Seen


def line_of(seen: Seen) -> Line:
    """Return the line that was seen."""
    return cast("Line", seen.what)


def item_of(seen: Seen) -> Item:
    """Return a line as it is shown to people."""
    line = line_of(seen)
    return Item(
        t_ns=seen.last_ns,
        text=line.text.decode("utf-8", "replace"),
        stream=line.stream.name,
        line=line.number,
        entity=line.stream.entity,
        extracted=line.extracted,
    )


class Reader:
    """Reads blocks for all leaves of all rules."""

    def __init__(
        self,
        leaves: Sequence[Leaf],
        *,
        mode: Mode,
        limits: Limits,
        counts: Counts,
        respect_sources: bool,
    ) -> None:
        self._lanes = Lanes(mode=mode, limits=limits, counts=counts)
        self._routes = Routes(leaves, respect_sources=respect_sources)
        self._drops_late = mode is Mode.COMPAT
        self._most_bytes = limits.text_bytes
        self._counts = counts
        self._values: dict[Extract, Callable[[bytes], str | None]] = {
            extract: compile_extract(extract)
            for leaf in leaves
            for extracts in leaf.extracts.values()
            for extract in extracts
        }
        self._lines = 0

    def read(self, block: LogBlock) -> list[tuple[Leaf, Match]]:
        """Return what matched, by leaf."""
        lane = self._lanes.of(block.stream)
        if not len(block):
            return []
        clock_ns = np.maximum(np.maximum.accumulate(block.t_ns), lane.clock_ns)
        self._counts.late += int(np.count_nonzero(block.t_ns < clock_ns))
        found: list[tuple[Leaf, Match]] = []
        route = self._routes.of(block.stream.source)
        if route is not None:
            for leaf, candidates in self._candidates(route, block).items():
                found += self._feed(lane, leaf, candidates, clock_ns)
        found += _ticks(lane, clock_ns)
        lane.clock_ns = int(clock_ns[-1])
        self._lines += len(block)
        self._lanes.settle(lane)
        return found

    def tick(self, t_ns: int) -> list[tuple[Leaf, Match]]:
        """Let time pass without lines."""
        found: list[tuple[Leaf, Match]] = []
        for lane in self._lanes:
            found += _ticks(lane, np.array([t_ns]))
            self._lanes.settle(lane)
        return found

    def finish(self) -> list[tuple[Leaf, Match]]:
        """Decide about all that waits, each at the moment from which nothing can deny it."""
        found: list[tuple[Leaf, Match]] = []
        for lane in self._lanes:
            while (due := lane.next_due()) is not None:
                due_ns, leaf = due
                found += [(leaf, match) for match in lane.tick(leaf, due_ns)]
        return found

    def _feed(
        self, lane: Lane, leaf: Leaf, candidates: Sequence[Candidate], clock_ns: Longs
    ) -> list[tuple[Leaf, Match]]:
        """Give a leaf what it wants, and in between the first times past what it waits for."""
        clocks = clock_ns[[each.entry for each in candidates]].tolist()
        pairs = zip(candidates, clocks, strict=True)
        if leaf.shape.is_single:
            return [(leaf, Match(now, (each.seen,))) for each, now in pairs]
        matcher = self._lanes.matcher(lane, leaf)
        was_due_ns = matcher.due_ns
        matches: list[Match] = []
        for each, now in pairs:
            if self._drops_late and each.seen.last_ns < now:
                continue
            while matcher.due_ns <= now:
                at = int(np.searchsorted(clock_ns, matcher.due_ns))
                if at >= each.entry:
                    break  # taking it in decides about what waits as well
                matches += matcher.tick(int(clock_ns[at]))
            matches += matcher.take(each.seen, each.mask, now)
        if matcher.due_ns not in (NEVER, was_due_ns):
            lane.wait_for(matcher.due_ns, leaf)
        return [(leaf, match) for match in matches]

    def _candidates(self, route: Route, block: LogBlock) -> dict[Leaf, list[Candidate]]:
        """Return for each leaf the entries that it wants, in their order."""
        found = route.prefilter.find(block)
        by_leaf: dict[Leaf, list[Candidate]] = {}
        each = zip(found.entry.tolist(), found.term.tolist(), self._seen(block, found), strict=True)
        for entry, term, seen in each:
            for leaf, mask in route.wanted_by[term]:
                mine = by_leaf.setdefault(leaf, [])
                if mine and mine[-1].entry == entry:
                    mine[-1] = mine[-1]._replace(mask=mine[-1].mask | mask)
                else:
                    mine.append(Candidate(entry, mask, seen))
                if leaf.extracts:
                    mine[-1] = self._with_values(mine[-1], leaf, route.prefilter.terms[term], block)
        return by_leaf

    def _seen(self, block: LogBlock, found: Found) -> list[Seen]:
        """Return what was found, one by one; terms that hold for one entry share it."""
        entries = found.entry
        columns = (entries, block.start[entries], block.end[entries], block.t_ns[entries])
        rows = zip(*(each.tolist() for each in (*columns, block.line[entries])), strict=True)
        seen: list[Seen] = []
        last = -1
        for entry, start, end, t_ns, number in rows:
            if entry != last:
                line = Line(self._text(block, start, end), number, block.stream, _NOTHING)
                one = Seen(t_ns, self._lines + entry, t_ns, line)
                last = entry
            seen.append(one)
        return seen

    def _text(self, block: LogBlock, start: int, end: int) -> bytes:
        if end - start <= self._most_bytes:
            return block.buffer[start:end]
        self._counts.cut += 1
        return block.buffer[start : start + self._most_bytes] + _CUT

    def _with_values(
        self, candidate: Candidate, leaf: Leaf, term: Term, block: LogBlock
    ) -> Candidate:
        """Add what the leaf wants to know of an entry that this term holds for."""
        line = line_of(candidate.seen)
        values = dict(line.extracted)
        text = block.text(candidate.entry)
        for extract in leaf.extracts.get(term, ()):
            value = self._values[extract](text)
            if value is not None:
                values.setdefault(extract.name, value)
        known = line._replace(extracted=MappingProxyType(values))
        return candidate._replace(seen=candidate.seen._replace(what=known))


def _ticks(lane: Lane, clock_ns: Longs) -> list[tuple[Leaf, Match]]:
    """Let the time of a block pass for whatever waits in a lane."""
    found: list[tuple[Leaf, Match]] = []
    while (due := lane.next_due()) is not None and due[0] <= clock_ns[-1]:
        due_ns, leaf = due
        now = int(clock_ns[np.searchsorted(clock_ns, due_ns)])
        found += [(leaf, match) for match in lane.tick(leaf, now)]
    return found
