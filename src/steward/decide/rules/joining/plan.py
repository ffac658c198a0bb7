"""Plans of rules: which leaf reads which lines, and which node it reports to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from steward.decide.rules.matching import MatchPattern, NegationWindow
from steward.model.rules import Clause, Extract, MetricTerm, Mode, Negation, Rule, RuleNode, Term

__all__ = ["Join", "LogLeaf", "MetricLeaf", "ParentLink", "Plans", "plan", "slots_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Join:
    """A node over other nodes, or whose conditions must share something."""

    rule: str
    pattern: MatchPattern
    correlations: tuple[str, ...]
    per_entity: bool  # only conditions on series: each entity by itself
    up: ParentLink | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentLink:
    """Where a match is reported to, and which slots and negations it fits there."""

    join: Join
    mask: int
    distinct: str = ""  # an attribute; each of its values counts once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogLeaf:
    """A node that reads lines itself."""

    rule: str
    source: str
    pattern: MatchPattern
    masks: Mapping[Term, int]
    extracts: Mapping[Term, tuple[Extract, ...]]
    origin: bool
    up: ParentLink | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MetricLeaf:
    """A condition on series."""

    rule: str
    term: MetricTerm
    origin: bool
    up: ParentLink

    @property
    def forbids(self) -> bool:
        """Whether the condition is negated."""
        return not self.up.mask & (1 << len(self.up.join.pattern.needed)) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """All parts of all rules."""

    leaves: list[LogLeaf] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)
    watches: list[MetricLeaf] = field(default_factory=list)


def plan(rules: Sequence[Rule], *, mode: Mode) -> Plans:
    """Return the plans of rules."""
    plans = Plans()
    for rule in rules:
        _Planner(rule=rule.id, mode=mode, plans=plans).add(rule.root, None)
    return plans


def slots_of(kind: Literal["set", "sequence"], clauses: Sequence[Clause]) -> list[list[Clause]]:
    """Merge equal conditions: neighbours in a sequence, all of them in a set."""
    slots: list[list[Clause]] = []
    for clause in clauses:
        near = slots[-1:] if kind == "sequence" else slots
        same = next((slot for slot in near if slot[0].what == clause.what), None)
        if same is None:
            slots.append([clause])
        else:
            same.append(clause)
    return slots


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner:
    """Build the plans of one rule, depth first."""

    rule: str
    mode: Mode
    plans: Plans

    def add(self, node: RuleNode, up: ParentLink | None) -> None:
        """Add a node and all below it."""
        if self._is_plain(node):
            self.plans.leaves.append(self._leaf(node, up))
        else:
            self._add_join(node, up)

    def _is_plain(self, node: RuleNode) -> bool:
        """Return whether a line matcher suffices. preq has no correlations."""
        parts: tuple[Clause | Negation, ...] = (*node.clauses, *node.negations)
        joined = bool(node.correlations) and self.mode is Mode.STRICT
        return not joined and all(isinstance(each.what, Term) for each in parts)

    def _leaf(self, node: RuleNode, up: ParentLink | None) -> LogLeaf:
        slots = slots_of(node.kind, node.clauses)
        masks: dict[Term, int] = {}
        whats = [slot[0].what for slot in slots] + [each.what for each in node.negations]
        terms = [what for what in whats if isinstance(what, Term)]  # all clauses: the node is plain
        for bit, term in enumerate(terms):
            masks[term] = masks.get(term, 0) | 1 << bit
        return LogLeaf(
            rule=self.rule,
            source=node.source,
            pattern=_pattern(node, slots, intervals=False),
            masks=masks,
            extracts=_extracts(node.clauses),
            origin=node.origin,
            up=up,
        )

    def _add_join(self, node: RuleNode, up: ParentLink | None) -> None:
        slots = slots_of(node.kind, node.clauses)
        whats = [slot[0].what for slot in slots] + [each.what for each in node.negations]
        join = Join(
            rule=self.rule,
            # Lines of one node are in order, as without a join.
            pattern=_pattern(
                node, slots, intervals=not all(isinstance(each, Term) for each in whats)
            ),
            correlations=node.correlations,
            per_entity=not node.correlations
            and all(isinstance(each, MetricTerm) for each in whats),
            up=up,
        )
        self.plans.joins.append(join)
        masks: dict[Term | MetricTerm, int] = {}
        for bit, what in enumerate(whats):
            if isinstance(what, RuleNode):
                self.add(what, ParentLink(join=join, mask=1 << bit))
            else:
                masks[what] = masks.get(what, 0) | 1 << bit
        distinct = {each.what: each.distinct for each in node.clauses if each.distinct}
        for one, mask in masks.items():
            link = ParentLink(join=join, mask=mask, distinct=distinct.get(one, ""))
            self._add_term(node, one, link)

    def _add_term(self, node: RuleNode, term: Term | MetricTerm, up: ParentLink) -> None:
        """Add a term among other nodes: a node of its own, of one line or one condition."""
        if isinstance(term, MetricTerm):
            origin = node.origin or term.origin
            self.plans.watches.append(MetricLeaf(rule=self.rule, term=term, origin=origin, up=up))
            return
        extracts = _extracts(node.clauses)
        self.plans.leaves.append(
            LogLeaf(
                rule=self.rule,
                source=node.source,
                pattern=MatchPattern(ordered=False, needed=(1,)),
                masks={term: 1},
                extracts={term: extracts[term]} if term in extracts else {},
                origin=node.origin,
                up=up,
            )
        )


def _extracts(clauses: Sequence[Clause]) -> dict[Term, tuple[Extract, ...]]:
    found: dict[Term, tuple[Extract, ...]] = {}
    for clause in clauses:
        if isinstance(clause.what, Term) and clause.extracts:
            found[clause.what] = (*found.get(clause.what, ()), *clause.extracts)
    return found


def _pattern(node: RuleNode, slots: Sequence[Sequence[Clause]], *, intervals: bool) -> MatchPattern:
    return MatchPattern(
        ordered=node.kind == "sequence",
        needed=tuple(sum(max(each.count, 1) for each in slot) for slot in slots),
        window_ns=_lasts_ns(node),
        negations=tuple(_negation(each) for each in node.negations),
        intervals=intervals,
        lag_ns=max(_lag_ns(each.what) for each in node.clauses),
    )


def _lasts_ns(what: Term | MetricTerm | RuleNode) -> int:
    """Return the longest duration of an occurrence; a set of one has that of its member."""
    if not isinstance(what, RuleNode):
        return 0
    return what.window_ns or max(_lasts_ns(each.what) for each in what.clauses)


def _negation(negation: Negation) -> NegationWindow:
    what = negation.what
    # A condition on series counts from its beginning, and is reported when it has held for `for_s`.
    waits_ns = round(what.for_s * 1e9) if isinstance(what, MetricTerm) else _lasts_ns(what)
    return NegationWindow(
        window_ns=negation.window_ns,
        slide_ns=negation.slide_ns,
        anchor=negation.anchor,
        absolute=negation.absolute,
        slack_ns=waits_ns + _lag_ns(what),
    )


def _lag_ns(what: Term | MetricTerm | RuleNode) -> int:
    """Return how long after its end an occurrence may be reported, until it is certain."""
    if not isinstance(what, RuleNode):
        return 0
    waits_ns = [_lag_ns(each.what) for each in what.clauses]
    for each in what.negations:
        negation = _negation(each)
        span_ns = 0 if negation.absolute else what.window_ns
        waits_ns.append(negation.slide_ns + negation.window_ns + span_ns + negation.slack_ns)
    return max(0, *waits_ns)
