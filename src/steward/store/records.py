"""How a value of the model becomes a row of the journal, and a row becomes a value again.

The body is JSON. Fields that a newer steward added are ignored, fields that an older one did not
know take their defaults. The checksum covers all that identifies the row, so that neither the body
nor its place can change unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, assert_never, cast
from zlib import crc32

import sqlalchemy as sa
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError
from sqlalchemy import event

from steward.errors import StewardError
from steward.model.decision import Choice, Decision, Receipt, StandingApproval, Verdict
from steward.model.event import Event
from steward.model.finding import Finding, Opinion, Pattern, Recurrence
from steward.model.identity import stable_id
from steward.model.outcome import Outcome

__all__ = [
    "APPLICATION_ID",
    "ENTRIES",
    "KINDS",
    "META",
    "SCHEMA_VERSION",
    "TABLES",
    "JournalEntry",
    "Record",
    "Row",
    "UnreadableEntryError",
    "from_row",
    "is_sound",
    "to_row",
]

SCHEMA_VERSION = 1
APPLICATION_ID = 0x53545744  # "STWD": marks a SQLite file as a journal

Record = (
    Event
    | Finding
    | Recurrence
    | Opinion
    | Pattern
    | Decision
    | Verdict
    | Choice
    | StandingApproval
    | Receipt
    | Outcome
)

KINDS = MappingProxyType(
    {
        "event": Event,
        "finding": Finding,
        "recurrence": Recurrence,
        "opinion": Opinion,
        "pattern": Pattern,
        "decision": Decision,
        "verdict": Verdict,
        "choice": Choice,
        "approval": StandingApproval,
        "receipt": Receipt,
        "outcome": Outcome,
    }
)
_KIND_OF = {type_: kind for kind, type_ in KINDS.items()}

# Not every number of the model is finite, and JSON's `null` would lose which one it was. pydantic
# takes a configuration only for types that could not carry their own, hence the `| None`.
_EXACT = ConfigDict(ser_json_inf_nan="constants")
_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    kind: TypeAdapter[Any](cast("Any", type_ | None), config=_EXACT)
    for kind, type_ in KINDS.items()
}


class Row(NamedTuple):
    """One line of the table `entries`, in the order of its columns."""

    seq: int
    t_s: float
    kind: str
    id: str
    cause: str
    body: str
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One value with its place in the journal. A larger `seq` was written later."""

    seq: int
    t_s: float
    kind: str
    id: str
    cause: str
    value: Record


class UnreadableEntryError(Exception):
    """A row that must not be used, with the reason."""


def is_sound(row: Row) -> bool:
    """Return True if a row is as it was written."""
    return row.crc == _checksum(row.seq, row.kind, row.id, row.cause, row.body)


def _checksum(seq: int, kind: str, id_: str, cause: str, body: str) -> int:
    return crc32(f"{seq}\x1f{kind}\x1f{id_}\x1f{cause}\x1f{body}".encode())


def to_row(value: Record, *, seq: int) -> Row:
    """Write one value down. Raises `StewardError` for text that no file can hold."""
    kind = _KIND_OF[type(value)]
    try:
        id_, cause = _names_of(value)
        body = _ADAPTERS[kind].serializer.to_json(value).decode()
    except (PydanticSerializationError, UnicodeEncodeError) as fault:
        raise StewardError(
            f"a {kind} of t_s {value.t_s} cannot be written as JSON: {fault}",
            where="journal",
            hint="its producer has to decode text with errors='replace'",
        ) from fault
    if value.t_s != value.t_s or "\0" in id_ + cause:
        raise StewardError(
            f"a {kind} with id {id_!r}, cause {cause!r} and t_s {value.t_s} cannot be kept",
            where="journal",
            hint="t_s is a number of seconds, and ids hold no NUL characters",
        )
    crc = _checksum(seq, kind, id_, cause, body)
    return Row(seq, value.t_s, kind, id_, cause, body, crc)


