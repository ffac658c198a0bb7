"""Check of rule files and patterns: faults, notes and advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from steward.decide.rules.rule_check import check
from steward.decide.rules.terms import Prefilter
from steward.errors import StewardError
from steward.inspection.folders import examples_in
from steward.inspection.garbage import few_collections
from steward.model.rules import Clause, Negation, Rule, RuleNode, SourceLocation, Term
from steward.store.rules import Parsed, RuleFault, examine_rules

__all__ = ["Checked", "check_rules", "valid_rules", "with_patterns_checked"]

_ADVISED_FIELDS = ("title", "cause", "impact", "mitigation")  # what an operator needs at night


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Result of a check. A rule with a fault cannot be used; advice does not matter for that."""

    rules: tuple[Rule, ...]  # rules without faults
    faults: tuple[RuleFault, ...]
    notes: tuple[RuleFault, ...]
    advice: tuple[RuleFault, ...]


def valid_rules(paths: Sequence[Path], *, lenient: bool) -> tuple[Rule, ...]:
    """Return rules that can run, or raise `RuleFaults` with all faults."""
    _must_exist(paths)
    with few_collections():
        return with_patterns_checked(examine_rules(paths, lenient=lenient)).valid()


def with_patterns_checked(parsed: Parsed) -> Parsed:
    """Move rules whose patterns cannot run from `rules` to faults."""
    checked = [(rule, check(rule)) for rule in parsed.rules]
    checked += [(rule, check(rule, whole=False)) for rule in parsed.invalid]
    wrong = [
        RuleFault(place=each.place, problem=each.problem, hint=each.hint, rule=rule.id)
        for rule, problems in checked
        for each in problems
    ]
    broken = {id(rule) for rule, problems in checked if problems}
    return replace(
        parsed,
        rules=tuple(rule for rule in parsed.rules if id(rule) not in broken),
        faults=(*parsed.faults, *wrong),
    )


def check_rules(paths: Sequence[Path], *, lenient: bool) -> Checked:
    """Check files and folders of rules without running them."""
    _must_exist(paths)
    with few_collections():
        parsed = with_patterns_checked(examine_rules(paths, lenient=lenient))
    faults = sorted(parsed.faults, key=lambda each: _order(each.place))
    advice = [each for rule in parsed.rules for each in _advice(rule)]
    advice += _slow(parsed.rules)
    return Checked(
        rules=parsed.rules,
        faults=tuple(faults),
        notes=parsed.notes,
        advice=tuple(sorted(advice, key=lambda each: _order(each.place))),
    )


def _must_exist(paths: Sequence[Path]) -> None:
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        problem = f"there is no {' and no '.join(missing)}"
        raise StewardError(problem, hint="name rule files, or folders that have some")


def _order(place: SourceLocation) -> tuple[str, int, int]:
    return place.file, place.line, place.column


def _advice(rule: Rule) -> Iterator[RuleFault]:
    silent = [name for name in _ADVISED_FIELDS if not getattr(rule, name).strip()]
    if silent:
        problem = f"it has no {', '.join(silent)}"
        hint = "the operator on call needs it"
        yield RuleFault(place=rule.place, problem=problem, hint=hint, rule=rule.id)
    file = Path(rule.place.file)
    if file.name != "rule.yaml":
        return
    firing, quiet = examples_in(file.parent)
    if not firing:
        problem = "it has no example on which it must fire"
        hint = "put a test.log beside it, or a test.csv with series"
        yield RuleFault(place=rule.place, problem=problem, hint=hint, rule=rule.id)
    if not quiet:
        problem = "it has no example on which it must stay silent"
        hint = "put near misses into a test-fp.log beside it: the healthy form of the same lines"
        yield RuleFault(place=rule.place, problem=problem, hint=hint, rule=rule.id)


def _slow(rules: Sequence[Rule]) -> Iterator[RuleFault]:
    """Yield terms that are tested on every line, since they have no literal."""
    spots = [(rule, *spot) for rule in rules for spot in _terms(rule.root)]
    unfiltered = set(Prefilter(list(dict.fromkeys(term for _, term, _ in spots))).unfiltered)
    for rule, term, place in spots:
        if term not in unfiltered:
            continue
        problem = f"this {term.kind} is tried on every line, which makes all rules slower"
        hint = "put a word of four letters or more into it that every such line has"
        if term.kind == "jq":
            problem = "this jq is tried on every line that is JSON, which makes all rules slower"
            hint = 'begin with `.key == "text"`, then `and …`: lines without the text are skipped'
        yield RuleFault(place=place, problem=problem, hint=hint, rule=rule.id)


def _terms(node: RuleNode) -> Iterator[tuple[Term, SourceLocation]]:
    parts: tuple[Clause | Negation, ...] = (*node.clauses, *node.negations)
    for each in parts:
        if isinstance(each.what, Term):
            yield each.what, each.place
        elif isinstance(each.what, RuleNode):
            yield from _terms(each.what)
