"""Turn the entries of a block that match terms into matches of leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.joining import LogLeaf, ParentLink
from steward.decide.rules.matched_line import MatchedLine, hit_of_lines, line_of
from steward.decide.rules.matching import NEVER, Counts, EngineLimits, Occurrence, PatternMatch
from steward.decide.rules.prefiltered_block import PrefilteredBlock
from steward.decide.rules.routes import Route
from steward.decide.rules.storm_limit import limit_storm
from steward.decide.rules.stream_state import StreamState, StreamStates
from steward.decide.rules.terms import compile_extract
from steward.model.rules import Hit, Item, Mode

__all__ = ["BlockReader", "Matched"]

Longs = NDArray[np.int64]
Matched = tuple[
    list[Hit], list[tuple[ParentLink, LogLeaf, PatternMatch]]
]  # of whole rules, and of others
Candidate = tuple[
    int, int, Occurrence
]  # an entry, the slots and negations that it fits, what was seen
Value = tuple[str, Callable[[bytes], str | None]]  # name of the extract, and its reader
_CUT = " …".encode()  # index of the next entry


class BlockReader:
    """Read blocks for all leaves of all rules."""

    def __init__(
        self,
        leaves: Sequence[LogLeaf],
        *,
        mode: Mode,
        limits: EngineLimits,
        counts: Counts,
    ) -> None:
        self._streams = StreamStates(mode=mode, limits=limits, counts=counts)
        self._drops_late = mode is Mode.PREQ
        self._most_bytes = limits.text_bytes
        self._storm_lines = limits.storm_lines
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
        self._reports: list[tuple[ParentLink, LogLeaf, PatternMatch]] = []

    def read(self, prefiltered: PrefilteredBlock) -> Matched:
        """Return the matches found so far.

        Lines of one stream that name different hosts are matched host by host, as if each host had
        a stream of its own; preq matches them together.
        """
        if not len(prefiltered):
            return self._matched()
        base = self._streams.of(prefiltered.stream)
        own = self._clocked(base, prefiltered)
        self._counts.late += int(np.count_nonzero(prefiltered.t_ns < own))
        self._counts.too_long += prefiltered.found.too_long
        parts = (prefiltered,) if self._drops_late else tuple(prefiltered.by_host())
        for part in parts:
            state = self._streams.of(part.stream)
            clock_ns = own if part.stream is prefiltered.stream else self._clocked(state, part)
            self._match(state, part, clock_ns)
            self._pass_time(state, clock_ns)
            state.clock_ns = int(clock_ns[-1])
        self._pass_time_of_others(prefiltered.stream.name, own)
        base.clock_ns = int(own[-1])
        self._lines += len(prefiltered)
        return self._matched()

    def _match(self, state: StreamState, block: PrefilteredBlock, clock_ns: Longs) -> None:
        route = block.route
        if route is None:
            return
        if not self._drops_late:
            limited = limit_storm(block, clock_ns, state.storm, self._storm_lines)
            self._counts.suppressed += len(block.found) - len(limited.found)
            block = limited
        self._match_alone(route, block, clock_ns)
        for leaf, candidates in self._candidates(route, block).items():
            self._feed(state, leaf, candidates, clock_ns)

    def _clocked(self, state: StreamState, prefiltered: PrefilteredBlock) -> Longs:
        """Return the time at each entry by the clock of a stream, which never goes back."""
        t_ns = prefiltered.t_ns
        if not self._drops_late and state.is_set_back(int(t_ns.max()), len(prefiltered)):
            self._begin_again(state)
        return np.maximum(np.maximum.accumulate(t_ns), state.clock_ns)

    def _pass_time_of_others(self, name: str, clock_ns: Longs) -> None:
        """Advance time for the other hosts of a stream, which have no match in a block."""
        now_ns = int(clock_ns[-1])
        for state in self._streams.waiting():
            if state.stream.name == name and state.clock_ns < now_ns:
                self._pass_time(state, np.maximum(clock_ns, state.clock_ns))
                state.clock_ns = now_ns

    def tick(self, t_ns: int, behind_ns: Mapping[str, int]) -> Matched:
        """Advance time without lines; clocks of some streams are behind."""
        for state in self._streams.waiting():
            self._pass_time(state, np.array([t_ns - behind_ns.get(state.stream.name, 0)]))
        return self._matched()

    def finish(self) -> Matched:
        """Decide all pending candidates, each at the moment from which nothing can deny it."""
        for state in self._streams.waiting():
            self._decide(state)
        return self._matched()

    def _decide(self, state: StreamState) -> None:
        while (due := state.next_due()) is not None:
            due_ns, leaf = due
            self._pass_on(leaf, state.tick(leaf, due_ns))

    def _begin_again(self, state: StreamState) -> None:
        """Restart a stream at an earlier time: its clock was set back."""
        self._decide(state)
        self._counts.set_back += 1
        state.begin_again()

    def _feed(
        self, state: StreamState, leaf: LogLeaf, candidates: Sequence[Candidate], clock_ns: Longs
    ) -> None:
        """Feed a leaf its candidates, with a tick at the first time past each due time."""
        clocks = clock_ns[[entry for entry, _, _ in candidates]].tolist()
        pairs = zip(candidates, clocks, strict=True)
        if leaf.pattern.is_single:
            self._pass_on(leaf, [PatternMatch(now, (seen,)) for (_, _, seen), now in pairs])
            return
        matcher = self._streams.matcher(state, leaf)
        was_due_ns = matcher.due_ns
        for (entry, mask, seen), now in pairs:
            if self._drops_late and seen.last_ns < now:
                continue
            while matcher.due_ns <= now:
                at = int(np.searchsorted(clock_ns, matcher.due_ns))
                if at >= entry:
                    break  # `add` decides pending candidates as well
                self._pass_on(leaf, matcher.tick(int(clock_ns[at])))
            matches = matcher.add(seen, mask, now)
            if matches:
                self._pass_on(leaf, matches)
        if matcher.due_ns not in (NEVER, was_due_ns):
            state.wait_for(matcher.due_ns, leaf)

    def _pass_time(self, state: StreamState, clock_ns: Longs) -> None:
        """Advance time by a block for the pending matchers of a state, and enforce limits."""
        while (due := state.next_due()) is not None and due[0] <= clock_ns[-1]:
            due_ns, leaf = due
            now = int(clock_ns[np.searchsorted(clock_ns, due_ns)])
            self._pass_on(leaf, state.tick(leaf, now))
        self._streams.settle(state)

    def _pass_on(self, leaf: LogLeaf, matches: Sequence[PatternMatch]) -> None:
        up, rule = leaf.up, leaf.rule
        if up is None:
            self._hits += [hit_of_lines(rule, seen, fired_ns) for fired_ns, seen in matches]
        else:
            self._reports += [(up, leaf, match) for match in matches]

    def _matched(self) -> Matched:
        matched = self._hits, self._reports
        self._hits, self._reports = [], []
        return matched

    def _match_alone(self, route: Route, prefiltered: PrefilteredBlock, clock_ns: Longs) -> None:
        """Report single-line matches in bulk, since this may be every line."""
        found, streams = prefiltered.found, prefiltered.streams
        alone = np.flatnonzero(route.is_matched[found.term])
        alone = alone[np.argsort(found.term[alone], kind="stable")]
        terms, first = np.unique(found.term[alone], return_index=True)
        for term, pairs in zip(terms.tolist(), np.split(alone, first[1:]), strict=False):
            entries, places = found.entry[pairs], prefiltered.place[pairs]
            times, clocks = prefiltered.t_ns[entries].tolist(), clock_ns[entries].tolist()
            items = [
                Item(t_ns, text.decode("utf-8", "replace"), stream.name, number, stream.entity)
                for t_ns, text, number, stream in zip(
                    times,
                    self._texts(prefiltered, places),
                    prefiltered.line[places].tolist(),
                    [streams[place] for place in places.tolist()],
                    strict=True,
                )
            ]
            for rule in route.matched_by[term]:
                self._hits += [
                    Hit(rule, item.t_ns, now, (item,), item.entity)
                    for item, now in zip(items, clocks, strict=True)
                ]

    def _candidates(
        self, route: Route, prefiltered: PrefilteredBlock
    ) -> dict[LogLeaf, list[Candidate]]:
        """Return for each leaf its candidate entries, in their order."""
        by_leaf: dict[LogLeaf, list[Candidate]] = {}
        wanted = np.flatnonzero(route.is_wanted[prefiltered.found.term])
        columns = prefiltered.found.entry, prefiltered.found.term, prefiltered.place
        rows = zip(*(each[wanted].tolist() for each in columns), strict=True)
        for (entry, term, place), seen in zip(rows, self._seen(prefiltered, wanted), strict=True):
            for leaf, mask in route.wanted_by[term]:
                mine = by_leaf.setdefault(leaf, [])
                own = (entry, mask, seen)
                if mine and mine[-1][0] == entry:
                    _, before, known = mine.pop()
                    own = (entry, mask | before, known)
                if leaf in self._values:
                    values = self._values[leaf].get(route.terms[term], ())
                    own = _with_values(own, values, prefiltered.texts[place])
                mine.append(own)
        return by_leaf

    def _seen(self, prefiltered: PrefilteredBlock, pairs: Longs) -> Iterator[Occurrence]:
        """Return one `MatchedLine` per pair; terms that hold for one entry share it."""
        entries, places = prefiltered.found.entry[pairs], prefiltered.place[pairs]
        columns = (entries, prefiltered.t_ns[entries], prefiltered.line[places], places)
        rows = zip(
            *(each.tolist() for each in columns), self._texts(prefiltered, places), strict=True
        )
        last, one = -1, Occurrence(0, 0, 0, None)
        for entry, t_ns, number, place, text in rows:
            if entry != last:
                line = MatchedLine(t_ns, text, number, prefiltered.streams[place])
                one = Occurrence(t_ns, self._lines + entry, t_ns, line)
                last = entry
            yield one

    def _texts(self, prefiltered: PrefilteredBlock, places: Longs) -> list[bytes]:
        """Return the texts of entries, long ones cut."""
        texts, most = prefiltered.texts, self._most_bytes
        long = prefiltered.size[places] > most
        if not long.any():
            return [texts[place] for place in places.tolist()]
        self._counts.cut += len(np.unique(places[long]))
        rows = zip(places.tolist(), long.tolist(), strict=True)
        return [texts[place][:most] + _CUT if cut else texts[place] for place, cut in rows]


def _with_values(candidate: Candidate, wanted: Sequence[Value], text: bytes) -> Candidate:
    """Return a candidate with the extracts that a leaf needs."""
    entry, mask, seen = candidate
    found = [(name, read(text)) for name, read in wanted]
    values = {name: value for name, value in found if value is not None}
    if not values:
        return candidate
    line = line_of(seen).with_values(values)
    return entry, mask, Occurrence(seen.last_ns, seen.serial, seen.first_ns, line)