def from_row(row: Row) -> JournalEntry:
    """Read one value back, or raise `UnreadableEntryError`."""
    if not is_sound(row):
        raise UnreadableEntryError("its checksum does not match")
    if row.kind not in _ADAPTERS:
        raise UnreadableEntryError(f"this version does not know the kind '{row.kind}'")
    try:
        value: Record = _ADAPTERS[row.kind].validate_json(row.body)
    except ValidationError as fault:
        first = fault.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UnreadableEntryError(
            f"this version cannot read this {row.kind}: {place}: {first['msg']}"
        ) from fault
    return JournalEntry(
        seq=row.seq, t_s=value.t_s, kind=row.kind, id=row.id, cause=row.cause, value=value
    )


def _names_of(value: Record) -> tuple[str, str]:
    """Return a value's id and the id of its cause."""
    match value:
        case Decision():
            return value.id, value.findings[0] if value.findings else ""
        case Finding() | Pattern() | StandingApproval():
            return value.id, ""
        case Event():
            parts = (value.kind, value.subject, value.t_s, value.source, value.text)
            return stable_id("event", *parts), ""
        case Recurrence() | Opinion():
            return _of_finding(value), value.finding
        case _:
            return _of_decision(value), value.decision


def _of_finding(value: Recurrence | Opinion) -> str:
    if isinstance(value, Recurrence):
        return stable_id("recurrence", value.finding, value.from_s, value.t_s)
    return stable_id("opinion", value.finding, value.t_s, value.opinion, value.user)


def _of_decision(value: Verdict | Choice | Receipt | Outcome) -> str:
    match value:
        case Verdict():
            return stable_id("verdict", value.decision, value.t_s, value.ruling.value)
        case Choice():
            return stable_id("choice", value.decision, value.t_s, value.choice, value.user)
        case Receipt():
            return stable_id("receipt", value.decision, value.t_s, value.result)
        case Outcome():
            return _of_outcome(value)
        case _:
            assert_never(value)


def _of_outcome(value: Outcome) -> str:
    parts = (value.decision, value.t_s, value.from_s, value.to_s)
    return stable_id("outcome", *parts, *(("effect",) if value.effect is not None else ()))


TABLES = sa.MetaData()
ENTRIES = sa.Table(
    "entries",
    TABLES,
    sa.Column(
        "seq",
        sa.BigInteger().with_variant(sa.Integer, "sqlite"),
        primary_key=True,
        autoincrement=False,
    ),
    sa.Column("t_s", sa.Double, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("cause", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("crc", sa.BigInteger, nullable=False),
    sa.Index("entries_kind_seq", "kind", "seq"),
    sa.Index("entries_cause", "cause"),
    sa.Index("entries_id", "id"),
)
META = sa.Table(
    "entries_meta",
    TABLES,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

_GUARDS = {
    "sqlite": [
        f"PRAGMA application_id = {APPLICATION_ID}",
        """CREATE TRIGGER entries_refuse_update BEFORE UPDATE ON entries
           BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END""",
        """CREATE TRIGGER entries_refuse_delete BEFORE DELETE ON entries
           BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END""",
    ],
    "postgresql": [
        """CREATE OR REPLACE FUNCTION entries_refuse() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$""",
        """CREATE TRIGGER entries_refuse_change BEFORE UPDATE OR DELETE ON entries
           FOR EACH ROW EXECUTE FUNCTION entries_refuse()""",
        """CREATE TRIGGER entries_refuse_truncate BEFORE TRUNCATE ON entries
           FOR EACH STATEMENT EXECUTE FUNCTION entries_refuse()""",
    ],
}


@event.listens_for(ENTRIES, "after_create")
def _make_append_only(_table: sa.Table, connection: sa.Connection, **_: object) -> None:
    for statement in _GUARDS[connection.dialect.name]:
        connection.exec_driver_sql(statement)
