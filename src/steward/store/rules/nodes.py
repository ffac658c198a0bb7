"""Reader of sets and sequences: conditions, negations and windows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from steward.model.rules import Clause, MetricTerm, Negation, RuleNode, SourceLocation, Term
from steward.store.rules.checks import (
    anchor_faults,
    correlation_faults,
    expanded,
    slot_faults,
    with_known_joins,
)
from steward.store.rules.faults import Diagnostics
from steward.store.rules.language.fields import NEGATE_ONLY
from steward.store.rules.mapping_reader import MappingReader, items_of, shown
from steward.store.rules.terms import (
    ExpansionLimitError,
    NamedTerms,
    ResolvedTerm,
    count_of,
    distinct_of,
    extracts_of,
    metric_of,
    plain_of,
    resolve_term,
)
from steward.store.rules.tree import Tree

__all__ = ["NodeReader"]

MAX_LEVELS = 16
MAX_PARTS = 10_000  # terms and nodes of one rule, names looked up

NodeKind = Literal["set", "sequence"]


@dataclass(slots=True, kw_only=True)
class NodeReader:
    """Read the nodes of one rule; names that are being resolved are on the stack."""

    named: NamedTerms
    diagnostics: Diagnostics
    names: list[str] = field(default_factory=list)
    levels: int = 0
    parts: int = 0
    is_whole: bool = True  # no term was left out so far

    def read(self, tree: Tree, kind: NodeKind) -> RuleNode:
        """Return a set or sequence. With faults it is incomplete, and not to be used."""
        with self._level(tree.place):
            return self._node(MappingReader(tree, kind, self.diagnostics), kind)

    def check(self, tree: Tree) -> None:
        """Report faults of a term that no rule uses."""
        self._what(resolve_term(tree, self.named, self.diagnostics))

    def _node(self, fields: MappingReader, kind: NodeKind) -> RuleNode:
        key = "order" if kind == "sequence" else "match"
        positives = self._terms(fields, key)
        negatives = self._terms(fields, "negate")
        event = fields.one("event")
        mixed = self._check_children(fields, [*positives, *negatives])
        clauses = tuple(each for each in map(self._clause, positives) if each is not None)
        negations = tuple(each for each in map(self._negation, negatives) if each is not None)
        if mixed or len(clauses) + len(negations) < len(positives) + len(negatives):
            self.is_whole = False
        node = RuleNode(
            kind=kind,
            clauses=clauses,
            negations=negations,
            window_ns=fields.duration("window"),
            source=event.text("source"),
            origin=event.flag("origin") or _is_series_origin(clauses),
            correlations=fields.texts("correlations"),
            place=fields.place,
        )
        for each in (each for each in clauses if each.distinct and not node.correlations):
            problem = "`distinct` needs `correlations` beside it"
            hint = "name what the lines share, as `host`, or an extract that never changes"
            self.diagnostics.fault(each.place, problem, hint)
        self._note_ignored(fields)
        miscounted = any(self._is_faulty(each.option("count"), "count") for each in positives)
        readable = key in fields and not self._is_faulty(fields, key)
        if len(clauses) == len(positives) and readable and not miscounted:
            self._check(node, fields)
        return with_known_joins(node)

    def _terms(self, fields: MappingReader, key: str) -> list[ResolvedTerm]:
        items = items_of(fields.tree(key), key, self.diagnostics)
        self._spend(len(items), fields.place)
        return [resolve_term(each, self.named, self.diagnostics) for each in items]

    # -- children -----------------------------------------------------------------------------

    def _check_children(self, fields: MappingReader, terms: list[ResolvedTerm]) -> bool:
        faults_before = self.diagnostics.raised
        plain = [each for each in terms if each.kind in ("value", "regex", "jq")]
        other = [each for each in terms if each.kind in ("set", "sequence", "promql")]
        if "event" in fields:
            event = fields.one("event")
            if "source" in event and not event.text("source").strip():
                self.diagnostics.fault(fields.at("event"), "`event` needs a `source`")
            for each in other:
                problem = f"`{each.kind}` cannot stand in a node that has an `event`"
                hint = "plain terms and nodes do not mix: put it, and a node with the plain terms"
                self.diagnostics.fault(each.place, problem, f"{hint}, into a node without `event`")
        elif plain and not other:
            problem = "a node with plain terms needs `event: {source: …}`"
            self.diagnostics.fault(
                fields.place, problem, "such as `event: {source: cre.log.redis}`"
            )
        else:
            for each in plain:
                problem = "a plain term cannot stand in a node without `event`"
                hint = "put it into a `set` of its own, with the `event` that it comes from"
                self.diagnostics.fault(each.place, problem, hint)
        return self.diagnostics.raised > faults_before

    def _what(self, term: ResolvedTerm) -> Term | MetricTerm | RuleNode | None:
        if term.kind in ("set", "sequence"):
            tree = term.fields.found[term.kind].value
            with self._inside(term):
                return self.read(tree, "set" if term.kind == "set" else "sequence")
        if term.kind == "promql":
            return metric_of(term.fields, self.diagnostics)
        return plain_of(term.fields, term.kind, self.diagnostics) if term.kind else None

    def _clause(self, term: ResolvedTerm) -> Clause | None:
        what = self._what(term)
        extracts = extracts_of(term, self.diagnostics)
        count = count_of(term, self.diagnostics)
        for name in (each for each in NEGATE_ONLY if each in term.own):
            text = f"`{name}` means nothing at what must happen"
            self.diagnostics.note(term.own.key_at(name), text, "it belongs under `negate`")
        if extracts and not isinstance(what, Term | None):
            problem = f"`extract` needs a line to take from, and this is a `{term.kind}`"
            self.diagnostics.fault(term.option("extract").key_at("extract"), problem)
        if isinstance(what, RuleNode) and count > 1:
            text = f"`count` means nothing at a `{term.kind}`"
            self.diagnostics.note(term.option("count").key_at("count"), text)
            count = 1
        if what is None:
            return None
        distinct = distinct_of(term, extracts, self.diagnostics)
        return Clause(
            what=what, count=count, extracts=extracts, distinct=distinct, place=term.place
        )

    def _negation(self, term: ResolvedTerm) -> Negation | None:
        what = self._what(term)
        count = term.option("count")
        if count.whole("count", default=1) > 1:
            problem = "what must not happen has no `count`: once is enough"
            self.diagnostics.fault(count.key_at("count"), problem)
        if extracts_of(term, self.diagnostics):
            at = term.option("extract").key_at("extract")
            self.diagnostics.fault(at, "what must not happen has no `extract`")
        if what is None:
            return None
        return Negation(
            what=what,
            window_ns=term.option("window").duration("window"),
            slide_ns=term.option("slide").duration("slide"),
            anchor=term.option("anchor").whole("anchor"),
            absolute=term.option("absolute").flag("absolute"),
            place=term.place,
        )

    # -- checks -------------------------------------------------------------------------------

    def _note_ignored(self, fields: MappingReader) -> None:
        if fields.shape.name == "set" and "count" in fields:
            text = "`count` means nothing at a `set`; write it at the term"
            self.diagnostics.note(fields.key_at("count"), text)
        if fields.shape.name == "sequence" and fields.flag("origin"):
            text = "`origin` means nothing at a `sequence`; write it under `event`"
            self.diagnostics.note(fields.key_at("origin"), text)

    def _check(self, node: RuleNode, fields: MappingReader) -> None:
        events = expanded(node)
        if node.kind == "sequence":
            self._check_sequence(node, fields, events)
        else:
            self._check_set(node, fields, events)
        slot_faults(node, self.diagnostics)
        anchor_faults(node, self.diagnostics)
        correlation_faults(node, fields.at("correlations"), self.diagnostics)

    def _check_sequence(self, node: RuleNode, fields: MappingReader, events: int) -> None:
        if events < 2:
            problem = f"a sequence needs two things or more under `order`, and this has {events}"
            self.diagnostics.fault(fields.at("order"), problem, "one thing alone is a `set`")
        if node.window_ns <= 0 and "window" in fields and not self._is_faulty(fields, "window"):
            problem = "a sequence needs a `window` above zero"
            self.diagnostics.fault(fields.at("window"), problem)

    def _check_set(self, node: RuleNode, fields: MappingReader, events: int) -> None:
        if node.window_ns < 0:
            self.diagnostics.fault(fields.at("window"), "`window` is below zero")
        elif not events:
            problem = "a set needs one thing or more under `match`"
            hint = "what must not happen needs something that does" if node.negations else ""
            self.diagnostics.fault(fields.at("match"), problem, hint)
        elif events == 1 and node.window_ns:
            problem = "a set of one thing takes no `window`"
            hint = "take it out; under `negate`, `window` stands at the term"
            self.diagnostics.fault(fields.key_at("window"), problem, hint)
        elif events > 1 and not node.window_ns:
            problem = f"a set of {events} things needs a `window`"
            if not self._is_faulty(fields, "window"):
                self.diagnostics.fault(fields.at("window"), problem, "such as `window: 30s`")

    def _is_faulty(self, fields: MappingReader, key: str) -> bool:
        """Return whether a field has a fault already: a bad duration is not also a missing one."""
        return key in fields and fields.at(key) in self.diagnostics.places

    # -- bounds --------------------------------------------------------------------------------

    @contextmanager
    def _level(self, place: SourceLocation) -> Iterator[None]:
        self._spend(1, place)
        self.levels += 1
        if self.levels > MAX_LEVELS:
            problem = f"more than {MAX_LEVELS} nodes inside one another"
            self.diagnostics.fault(place, problem)
            raise ExpansionLimitError
        yield
        self.levels -= 1

    @contextmanager
    def _inside(self, term: ResolvedTerm) -> Iterator[None]:
        if term.name in self.names:
            ring = [*self.names[self.names.index(term.name) :], term.name]
            problem = f"terms go round in a circle: {' → '.join(map(shown, ring))}"
            self.diagnostics.fault(term.place, problem, "take one of them out")
            raise ExpansionLimitError
        if not term.name:
            yield
            return
        self.names.append(term.name)
        yield
        self.names.pop()

    def _spend(self, parts: int, place: SourceLocation) -> None:
        self.parts += parts
        self.named.spend(10 * parts, place, self.diagnostics)
        if self.parts > MAX_PARTS:
            problem = f"a rule of more than {MAX_PARTS} terms, with names looked up"
            self.diagnostics.fault(place, problem)
            raise ExpansionLimitError


def _is_series_origin(clauses: tuple[Clause, ...]) -> bool:
    """Return whether a node of series only contains the origin."""
    series = [each.what for each in clauses if isinstance(each.what, MetricTerm)]
    return len(series) == len(clauses) and any(each.origin for each in series)
