"""What every rule that we bring must have, so that people can act on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from steward.decide.rules.terms import compile_extract, compile_term
from steward.model.rules import MetricTerm, Rule, RuleNode, Term
from steward.store.rules import examine_rules

PACKS = Path(__file__).parents[2] / "rules"
FILES = sorted(PACKS.glob("*/*/rule.yaml"))
WORDS = ("title", "category", "author", "description", "cause", "impact", "mitigation")


@pytest.fixture(scope="module")
def rules() -> tuple[Rule, ...]:
    parsed = examine_rules(FILES)
    assert [str(fault) for fault in parsed.faults] == []
    return parsed.rules


def parts_of(node: RuleNode) -> list[Term | MetricTerm | RuleNode]:
    return [each.what for each in node.clauses] + [each.what for each in node.negations]


def nodes_of(node: RuleNode) -> Iterator[RuleNode]:
    yield node
    for part in parts_of(node):
        if isinstance(part, RuleNode):
            yield from nodes_of(part)


def test_there_is_one_rule_in_each_folder(rules: tuple[Rule, ...]) -> None:
    assert len(rules) == len(FILES) >= 60
    assert len({rule.place.file for rule in rules}) == len(FILES)


def test_each_rule_says_what_it_means_and_what_to_do(rules: tuple[Rule, ...]) -> None:
    silent = [
        f"{rule.id}: {word}" for rule in rules for word in WORDS if not getattr(rule, word).strip()
    ]
    without = [rule.id for rule in rules if not (rule.tags and rule.applications)]

    assert silent == []
    assert without == []


def test_each_rule_has_references_and_scores(rules: tuple[Rule, ...]) -> None:
    pointless = [
        rule.id
        for rule in rules
        if not rule.references or not all(link.startswith("https://") for link in rule.references)
    ]
    scoreless = [
        rule.id
        for rule in rules
        if not (1 <= rule.impact_score <= 10 and 1 <= rule.mitigation_score <= 10)
    ]

    assert pointless == []
    assert scoreless == []


def test_each_mitigation_shows_something_to_type(rules: tuple[Rule, ...]) -> None:
    assert [rule.id for rule in rules if "`" not in rule.mitigation] == []


def test_ids_have_our_form_and_are_numbered_by_area_without_repeats(
    rules: tuple[Rule, ...],
) -> None:
    ids = [rule.id for rule in rules]

    assert [each for each in ids if not re.fullmatch(r"STW-[A-Z0-9]+-\d{4}", each)] == []
    assert len(set(ids)) == len(ids)


def test_each_rule_has_examples_that_fire_and_that_stay_silent() -> None:
    lacking = [
        str(file.parent)
        for file in FILES
        for kind in ("test.*", "test-fp.*")
        if not list(file.parent.glob(kind))
    ]

    assert lacking == []


def test_every_pattern_and_extract_compiles(rules: tuple[Rule, ...]) -> None:
    for rule in rules:
        for node in nodes_of(rule.root):
            for part in parts_of(node):
                if isinstance(part, Term):
                    compile_term(part)
            for clause in node.clauses:
                for extract in clause.extracts:
                    compile_extract(extract)


def test_what_is_joined_on_is_extracted_by_every_condition_or_known(
    rules: tuple[Rule, ...],
) -> None:
    known = {"host", "gpu", "job", "rank", "container"}
    bare = []
    for rule in rules:
        for node in nodes_of(rule.root):
            for name in set(node.correlations) - known:
                leaves = [each for each in nodes_of(node) if each.is_leaf]
                bare += [
                    f"{rule.id}: {name}"
                    for leaf in leaves
                    for clause in leaf.clauses
                    if not isinstance(clause.what, MetricTerm)
                    and name not in {extract.name for extract in clause.extracts}
                ]

    assert bare == []
