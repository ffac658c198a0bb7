"""Values to rows and back, also across versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from factories import call_back, decision, finding, outcome
from steward.model.actions import CallBack, Lend
from steward.model.decision import Decision
from steward.model.finding import Finding
from steward.model.outcome import Interval, Outcome
from steward.store.records import (
    KINDS,
    Record,
    Row,
    UnreadableEntryError,
    _checksum,
    from_row,
    is_sound,
    to_row,
)


def changed(value: Record, **fields: Any) -> Row:
    """Return the row of a value as a steward with other fields would have written it."""
    row = to_row(value, seq=1)
    body = {name: v for name, v in {**json.loads(row.body), **fields}.items() if v is not ...}
    text = json.dumps(body)
    return row._replace(body=text, crc=_checksum(1, row.kind, row.id, row.cause, text))


def test_an_action_is_distinguished_from_another_by_its_type() -> None:
    lends = decision()
    returns = call_back(lends)

    read = [from_row(to_row(value, seq=1)).value for value in (lends, returns)]

    assert read == [lends, returns]
    assert isinstance(read[0], Decision)
    assert isinstance(read[0].action, Lend)
    assert isinstance(read[0].undo, CallBack)


def test_fields_of_a_newer_steward_are_ignored() -> None:
    row = changed(finding(), colour="green", evidence=[])

    value = from_row(row).value

    assert isinstance(value, Finding)
    assert value.title == finding().title


def test_fields_that_an_older_steward_did_not_know_take_their_defaults() -> None:
    row = changed(finding(), gpus=..., tenant=...)

    value = from_row(row).value

    assert isinstance(value, Finding)
    assert (value.gpus, value.tenant) == ((), None)


def test_an_action_that_this_version_does_not_know_is_named_not_guessed() -> None:
    row = changed(decision(), action={"type": "drain", "node": "n1"})

    with pytest.raises(UnreadableEntryError, match="cannot read this decision: action"):
        from_row(row)


def test_a_kind_that_this_version_does_not_know_is_named() -> None:
    row = to_row(finding(), seq=1)
    strange = row._replace(kind="poem", crc=_checksum(1, "poem", row.id, row.cause, row.body))

    with pytest.raises(UnreadableEntryError, match="does not know the kind 'poem'"):
        from_row(strange)


@pytest.mark.parametrize("field", ["seq", "kind", "id", "cause", "body", "crc"])
def test_the_checksum_guards_every_field(field: str) -> None:
    row = to_row(decision(), seq=7)
    value = getattr(row, field)

    other = row._replace(**{field: value + 1 if isinstance(value, int) else f"{value} "})

    assert is_sound(row)
    assert not is_sound(other)


def test_numbers_that_are_not_finite_survive() -> None:
    limits = Interval(low=float("-inf"), mid=0.1 + 0.2, high=float("inf"))
    given = outcome(gained=0.0, counterfactual=float("nan"))
    row = to_row(
        Outcome(**{**{f: getattr(given, f) for f in given.__slots__}, "gained": limits}), seq=1
    )

    value = from_row(row).value

    assert isinstance(value, Outcome)
    assert value.gained == limits
    assert value.counterfactual != value.counterfactual


def test_every_record_has_its_kind() -> None:
    assert set(KINDS.values()) == set(Record.__args__)
