# ruff: noqa: S608 - names and texts are quoted here, and the database can only read
"""The tables that SQL sees, as text: one scan per set of columns, put together by name.

Parquet files are scanned where they lie. A filter or a choice of columns reaches the scans, and
a set of columns that cannot matter is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

from steward.model.frame import ENTITY, T_S
from steward.store.files.kinds import KIND_SQL, NODE_SQL
from steward.store.files.parquet import TableSchema, columns_of
from steward.store.files.tiers import STATISTICS, Cover, extremes, metrics_of

__all__ = [
    "SPAN_KINDS",
    "labels_in",
    "quoted",
    "scan_sql",
    "text_literal",
    "tier_sql",
    "with_labels",
]

SPAN_KINDS = ("job", "run", "workload", "phase")
_SCHEMA = TableSchema()
_JOB_IN_NAME = (
    "CASE WHEN starts_with(entity, 'job:') THEN substr(entity, 5) "
    "WHEN contains(entity, '@') THEN split_part(entity, '@', 2) END"
)


def quoted(name: str) -> str:
    """Return a name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """Return a text as SQL takes it."""
    return "'" + text.replace("'", "''") + "'"


def scan_sql(
    files: Sequence[Path],
    schema: TableSchema,
    *,
    summed: bool = False,
    repeated: Set[Path] = frozenset(),
) -> str:
    """Read these files as one table, whatever columns each has; `summed` ones are a tier's.

    Rows that are in several of the `repeated` files count once.
    """
    scans = [
        _scan(group, (*schema.names, *columns), summed=summed, repeated=repeated)
        for columns, group in _by_columns(files, schema).items()
    ]
    return " UNION ALL BY NAME ".join(f"({each})" for each in scans) or _nothing(schema)


def _by_columns(files: Sequence[Path], schema: TableSchema) -> dict[tuple[str, ...], list[Path]]:
    sets: dict[tuple[str, ...], list[Path]] = {}
    for file in files:
        sets.setdefault(columns_of(file, schema), []).append(file)
    return sets


def _scan(
    files: Sequence[Path], columns: Sequence[str], *, summed: bool, repeated: Set[Path]
) -> str:
    names = [quoted(name) for name in columns]
    if summed:  # a tier leaves extremes out where they are the mean
        renamed = extremes(columns).items()
        names += [f"{quoted(old)} AS {quoted(new)}" for new, old in renamed if old != new]
    once = [file for file in files if file not in repeated]
    twice = [file for file in files if file in repeated]
    return " UNION ALL ".join(
        f"SELECT {distinct}{', '.join(names)} FROM read_parquet([{_listed(some)}], "
        "hive_partitioning = false)"
        for distinct, some in (("", once), ("DISTINCT ", twice))
        if some
    )


def _listed(files: Iterable[Path]) -> str:
    return ", ".join(text_literal(str(file)) for file in files)


def _nothing(schema: TableSchema) -> str:
    kinds = {"Float64": "DOUBLE", "String": "VARCHAR", "Int64": "BIGINT"}
    columns = (f"NULL::{kinds[str(kind)]} AS {quoted(name)}" for name, kind in schema.fixed)
    return f"SELECT {', '.join(columns)} WHERE false"


def tier_sql(known: Cover, step_s: int, repeated: Set[Path] = frozenset()) -> str:
    """Return the SQL of a tier; what its files lack is computed from the tiers below."""
    *below, mine = known.levels
    partitions = [scan_sql(mine, _SCHEMA, summed=True)] if mine else []
    for level, files in enumerate(below):
        summed = level > 0
        for columns, group in _by_columns(files, _SCHEMA).items():
            metrics = metrics_of(columns) if summed else list(columns)
            values = [each for name in metrics for each in _statistics(name, summed=summed)]
            picked = ", ".join([f"floor({T_S} / {step_s}) * {step_s} AS {T_S}", ENTITY, *values])
            names = (T_S, ENTITY, *columns)
            scanned = _scan(group, names, summed=summed, repeated=repeated)
            partitions.append(f"SELECT {picked} FROM ({scanned}) GROUP BY 1, 2")
    return " UNION ALL BY NAME ".join(f"({part})" for part in partitions) or _nothing(_SCHEMA)


def _statistics(name: str, *, summed: bool) -> list[str]:
    low, high, mean, count = (quoted(f"{name}.{each}") for each in STATISTICS)
    if not summed:
        value = quoted(name)
        return [
            f"min({value}) AS {low}",
            f"max({value}) AS {high}",
            f"avg({value}) AS {mean}",
            f"count({value})::DOUBLE AS {count}",
        ]
    return [
        f"min({low}) AS {low}",
        f"max({high}) AS {high}",
        f"sum({mean} * {count}) / nullif(sum({count}), 0) AS {mean}",
        f"sum({count}) AS {count}",
    ]


def labels_in(sql: str) -> tuple[str, ...]:
    """Return which labels a question can mean: joining spans for those that it cannot is waste."""
    stripped = re.sub(r"count\s*\(\s*\*\s*\)", "", sql, flags=re.IGNORECASE)
    if re.search(
        r"\*|\bcolumns\s*\(|\b(describe|summarize)\b|(^|\()\s*from\b", stripped, re.IGNORECASE
    ):
        return SPAN_KINDS
    return tuple(kind for kind in SPAN_KINDS if re.search(rf"\b{kind}\b", stripped, re.IGNORECASE))


def with_labels(base: str, joins: Mapping[str, tuple[bool, bool]]) -> str:
    """Add node, kind, and whose each row was; `joins` has the spans of each kind.

    A pair: whether some spans name an entity exactly, and whether some cover a whole node.
    """
    columns, joined = ["b.*", f"{NODE_SQL} AS node", f"{KIND_SQL} AS kind"], []
    for kind in SPAN_KINDS:
        exact, whole = joins.get(kind, (False, False))
        found = [_JOB_IN_NAME] if kind == "job" else []
        for wanted, key, table in (
            (exact, "b.entity", f"{kind}_e"),
            (whole, "regexp_extract(b.entity, '^([^/@]+)/', 1) || '/*'", f"{kind}_w"),
        ):
            if wanted:
                spans = quoted(f"segments {kind}")
                on = f"{key} = {table}.key AND b.{T_S} >= {table}.from_s"
                joined.append(f"ASOF LEFT JOIN {spans} {table} ON {on}")
                found.append(f"CASE WHEN b.{T_S} < {table}.to_s THEN {table}.name END")
        text = f"coalesce({', '.join([*found, 'NULL'])})::VARCHAR" if found else "NULL::VARCHAR"
        columns.append(f"{text} AS {kind}")
    picked = ", ".join(columns).replace("(entity", "(b.entity")
    return f"SELECT {picked} FROM ({base}) b {' '.join(joined)}"
