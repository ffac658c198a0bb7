"""The schema and the reference agree with the parser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from jsonschema_rs import Draft202012Validator  # comes with schemathesis

from rule_texts import EVERYTHING, problems
from steward.store.rules import rule_schema
from steward.store.rules.language.fields import MAPPINGS, FieldKind

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "rules.md"


def test_a_rule_with_every_field_fits_the_schema() -> None:
    validator = Draft202012Validator(rule_schema())

    found = [each.message for each in validator.iter_errors(yaml.safe_load(EVERYTHING))]

    assert found == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("severity: 2", "severty: 2"),
        ("severity: 2", "severity: '2'"),
        ("action: lend", "action: lnd"),
        ("window: 1m30s", "window: 1d"),
        ("- killed", "- {value: killed, regex: killed}"),
        ("expr: gpu_util < 0.3", "exp: gpu_util < 0.3"),
    ],
)
def test_what_the_parser_refuses_does_not_fit_the_schema(old: str, new: str) -> None:
    wrong = yaml.safe_load(EVERYTHING.replace(old, new))

    assert not Draft202012Validator(rule_schema()).is_valid(wrong)
    assert problems(EVERYTHING.replace(old, new))


def test_every_mapping_that_a_field_names_is_in_the_table() -> None:
    fields = [each for shape in MAPPINGS.values() for each in shape.fields.values()]
    inside = {each.shape for each in fields if each.shape}

    assert inside <= set(MAPPINGS)
    assert set(MAPPINGS) - inside == {"document"}
    assert all(bool(each.choices) == (each.kind is FieldKind.CHOICE) for each in fields)


@pytest.mark.parametrize("name", MAPPINGS)
def test_every_field_is_in_the_reference_under_its_heading(name: str) -> None:
    text = REFERENCE.read_text(encoding="utf-8")

    part = re.split(r"^## ", text, flags=re.MULTILINE)
    section = next(each for each in part if each.partition("\n")[0] == name)

    assert [field for field in MAPPINGS[name].fields if f"| `{field}` |" not in section] == []
