"""From the entries of a block that some term holds for to matches of leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.joining import Leaf, Up
from steward.decide.rules.lanes import Lane, Lanes
from steward.decide.rules.line import Line, hit_of_lines, line_of
from steward.decide.rules.matching import NEVER, Counts, Limits, Match, Seen
from steward.decide.rules.routes import Route, Routes
from steward.decide.rules.terms import Found, compile_extract
from steward.model.rules import Extract, Hit, LogBlock, Mode, Term

__all__ = ["Matched", "Reader"]

Longs = NDArray[np.int64]
Matched = tuple[list[Hit], list[tuple[Up, Leaf, Match]]]  # of whole rules, and of others
Candidate = tuple[int, int, Seen]  # an entry, the slots and guards that it fits, what was seen
_CUT = " …".encode()  # where a line goes on


class Reader:
    """Reads blocks for all leaves of all rules."""

    def __init__(
        self,
        leaves: Sequence[Leaf],
        routes: Routes,
        *,
        mode: Mode,
        limits: Limits,
        counts: Counts,
    ) -> None:
        self._lanes = Lanes(mode=mode, limits=limits, counts=counts)
        self._routes = routes
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
        self._hits: list[Hit] = []
        self._reports: list[tuple[Up, Leaf, Match]] = []

    def read(self, block: LogBlock) -> Matched:
        """Return what matched by now."""
        lane = self._lanes.of(block.stream)
        if len(block):
            clock_ns = np.maximum(np.maximum.accumulate(block.t_ns), lane.clock_ns)
            self._counts.late += int(np.count_nonzero(block.t_ns < clock_ns))
            route = self._routes.of(block.stream.source)
            if route is not None:
                for leaf, candidates in self._candidates(route, block).items():
                    self._feed(lane, leaf, candidates, clock_ns)
            self._pass_time(lane, clock_ns)
            lane.clock_ns = int(clock_ns[-1])
            self._lines += len(block)
        return self._matched()

    def tick(self, t_ns: int, behind_ns: Mapping[str, int]) -> Matched:
        """Let time pass without lines; clocks of some streams are behind."""
        for lane in self._lanes.waiting():
            self._pass_time(lane, np.array([t_ns - behind_ns.get(lane.stream.name, 0)]))
        return self._matched()

    def finish(self) -> Matched:
        """Decide about all that waits, each at the moment from which nothing can deny it."""
        for lane in self._lanes.waiting():
            while (due := lane.next_due()) is not None:
                due_ns, leaf = due
                self._pass_on(leaf, lane.tick(leaf, due_ns))
        return self._matched()

    def _feed(
        self, lane: Lane, leaf: Leaf, candidates: Sequence[Candidate], clock_ns: Longs
    ) -> None:
        """Give a leaf what it wants, and in between the first times past what it waits for."""
        clocks = clock_ns[[entry for entry, _, _ in candidates]].tolist()
        pairs = zip(candidates, clocks, strict=True)
        if leaf.shape.is_single:
            self._pass_on(leaf, [Match(now, (seen,)) for (_, _, seen), now in pairs])
            return
        matcher = self._lanes.matcher(lane, leaf)
        was_due_ns = matcher.due_ns
        for (entry, mask, seen), now in pairs:
            if self._drops_late and seen.last_ns < now:
                continue
            while matcher.due_ns <= now:
                at = int(np.searchsorted(clock_ns, matcher.due_ns))
                if at >= entry:
                    break  # taking it in decides about what waits as well
                self._pass_on(leaf, matcher.tick(int(clock_ns[at])))
            matches = matcher.take(seen, mask, now)
            if matches:
                self._pass_on(leaf, matches)
        if matcher.due_ns not in (NEVER, was_due_ns):
            lane.wait_for(matcher.due_ns, leaf)

    def _pass_time(self, lane: Lane, clock_ns: Longs) -> None:
        """Let the time of a block pass for whatever waits in a lane, and make room."""
        while (due := lane.next_due()) is not None and due[0] <= clock_ns[-1]:
            due_ns, leaf = due
            now = int(clock_ns[np.searchsorted(clock_ns, due_ns)])
            self._pass_on(leaf, lane.tick(leaf, now))
        self._lanes.settle(lane)

    def _pass_on(self, leaf: Leaf, matches: Sequence[Match]) -> None:
        up, rule = leaf.up, leaf.rule
        if up is None:
            self._hits += [hit_of_lines(rule, seen, fired_ns) for fired_ns, seen in matches]
        else:
            self._reports += [(up, leaf, match) for match in matches]

    def _matched(self) -> Matched:
        matched = self._hits, self._reports
        self._hits, self._reports = [], []
        return matched

    def _candidates(self, route: Route, block: LogBlock) -> dict[Leaf, list[Candidate]]:
        """Return for each leaf the entries that it wants, in their order."""
        found = route.prefilter.find(block)
        by_leaf: dict[Leaf, list[Candidate]] = {}
        each = zip(found.entry.tolist(), found.term.tolist(), self._seen(block, found), strict=True)
        for entry, term, seen in each:
            for leaf, mask in route.wanted_by[term]:
                mine = by_leaf.setdefault(leaf, [])
                own = (entry, mask, seen)
                if mine and mine[-1][0] == entry:
                    _, before, known = mine.pop()
                    own = (entry, mask | before, known)
                if leaf.extracts:
                    own = self._with_values(own, leaf, route.prefilter.terms[term], block)
                mine.append(own)
        return by_leaf

    def _seen(self, block: LogBlock, found: Found) -> Iterator[Seen]:
        """Return what was found, one by one; terms that hold for one entry share it."""
        entries = found.entry
        columns = (entries, block.start[entries], block.end[entries], block.t_ns[entries])
        rows = zip(*(each.tolist() for each in (*columns, block.line[entries])), strict=True)
        last, one = -1, Seen(0, 0, 0, None)
        for entry, start, end, t_ns, number in rows:
            if entry != last:
                line = Line(t_ns, self._text(block, start, end), number, block.stream)
                one = Seen(t_ns, self._lines + entry, t_ns, line)
                last = entry
            yield one

    def _text(self, block: LogBlock, start: int, end: int) -> bytes:
        if end - start <= self._most_bytes:
            return block.buffer[start:end]
        self._counts.cut += 1
        return block.buffer[start : start + self._most_bytes] + _CUT

    def _with_values(
        self, candidate: Candidate, leaf: Leaf, term: Term, block: LogBlock
    ) -> Candidate:
        """Add what the leaf wants to know of an entry that this term holds for."""
        entry, mask, seen = candidate
        text = block.text(entry)
        read = ((each.name, self._values[each](text)) for each in leaf.extracts.get(term, ()))
        values = {name: value for name, value in read if value is not None}
        return entry, mask, seen._replace(what=line_of(seen).with_values(values))
