"""The engine: lines, samples and events in, matches out, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from operator import attrgetter

import numpy as np

from steward.decide.rules.block_reader import BlockReader, Matched
from steward.decide.rules.joining import LogLeaf, MatchQueue, NodeMatch, attributes_of, plan
from steward.decide.rules.matched_line import line_of
from steward.decide.rules.matching import NEVER, Counts, EngineLimits, Occurrence, PatternMatch
from steward.decide.rules.metric import KeyIndex, TermWatch, WatchCounts, compile_metric, sort_frame
from steward.decide.rules.metric_terms import MetricTerms
from steward.decide.rules.prefiltered_block import PrefilteredBlock, prefilter_block
from steward.decide.rules.routes import Route, Routes
from steward.model.event import Event
from steward.model.frame import Frame
from steward.model.rules import Hit, LogBlock, MetricTerm, Mode, Rule, Stream

__all__ = ["EVENTS", "TELEMETRY", "Counts", "EngineLimits", "RuleEngine"]

TELEMETRY = "telemetry"  # stream name of series for `expect`
_MOST_S = 9.2e9  # what fits into 64 bits of nanoseconds
EVENTS = "steward.event"  # source and stream name of job and device events


class RuleEngine:
    """Run rules over blocks, samples and events, in the order of each stream's own time.

    Streams may be read one after another or interleaved. Rules over several streams wait until all
    streams announced with `expect` have reached the same time; without it they do not wait.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        mode: Mode = Mode.STRICT,
        limits: EngineLimits | None = None,
        respect_sources: bool = True,
        compile_metric: Callable[[MetricTerm], TermWatch] = compile_metric,
    ) -> None:
        self._mode = mode
        self._limits = limits or EngineLimits()
        self._plans = plan(rules, mode=mode)
        self._routes = Routes(self._plans.leaves, respect_sources=respect_sources)
        self._series = MetricTerms(self._plans.watches, compile_metric)
        self._begin()

    def _begin(self) -> None:
        self.counts = Counts()
        self._reader = BlockReader(
            self._plans.leaves,
            mode=self._mode,
            limits=self._limits,
            counts=self.counts,
        )
        self._queue = MatchQueue(self._plans.joins, limits=self._limits, counts=self.counts)
        self._expected_ns: dict[str, int] = {}
        self._newest_ns = -NEVER
        self._key_index = KeyIndex()
        self._series.share(self._key_index)

    def fresh(self) -> RuleEngine:
        """Return an engine for the same rules with empty state; compiled patterns are shared."""
        new = copy(self)
        new._series = self._series.fresh()  # noqa: SLF001
        new._begin()  # noqa: SLF001 - same class
        return new

    @property
    def joins_streams(self) -> bool:
        """Whether some rule joins several streams, or logs with telemetry."""
        return bool(self._plans.joins)

    @property
    def needed_metrics(self) -> frozenset[str]:
        """The metrics that some rule evaluates."""
        return self._series.metrics

    def holding(self) -> dict[str, frozenset[str]]:
        """Return by expression the entities for which a condition was reported and still holds."""
        return self._series.holding()

    @property
    def metric_counts(self) -> tuple[tuple[MetricTerm, WatchCounts], ...]:
        """Samples that each metric term could not use."""
        return self._series.counts

    def expect(self, streams: Iterable[str]) -> None:
        """Announce streams by name, so that rules over several of them wait for the slowest."""
        for name in streams:
            self._expected_ns.setdefault(name, -NEVER)

    def end(self, stream: str) -> list[Hit]:
        """Mark a stream as ended, so that joins no longer wait for it."""
        self._expected_ns.pop(stream, None)
        return self._queue.advance(self._common_ns)

    def route(self, source: str) -> Route | None:
        """Return the terms of a source and the leaves that use them; None: no rule reads it."""
        return self._routes.of(source)

    def prefilter(
        self, source: str, *, shared: bool = False
    ) -> Callable[[LogBlock], PrefilteredBlock]:
        """Return a prefilter for blocks of a source; `shared`: several threads use it."""
        route = self.route(source)
        if route is not None:
            _ = route.prefilter  # compiled here, not in several threads
        return partial(prefilter_block, route=route, shared=shared)

    def read(self, block: LogBlock) -> list[Hit]:
        """Read entries of one stream."""
        return self.read_prefiltered(self.prefilter(block.stream.source)(block))

    def read_prefiltered(self, prefiltered: PrefilteredBlock) -> list[Hit]:
        """Read a prefiltered block of one stream, in the order of that stream."""
        hits = self._report(self._reader.read(prefiltered))
        if len(prefiltered):
            self._come_to(prefiltered.stream.name, int(prefiltered.t_ns.max()))
        return _by_time(hits + self._queue.advance(self._common_ns))

    def sample(self, frame: Frame) -> list[Hit]:
        """Read telemetry; its rows may be in any order."""
        rows = sort_frame(frame, self._key_index)
        self._key_index = rows.key_index
        self._series.add(rows, self._queue)
        self._come_to(TELEMETRY, rows.clock_ns)
        return _by_time(self._queue.advance(self._common_ns))

    def happen(self, events: Sequence[Event]) -> list[Hit]:
        """Read events as lines of kind, subject and text."""
        hits: list[Hit] = []
        timed = [each for each in events if abs(each.t_s) < _MOST_S]  # NaN is not
        self.counts.untimed += len(events) - len(timed)
        for block in _blocks(timed):
            hits += self.read(block)
        return _by_time(hits)

    def tick(self, t_ns: int, *, behind_ns: Mapping[str, int] | None = None) -> list[Hit]:
        """Advance time without lines or samples.

        `behind_ns` is how far the clocks of streams lag behind that time: lines of other machines
        may still arrive, and must not be treated as late.
        """
        behind = behind_ns or {}
        hits = self._report(self._reader.tick(t_ns, behind))
        self._series.tick(t_ns, self._queue)
        for name in self._expected_ns:
            self._come_to(name, t_ns - behind.get(name, 0))
        self._come_to("", t_ns - max(behind.values(), default=0))
        return _by_time(hits + self._queue.advance(self._common_ns))

    def finish(self) -> list[Hit]:
        """Decide all pending candidates at the end of the input."""
        hits = self._report(self._reader.finish())
        self._series.finish(self._queue)
        return _by_time(hits + self._queue.advance(NEVER - 1))

    @property
    def _common_ns(self) -> int:
        """Return the time that all expected streams have reached."""
        return min(self._expected_ns.values()) if self._expected_ns else self._newest_ns

    def _come_to(self, stream: str, t_ns: int) -> None:
        self._newest_ns = max(self._newest_ns, t_ns)
        if stream in self._expected_ns:
            self._expected_ns[stream] = max(self._expected_ns[stream], t_ns)

    def _report(self, matched: Matched) -> list[Hit]:
        """Return matches of whole rules, and post all others to their parent nodes."""
        hits, reports = matched
        for up, leaf, match in reports:
            times_ns = [each.last_ns for each in match.seen]
            first_ns, last_ns = min(times_ns), max(times_ns)
            seen = Occurrence(last_ns, match.seen[-1].serial, first_ns, _report_of(leaf, match))
            self._queue.post(up, seen, last_ns)
        return hits


