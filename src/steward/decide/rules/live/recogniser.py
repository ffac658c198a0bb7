"""The recogniser that runs rules: takes an observation, returns the findings that hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

from steward.decide.rules.engine import Counts, RuleEngine
from steward.decide.rules.live.episodes import PAUSE_S, Episodes, Key
from steward.decide.rules.live.findings import NS_PER_S, failed_gpus, finding_of
from steward.decide.rules.live.log_blocks import SourceNames
from steward.decide.rules.live.new_events import NewEvents
from steward.decide.rules.live.sample_filter import SampleFilter
from steward.decide.rules.metric import TermWatch, compile_metric
from steward.model.event import LogLine, Observation
from steward.model.finding import Finding, Recurrence
from steward.model.rules import Hit, MetricTerm, Mode, Rule
from steward.model.view import ClusterView

__all__ = ["RuleRecogniser"]

PATIENCE_S = 15.0  # later lines count as late: agents send every ten seconds
_TOGETHER = "together"  # joins wait until the whole observation has been read
_NOT_KNOWN = 0.5  # the weight of a rule without judged findings


class RuleRecogniser:
    """Run all rules of a site over observations, in one engine."""

    name = "rules"

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        mode: Mode = Mode.STRICT,
        sources: Mapping[str, str] | None = None,
        patience_s: float = PATIENCE_S,
        compile_metric: Callable[[MetricTerm], TermWatch] = compile_metric,
    ) -> None:
        self._rules = {rule.id: rule for rule in rules}
        self._engine = RuleEngine(rules, mode=mode, compile_metric=compile_metric)
        self._engine.expect([_TOGETHER])
        self._sources = SourceNames(sources)
        self._samples = SampleFilter(self._engine.needed_metrics)
        self._new_events = NewEvents()
        self._episodes = Episodes()
        self._weights: Mapping[str, float] = {}
        self._earlier: dict[Key, tuple[Finding, float]] = {}  # of an earlier run
        self._recorded: tuple[LogLine, ...] = ()  # lines that an earlier run has read
        self._patience_ns = round(patience_s * 1e9)

    @property
    def counts(self) -> Counts:
        """Input that came late or was evicted."""
        return self._engine.counts

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Set the weight of each rule, from its record so far."""
        self._weights = weights

    def resume(self, found: Sequence[tuple[Finding, float]], lines: Sequence[LogLine]) -> None:
        """Restore open episodes and partial matches from recorded lines, at the first read.

        Streams go on behind these lines: what they had begun would otherwise never be found, and
        what had been found would be gone before a policy has decided.
        """
        self._earlier = {(each.rule, each.subject): (each, last_s) for each, last_s in found}
        self._recorded = tuple(lines)

    def recognise(self, seen: Observation, view: ClusterView) -> tuple[Finding, ...]:
        """Read an observation; return the findings that hold now, most important first."""
        if self._recorded:
            self._read_recorded(frozenset(seen.lines), view)
        for hit in self._hits(seen, view):
            self._add_hit(hit, view)
        failed = frozenset(failed_gpus(view))
        self._episodes.settle(self._engine.holding(), view.t_s, failed=failed)
        held = [each.finding for each in self._episodes.open.values() if each.holds]
        return tuple(sorted(held, key=self._rank))

    def recurrences(self, t_s: float) -> tuple[Recurrence, ...]:
        """Return recurrences of findings since the last report, where one is due."""
        return self._episodes.recurrences(t_s)

    def _read_recorded(self, new: Set[LogLine], view: ClusterView) -> None:
        """Read the lines of an earlier run, as of their own times."""
        again = frozenset(replace(line, number=0) for line in new)  # a recording has no numbers
        lines = [line for line in self._recorded if line not in again]
        self._recorded = ()
        for block in self._sources.blocks(lines, view.t_s):
            for hit in self._engine.read(block):
                at_s = min(hit.fired_ns / NS_PER_S, view.t_s)
                self._episodes.forget_over(self._episodes.key_of(hit), at_s)
                self._add_hit(hit, view, at_s=at_s)
        for key, episode in list(self._episodes.open.items()):
            episode.again = 0  # counted by the run that read them
            self._episodes.forget_over(key, view.t_s)

    def _hits(self, seen: Observation, view: ClusterView) -> list[Hit]:
        engine, hits = self._engine, []
        blocks = self._sources.blocks(seen.lines, view.t_s)
        engine.counts.untimed += len(seen.lines) - sum(map(len, blocks))
        for block in blocks:
            hits += engine.read(block)
        happened = self._new_events.of(seen, view.t_s)
        if happened:
            hits += engine.happen(happened)
        frame = self._samples.of(seen, view)
        if frame.height:
            hits += engine.sample(frame)
        return hits + engine.tick(round(view.t_s * 1e9) - self._patience_ns)

    def _add_hit(self, hit: Hit, view: ClusterView, *, at_s: float | None = None) -> None:
        """Add a match to its episode, as of `at_s`: now, unless an earlier run has read it."""
        at_s = view.t_s if at_s is None else at_s
        key: Key = self._episodes.key_of(hit)
        if key in self._episodes.open:
            self._episodes.again(key, hit, at_s)
            return
        rule = self._rules[hit.rule]
        weight = self._weights.get(rule.id, _NOT_KNOWN)
        finding = self._earlier_finding(key, hit)
        if finding is None:
            finding = finding_of(hit, rule, key[1], view, weight=weight)
        else:
            finding = replace(finding, weight=weight, treatment=rule.treatment)
        self._episodes.add(key, finding, hit, at_s=at_s)

    def _earlier_finding(self, key: Key, hit: Hit) -> Finding | None:
        """Return the finding of an earlier run whose episode a match belongs to."""
        found, last_s = self._earlier.get(key, (None, 0.0))
        if found is None or not found.since_s - 1.0 <= hit.t_ns / NS_PER_S <= last_s + PAUSE_S:
            return None
        return found

    def _rank(self, finding: Finding) -> tuple[float, float, str]:
        """Order by how bad it would be times how likely it is right, then by age."""
        badness = 5 - int(self._rules[finding.rule].severity)
        return (-finding.weight * badness, finding.since_s, finding.id)
