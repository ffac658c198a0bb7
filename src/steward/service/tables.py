"""What pages show, as plain tables: for CSV, and for whoever searches."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from steward.errors import unknown_name
from steward.service.live_state import StateSnapshot

__all__ = ["TABLES", "Cell", "SearchHit", "Table", "as_csv", "search"]

Cell = str | int | float | None
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # what spreadsheets would run
MOST_HITS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns, and the rows of one moment."""

    columns: tuple[str, ...]
    rows: Callable[[StateSnapshot], Iterator[tuple[Cell, ...]]]


def _jobs(snapshot: StateSnapshot) -> Iterator[tuple[Cell, ...]]:
    for job in snapshot.cluster.running:
        row = (job.id, job.name, job.user, job.tenant, "running", job.gpus)
        yield (*row, " ".join(job.nodes), job.ran_s, job.time_limit_s)
    for waiting in snapshot.cluster.queue:
        row = (waiting.id, waiting.name, waiting.user, waiting.tenant, "queued", waiting.gpus)
        yield (*row, "", waiting.waiting_s, waiting.time_limit_s)


def _gpus(snapshot: StateSnapshot) -> Iterator[tuple[Cell, ...]]:
    for gpu in snapshot.cluster.gpus:
        row = (gpu.id, gpu.node, gpu.model, gpu.state.value, gpu.health.value, gpu.busy_share)
        owners = (gpu.owner, gpu.tenant, gpu.borrower, gpu.borrower_tenant)
        yield (*row, *owners, gpu.idle_s, gpu.power_watts, gpu.memory_used_bytes, gpu.memory_bytes)


def _nodes(snapshot: StateSnapshot) -> Iterator[tuple[Cell, ...]]:
    for node in snapshot.cluster.nodes:
        held = sum(gpu.owner is not None for gpu in node.gpus)
        yield (node.id, len(node.gpus), held, "yes" if node.draining else "no")


def _tenants(snapshot: StateSnapshot) -> Iterator[tuple[Cell, ...]]:
    for each in snapshot.cluster.tenants:
        counts = (each.held, each.borrowed, each.waiting, each.fair_share)
        yield (each.id, each.weight, each.guaranteed, *counts)


def _findings(snapshot: StateSnapshot) -> Iterator[tuple[Cell, ...]]:
    for each in snapshot.findings:
        is_open = "yes" if each.id in snapshot.open_findings else "no"
        about = (each.subject, each.job, each.tenant)
        yield (each.id, each.t_s, each.severity.value, each.rule, each.title, *about, is_open)


def _decisions(snapshot: StateSnapshot) -> Iterator[tuple[Cell, ...]]:
    for each in snapshot.stories:
        made, gained = each.story.decision, each.story.gained
        what = (made.action.type, made.action.sentence, made.because)
        yield (made.id, made.t_s, each.state.value, made.policy, made.tenant, *what, gained)


def _rules(snapshot: StateSnapshot) -> Iterator[tuple[Cell, ...]]:
    for each in snapshot.rules:
        severity = None if each.severity is None else each.severity.value
        yield (each.id, each.title, severity, each.standing.state.value)


def _savings(snapshot: StateSnapshot) -> Iterator[tuple[Cell, ...]]:
    for each in snapshot.kinds:
        figures = (each.gpu_hours, each.cost, each.energy_kwh, each.co2_kg, each.waiting_hours)
        values = [part for figure in figures for part in (figure.low, figure.mid, figure.high)]
        yield (each.kind, each.decisions, each.outcomes, *values)


def _ranges(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}_{part}" for name in names for part in ("low", "mid", "high"))


TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "jobs": Table(
            columns=(
                "id",
                "name",
                "user",
                "tenant",
                "state",
                "gpus",
                "nodes",
                "state_s",
                "time_limit_s",
            ),
            rows=_jobs,
        ),
        "gpus": Table(
            columns=(
                "id",
                "node",
                "model",
                "state",
                "health",
                "busy_share",
                "owner",
                "tenant",
                "borrower",
                "borrower_tenant",
                "idle_s",
                "power_watts",
                "memory_used_bytes",
                "memory_bytes",
            ),
            rows=_gpus,
        ),
        "nodes": Table(columns=("id", "gpus", "held", "draining"), rows=_nodes),
        "tenants": Table(
            columns=("id", "weight", "guaranteed", "held", "borrowed", "waiting", "fair_share"),
            rows=_tenants,
        ),
        "findings": Table(
            columns=(
                "id",
                "t_s",
                "severity",
                "rule",
                "title",
                "subject",
                "job",
                "tenant",
                "open",
            ),
            rows=_findings,
        ),
        "decisions": Table(
            columns=(
                "id",
                "t_s",
                "state",
                "policy",
                "tenant",
                "action",
                "sentence",
                "because",
                "gained_gpu_s",
            ),
            rows=_decisions,
        ),
        "rules": Table(columns=("id", "title", "severity", "state"), rows=_rules),
        "savings": Table(
            columns=(
                "kind",
                "decisions",
                "outcomes",
                *_ranges("gpu_hours", "cost", "energy_kwh", "co2_kg", "waiting_hours"),
            ),
            rows=_savings,
        ),
    }
)


def as_csv(name: str, snapshot: StateSnapshot, tables: Mapping[str, Table] = TABLES) -> str:
    """Return a table as CSV. Text that a spreadsheet would take for a formula is quoted by `'`."""
    table = tables.get(name)
    if table is None:
        raise unknown_name("table", name, tables, where="path.table")
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(table.columns)
    writer.writerows([_safe(cell) for cell in row] for row in table.rows(snapshot))
    return out.getvalue()


def _safe(cell: Cell) -> Cell:
    if cell is None:
        return ""
    if isinstance(cell, str) and cell.startswith(_FORMULAS):
        return f"'{cell}"
    return cell


# -- searching -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """One thing that was found, and where it is shown."""

    kind: str
    id: str
    text: str
    path: str


_PATHS = {
    "jobs": "/jobs/{}",
    "gpus": "/gpus/{}",
    "nodes": "/nodes/{}",
    "tenants": "/",
    "findings": "/findings/{}",
    "decisions": "/decisions/{}",
    "rules": "/rules/{}",
}


def search(words: str, snapshot: StateSnapshot, *, job_pages: bool = True) -> tuple[SearchHit, ...]:
    """Return what has all words in one row of a table; what is called so exactly comes first.

    Without `job_pages`, jobs have no page of their own: another engine has them.
    """
    paths = _PATHS if job_pages else {**_PATHS, "jobs": "/jobs"}
    wanted = words.casefold().split()
    if not wanted:
        return ()
    found = [
        hit
        for kind, path in paths.items()
        for hit in _hits(kind, path, TABLES[kind].rows(snapshot), wanted)
    ]
    found.sort(key=lambda hit: (hit.id.casefold() != words.strip().casefold(), hit.kind))
    return tuple(found[:MOST_HITS])


def _hits(
    kind: str, path: str, rows: Iterable[tuple[Cell, ...]], wanted: list[str]
) -> Iterator[SearchHit]:
    for row in rows:
        texts = [cell for cell in row if isinstance(cell, str)]
        text = " ".join(texts)
        folded = text.casefold()
        if all(word in folded for word in wanted):
            rest = " · ".join(each for each in texts[1:] if each)
            yield SearchHit(kind=kind, id=texts[0], text=rest, path=path.format(texts[0]))
