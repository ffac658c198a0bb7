"""The public corpus: what of it can be read as it is, and what needs a lenient reader."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from steward.model.rules import Rule
from steward.store.rules import Parsed, examine_rules

pytestmark = pytest.mark.data
DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))


@pytest.fixture(scope="module")
def lenient() -> Parsed:
    return examine_rules([DATA / "cre"], lenient=True)


def by_id(parsed: Parsed) -> dict[str, Rule]:
    return {rule.id: rule for rule in parsed.rules}


def test_all_rules_can_be_read_leniently(lenient: Parsed) -> None:
    folders = [each.name.upper() for each in (DATA / "cre").iterdir() if each.is_dir()]

    assert lenient.faults == ()
    assert sorted(by_id(lenient)) == sorted(folders)
    assert len(lenient.rules) == 189


def test_five_rules_have_faults_when_read_as_they_should_be() -> None:
    parsed = examine_rules([DATA / "cre"])

    assert [(each.rule, each.place.line, each.problem) for each in parsed.faults] == [
        ("CRE-2025-0069", 43, "`version` means nothing in `cre`"),
        ("CRE-2025-0080", 65, "`version` means nothing in `cre`"),
        ("CRE-2025-0082", 44, "`version` means nothing in `cre`"),
        ("CRE-2025-0099", 7, "`generation` means nothing in `cre`"),
        ("CRE-2025-0099", 38, "`version` means nothing in `cre`"),
        ("CRE-2025-0119", 81, "a rule has a set or a sequence, and this has both"),
    ]
    assert len(parsed.rules) == 184


def test_both_ways_of_reading_give_the_same_rules(lenient: Parsed) -> None:
    known = by_id(lenient)

    assert [each for each in examine_rules([DATA / "cre"]).rules if known[each.id] != each] == []


def test_of_a_set_and_a_sequence_the_sequence_is_used(lenient: Parsed) -> None:
    root = by_id(lenient)["CRE-2025-0119"].root

    assert root.kind == "sequence"
    assert [each.count for each in root.clauses] == [1, 3, 2]


def test_named_terms_are_looked_up(lenient: Parsed) -> None:
    root = by_id(lenient)["CRE-2025-0099"].root

    assert [(each.what.kind, each.count) for each in root.clauses] == [  # type: ignore[union-attr]
        ("regex", 2),
        ("regex", 1),
        ("regex", 1),
    ]
    assert [each.what.kind for each in root.negations] == ["regex"]  # type: ignore[union-attr]


def test_what_the_manifest_says_of_each_rule_is_found(lenient: Parsed) -> None:
    manifest = json.loads((DATA / "cre" / "manifest.json").read_text(encoding="utf-8"))
    rules = by_id(lenient)

    told = {
        each["cre_id"]: (each["category"], each["severity"], each["negative_terms"])
        for each in manifest["pairs"]
    }
    found = {
        name: (rule.category, int(rule.severity), len(rule.root.negations))
        for name, rule in rules.items()
    }

    assert found == told
    assert {
        each["cre_id"]: (each["positive_terms"], len(rules[each["cre_id"]].root.clauses))
        for each in manifest["pairs"]
        if each["kinds"] == [rules[each["cre_id"]].root.kind]
        and each["positive_terms"] != len(rules[each["cre_id"]].root.clauses)
    } == {}
