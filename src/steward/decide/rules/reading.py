"""From the entries of a block that some term holds for to matches of leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.joining import Leaf, Up
from steward.decide.rules.lanes import Lane, Lanes
from steward.decide.rules.line import Line, hit_of_lines, line_of
from steward.decide.rules.matching import NEVER, Counts, Limits, Match, Seen
from steward.decide.rules.routes import Route
from steward.decide.rules.sifting import Sifted
from steward.decide.rules.terms import compile_extract
from steward.model.rules import Hit, Item, Mode

__all__ = ["Matched", "Reader"]

Longs = NDArray[np.int64]
Matched = tuple[list[Hit], list[tuple[Up, Leaf, Match]]]  # of whole rules, and of others
Candidate = tuple[int, int, Seen]  # an entry, the slots and guards that it fits, what was seen
Value = tuple[str, Callable[[bytes], str | None]]  # what it is called, and what reads it
_CUT = " …".encode()  # where a line goes on


class Reader:
    """Reads blocks for all leaves of all rules."""

    def __init__(
        self,
        leaves: Sequence[Leaf],
        *,
        mode: Mode,
        limits: Limits,
        counts: Counts,
    ) -> None:
        self._lanes = Lanes(mode=mode, limits=limits, counts=counts)
        self._drops_late = mode is Mode.PREQ
        self._most_bytes = limits.text_bytes
        self._counts = counts
        self._values = {
            leaf: {
                term: [(each.name, compile_extract(each)) for each in extracts]
                for term, extracts in leaf.extracts.items()
            }
            for leaf in leaves
            if leaf.extracts
        }
        self._lines = 0
        self._hits: list[Hit] = []
        self._reports: list[tuple[Up, Leaf, Match]] = []

    def read(self, sifted: Sifted) -> Matched:
        """Return what matched by now."""
        lane = self._lanes.of(sifted.stream)
        if len(sifted):
            t_ns = sifted.t_ns
            if not self._drops_late and lane.is_set_back(int(t_ns.max()), len(sifted)):
                self._begin_again(lane)
            clock_ns = np.maximum(np.maximum.accumulate(t_ns), lane.clock_ns)
            self._counts.late += int(np.count_nonzero(t_ns < clock_ns))
            self._counts.too_long += sifted.found.too_long
            if sifted.route is not None:
                self._match_alone(sifted.route, sifted, clock_ns)
                for leaf, candidates in self._candidates(sifted.route, sifted).items():
                    self._feed(lane, leaf, candidates, clock_ns)
            self._pass_time(lane, clock_ns)
            lane.clock_ns = int(clock_ns[-1])
            self._lines += len(sifted)
        return self._matched()

    def tick(self, t_ns: int, behind_ns: Mapping[str, int]) -> Matched:
        """Let time pass without lines; clocks of some streams are behind."""
        for lane in self._lanes.waiting():
            self._pass_time(lane, np.array([t_ns - behind_ns.get(lane.stream.name, 0)]))
        return self._matched()

    def finish(self) -> Matched:
        """Decide about all that waits, each at the moment from which nothing can deny it."""
        for lane in self._lanes.waiting():
            self._decide(lane)
        return self._matched()

    def _decide(self, lane: Lane) -> None:
        while (due := lane.next_due()) is not None:
            due_ns, leaf = due
            self._pass_on(leaf, lane.tick(leaf, due_ns))

    def _begin_again(self, lane: Lane) -> None:
        """Go on from an earlier time: a clock was set back, and will not catch up for long."""
        self._decide(lane)
        self._counts.set_back += 1
        lane.begin_again()

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

    def _match_alone(self, route: Route, sifted: Sifted, clock_ns: Longs) -> None:
        """Take what is a match by itself: many at once, since this may be every line."""
        found, stream = sifted.found, sifted.stream
        alone = np.flatnonzero(route.is_matched[found.term])
        alone = alone[np.argsort(found.term[alone], kind="stable")]
        terms, first = np.unique(found.term[alone], return_index=True)
        for term, pairs in zip(terms.tolist(), np.split(alone, first[1:]), strict=False):
            entries, places = found.entry[pairs], sifted.place[pairs]
            times, clocks = sifted.t_ns[entries].tolist(), clock_ns[entries].tolist()
            items = [
                (Item(t_ns, text.decode("utf-8", "replace"), stream.name, number, stream.entity),)
                for t_ns, text, number in zip(
                    times, self._texts(sifted, places), sifted.line[places].tolist(), strict=True
                )
            ]
            for rule in route.matched_by[term]:
                self._hits += [
                    Hit(rule, t_ns, now, own, stream.entity)
                    for t_ns, now, own in zip(times, clocks, items, strict=True)
                ]

    def _candidates(self, route: Route, sifted: Sifted) -> dict[Leaf, list[Candidate]]:
        """Return for each leaf the entries that it wants, in their order."""
        by_leaf: dict[Leaf, list[Candidate]] = {}
        wanted = np.flatnonzero(route.is_wanted[sifted.found.term])
        columns = sifted.found.entry, sifted.found.term, sifted.place
        rows = zip(*(each[wanted].tolist() for each in columns), strict=True)
        for (entry, term, place), seen in zip(rows, self._seen(sifted, wanted), strict=True):
            for leaf, mask in route.wanted_by[term]:
                mine = by_leaf.setdefault(leaf, [])
                own = (entry, mask, seen)
                if mine and mine[-1][0] == entry:
                    _, before, known = mine.pop()
                    own = (entry, mask | before, known)
                if leaf in self._values:
                    values = self._values[leaf].get(route.prefilter.terms[term], ())
                    own = _with_values(own, values, sifted.texts[place])
                mine.append(own)
        return by_leaf

    def _seen(self, sifted: Sifted, pairs: Longs) -> Iterator[Seen]:
        """Return what was found, one by one; terms that hold for one entry share it."""
        entries, places = sifted.found.entry[pairs], sifted.place[pairs]
        columns = (entries, sifted.t_ns[entries], sifted.line[places])
        rows = zip(*(each.tolist() for each in columns), self._texts(sifted, places), strict=True)
        last, one = -1, Seen(0, 0, 0, None)
        for entry, t_ns, number, text in rows:
            if entry != last:
                line = Line(t_ns, text, number, sifted.stream)
                one = Seen(t_ns, self._lines + entry, t_ns, line)
                last = entry
            yield one

    def _texts(self, sifted: Sifted, places: Longs) -> list[bytes]:
        """Return what entries say; of long ones the beginning."""
        texts, most = sifted.texts, self._most_bytes
        long = sifted.size[places] > most
        if not long.any():
            return [texts[place] for place in places.tolist()]
        self._counts.cut += len(np.unique(places[long]))
        rows = zip(places.tolist(), long.tolist(), strict=True)
        return [texts[place][:most] + _CUT if cut else texts[place] for place, cut in rows]


def _with_values(candidate: Candidate, wanted: Sequence[Value], text: bytes) -> Candidate:
    """Add what a leaf wants to know of an entry."""
    entry, mask, seen = candidate
    found = [(name, read(text)) for name, read in wanted]
    values = {name: value for name, value in found if value is not None}
    if not values:
        return candidate
    line = line_of(seen).with_values(values)
    return entry, mask, Seen(seen.last_ns, seen.serial, seen.first_ns, line)
