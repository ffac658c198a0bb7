"""What rules, blocks and matches promise."""

from __future__ import annotations

import numpy as np
import pytest

from steward.model.finding import Severity
from steward.model.rules import (
    Clause,
    LogBlock,
    Rule,
    RuleNode,
    RuleSeverity,
    SourceLocation,
    Stream,
    Term,
    Treatment,
)

A = Clause(what=Term(kind="value", text="a"))


def rule(**more: object) -> Rule:
    root = RuleNode(kind="set", clauses=(A,), source="cre.log.a")
    return Rule(id="CRE-1", key="k", hash="h", root=root, **more)  # type: ignore[arg-type]


def test_a_place_says_file_line_and_column() -> None:
    assert str(SourceLocation(file="rule.yaml", line=3, column=7)) == "rule.yaml:3:7"
    assert str(SourceLocation(file="rule.yaml")) == "rule.yaml"


def test_where_a_rule_is_written_does_not_make_it_another_rule() -> None:
    assert rule(place=SourceLocation(file="a.yaml")) == rule(place=SourceLocation(file="b.yaml"))


def test_a_node_with_nodes_inside_is_no_leaf() -> None:
    leaf = rule().root
    above = RuleNode(kind="sequence", clauses=(Clause(what=leaf), A), window_ns=1)

    assert leaf.is_leaf
    assert not above.is_leaf


@pytest.mark.parametrize(
    ("severity", "expected"),
    [
        (RuleSeverity.CRITICAL, Severity.FAULT),
        (RuleSeverity.MEDIUM, Severity.FAULT),
        (RuleSeverity.LOW, Severity.NOTE),
    ],
)
def test_severities_count_as_faults_down_to_medium(
    severity: RuleSeverity, expected: Severity
) -> None:
    assert rule(severity=severity).finding_severity is expected


@pytest.mark.parametrize("action", ["tell", "drain", "preempt"])
def test_what_a_rule_does_about_a_fault_does_not_make_it_waste(action: str) -> None:
    treatment = Treatment(action=action, advice="take it out")

    assert rule(treatment=treatment).finding_severity is Severity.FAULT
    low = rule(treatment=treatment, severity=RuleSeverity.LOW)
    assert low.finding_severity is Severity.NOTE


@pytest.mark.parametrize("category", ["gpu-waste", "gpu-inefficiency"])
def test_a_rule_of_a_category_of_waste_finds_waste(category: str) -> None:
    assert rule(category=category).finding_severity is Severity.WASTE


def test_a_rule_that_lends_finds_waste_whatever_its_category() -> None:
    treatment = Treatment(action="lend", advice="give it away")

    assert rule(treatment=treatment, category="training").finding_severity is Severity.WASTE


def test_severities_are_called_by_their_names() -> None:
    assert [each.word for each in RuleSeverity][:2] == ["critical", "high"]


def test_a_block_hands_out_the_text_of_an_entry() -> None:
    block = LogBlock(
        stream=Stream(name="x.log"),
        buffer=b"one\ntwo\n",
        start=np.array([0, 4]),
        end=np.array([3, 7]),
        t_ns=np.array([1, 2]),
        line=np.array([1, 2]),
        joined=np.array([False, False]),
        timed=np.array([True, True]),
    )

    assert len(block) == 2
    assert block.text(1) == b"two"
    assert dict(block.stream.attributes) == {}
