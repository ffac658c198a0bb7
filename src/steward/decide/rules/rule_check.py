"""Check of rules before they run: patterns, sizes, anchors and joins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from steward.decide.rules.joining import KNOWN_ATTRIBUTES, slots_of
from steward.decide.rules.metric import compile_metric
from steward.decide.rules.terms import compile_extract, compile_term
from steward.errors import StewardError, did_you_mean
from steward.model.rules import Clause, MetricTerm, Negation, Rule, RuleNode, SourceLocation, Term

__all__ = ["Problem", "check"]

MOST_SLOTS = 64  # as everywhere in the field
MOST_NEEDED = 10_000  # occurrences of one match
MOST_DEEP = 16  # nesting of nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error in a rule, and where it is."""

    place: SourceLocation
    problem: str
    hint: str = ""


def check(rule: Rule, *, has_prometheus: bool = False, whole: bool = True) -> list[Problem]:
    """Return all errors of a rule, in the order of the file.

    `has_prometheus`: a Prometheus answers the metric terms that cannot be evaluated here. Of a rule
    that could not be read as a `whole`, only its patterns are checked.
    """
    problems: list[Problem] = []
    todo = [(rule.root, 1)]
    while todo:
        node, deep = todo.pop()
        if deep > MOST_DEEP:
            problem = f"nodes lie inside one another more than {MOST_DEEP} deep"
            problems.append(Problem(place=node.place, problem=problem, hint="flatten the rule"))
            continue
        problems += _around(node) if whole else ()
        problems += _in_node(node, has_prometheus=has_prometheus)
        parts: tuple[Clause | Negation, ...] = (*node.clauses, *node.negations)
        todo += [(each.what, deep + 1) for each in parts if isinstance(each.what, RuleNode)]
    return sorted(problems, key=lambda each: (each.place.line, each.place.column))


def _around(node: RuleNode) -> Iterator[Problem]:
    yield from _sizes(node)
    yield from _anchors(node)
    yield from _correlations(node)


def _in_node(node: RuleNode, *, has_prometheus: bool) -> Iterator[Problem]:
    for clause in node.clauses:
        yield from _compiled(clause.what, clause.place, has_prometheus=has_prometheus)
        for extract in clause.extracts:
            yield from _tried(partial(compile_extract, extract), clause.place, extract.name)
    for negation in node.negations:
        yield from _compiled(negation.what, negation.place, has_prometheus=has_prometheus)


def _compiled(
    what: Term | MetricTerm | RuleNode, place: SourceLocation, *, has_prometheus: bool
) -> Iterator[Problem]:
    if isinstance(what, Term):
        yield from _tried(partial(compile_term, what), place)
    elif isinstance(what, MetricTerm) and not has_prometheus:
        yield from _tried(partial(compile_metric, what), place)


def _tried(make: Callable[[], object], place: SourceLocation, name: str = "") -> Iterator[Problem]:
    try:
        make()
    except StewardError as wrong:
        problem = f"extract '{name}': {wrong}" if name else str(wrong)
        yield Problem(place=place, problem=problem, hint=wrong.hint)


def _sizes(node: RuleNode) -> Iterator[Problem]:
    slots = len(slots_of(node.kind, node.clauses))
    if slots > MOST_SLOTS:
        problem = f"the {node.kind} has {slots} different conditions, more than {MOST_SLOTS}"
        hint = "write some of them as one regex with alternatives"
        yield Problem(place=node.place, problem=problem, hint=hint)
    if _needed(node) > MOST_NEEDED:
        problem = f"one match needs {_needed(node)} things, more than {MOST_NEEDED}"
        yield Problem(place=node.place, problem=problem, hint="ask for a smaller count")


def _anchors(node: RuleNode) -> Iterator[Problem]:
    last = _needed(node) - 1
    for each in node.negations:
        if not 0 <= each.anchor <= last:
            problem = (
                f"anchor {each.anchor} is none of the things that are looked for (0 to {last})"
            )
            yield Problem(place=each.place, problem=problem, hint="count from 0, with repetitions")


def _needed(node: RuleNode) -> int:
    return sum(max(each.count, 1) for each in node.clauses)


def _correlations(node: RuleNode) -> Iterator[Problem]:
    """Yield join names that nothing provides: conditions joined on them would never match."""
    extracts, metrics = _below(node)
    for name in node.correlations:
        if name not in (*KNOWN_ATTRIBUTES, *extracts) and not metrics:
            known = sorted({*KNOWN_ATTRIBUTES, *extracts})
            problem = f"nothing in this {node.kind} has '{name}'; known: {', '.join(known)}"
            hint = did_you_mean(name, known) or f"extract '{name}' in each of its conditions"
            yield Problem(place=node.place, problem=problem, hint=hint)


def _below(node: RuleNode) -> tuple[set[str], bool]:
    """Return the names of all extracts below a node, and whether it has metric terms."""
    names: set[str] = set()
    metrics = False
    todo = [node]
    while todo:
        for clause in todo.pop().clauses:
            names |= {each.name for each in clause.extracts}
            metrics = metrics or isinstance(clause.what, MetricTerm)
            todo += [clause.what] if isinstance(clause.what, RuleNode) else []
    return names, metrics
