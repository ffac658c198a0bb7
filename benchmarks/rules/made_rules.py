"""Rules in any number: the public ones, ours, and others that are made by varying them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from steward.model.rules import Clause, Rule, RuleNode, Term
from steward.store.rules import parse_rules, read_rules

__all__ = ["MANY", "corpus", "log_rules", "metric_rules", "terms_of"]

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("STEWARD_DATA", HERE.parents[2] / "shared" / "data"))
MANY = 350
corpus = DATA / "cre"


def log_rules(count: int) -> list[Rule]:
    """Return so many rules over logs, public and own ones by turns, made ones at the end."""
    known = _mixed(_public(), [each for each in _own() if any(True for _ in terms_of([each]))])
    made = (each for turn in range(1, 100) for each in _varied(known, turn))
    while len(known) < count:
        known.append(next(made))
    return known[:count]


def metric_rules() -> list[Rule]:
    """Return rules over series: those of the benchmark, and all own ones that look at no logs."""
    text = (HERE / "series_rules.yaml").read_text(encoding="utf-8")
    own = [each for each in _own() if not any(True for _ in terms_of([each]))]
    return [*parse_rules(text, file="series_rules.yaml"), *own]


def terms_of(rules: Sequence[Rule]) -> Iterator[Term]:
    """Yield the terms over lines of rules."""
    for rule in rules:
        yield from _terms(rule.root)


def _terms(node: RuleNode) -> Iterator[Term]:
    for what in (*(each.what for each in node.clauses), *(each.what for each in node.negations)):
        if isinstance(what, Term):
            yield what
        elif isinstance(what, RuleNode):
            yield from _terms(what)


def _public() -> list[Rule]:
    return list(read_rules(sorted(corpus.glob("*/rule.yaml")), lenient=True))


def _own() -> list[Rule]:
    return list(read_rules(sorted(HERE.parents[1].glob("rules/*/*/rule.yaml"))))


def _mixed(first: list[Rule], second: list[Rule]) -> list[Rule]:
    """Spread the second list evenly over the first."""
    places = [
        (number / len(each), rule) for each in (first, second) for number, rule in enumerate(each)
    ]
    return [rule for _, rule in sorted(places, key=lambda place: place[0])]


def _varied(rules: Sequence[Rule], turn: int) -> Iterator[Rule]:
    """Yield rules that look for the same words, the last of them turned round."""
    for rule in rules:
        first = rule.root.clauses[0]
        if isinstance(first.what, Term) and first.what.kind == "value" and " " in first.what.text:
            before, _, last = first.what.text.rpartition(" ")
            text = f"{before} {last[::-1]}{turn if turn > 1 else ''}"
            clause = Clause(what=Term(kind="value", text=text), count=first.count)
            root = replace(rule.root, clauses=(clause, *rule.root.clauses[1:]))
            name = f"{rule.id}-{turn}"
            yield replace(
                rule, id=name, key=f"{rule.key}{turn}", hash=f"{rule.hash}{turn}", root=root
            )