def _report_of(leaf: LogLeaf, match: PatternMatch) -> NodeMatch:
    """Return the report of a leaf to its parent; the first line with a value wins."""
    lines = [line_of(each) for each in match.seen]
    first = lines[0]
    items = tuple([line.item for line in lines])
    attributes = attributes_of(items[0], first.stream)
    for line in lines[1:]:
        attributes = {**attributes_of(line.item, line.stream), **attributes}
    return NodeMatch(
        items, first.stream.entity, attributes, first.t_ns, match.fired_ns, leaf.origin
    )


def _by_time(hits: list[Hit]) -> list[Hit]:
    return sorted(hits, key=attrgetter("fired_ns"))


def _blocks(events: Sequence[Event]) -> Iterable[LogBlock]:
    """Return events as entries, grouped by subject."""
    by_subject: dict[str, list[Event]] = {}
    for event in events:
        by_subject.setdefault(event.subject, []).append(event)
    for subject, group in by_subject.items():
        texts = [f"{each.kind} {each.subject} {each.text}".encode() for each in group]
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        yield LogBlock(
            stream=Stream(name=EVENTS, source=EVENTS, entity=subject),
            buffer=b"".join(texts),
            start=np.concatenate([[0], ends[:-1]]).astype(np.int64),
            end=ends,
            t_ns=np.array([round(each.t_s * 1e9) for each in group], dtype=np.int64),
            line=np.arange(1, len(group) + 1, dtype=np.int64),
            joined=np.array([b"\n" in text for text in texts], dtype=bool),
            timed=np.ones(len(group), dtype=bool),
        )
