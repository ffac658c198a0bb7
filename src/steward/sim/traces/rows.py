"""From a sheet to a trace: every row is checked, and what is left out or mended is counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.trace import RowFault, Trace
from steward.sim.traces import dependencies
from steward.sim.traces.source import Sheet
from steward.sim.traces.table import ROW, collected
from steward.sim.traces.times import from_start

__all__ = ["build"]

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NAMES = {"tenant": "tenants", "user": "users", "gpu_type": "gpu_types", "model": "models"}
AMOUNTS = (
    *("cpus", "memory_bytes", "batch", "deadline_s", "checkpoint_s", "time_limit_s", "wait_s"),
    "cut_off",
)
LONGEST_S = 100 * 365 * 86400.0
_EXAMPLES = 3


def build(sheet: Sheet) -> Trace:
    """Check all rows and build the trace; raise where nothing usable remains."""
    frame = collected(_plan(sheet), where=sheet.origin)
    ledger = _Ledger(rows=frame[ROW].to_numpy())
    for i, (reason, _) in enumerate(sheet.leave_out):
        ledger.leave(reason, frame[f"_out{i}"].fill_null(value=False).to_numpy())
    submit_s, duration_s, gpus = _essentials(sheet, frame, ledger)
    ids = _ids(sheet, frame, ledger)
    pairs = _pairs(frame, ids, ledger)
    if not ledger.kept.any():
        raise _nothing(sheet, ledger)
    for i, (reason, _) in enumerate(sheet.mended):
        ledger.mend(reason, frame[f"_mended{i}"].fill_null(value=False).to_numpy())
    amounts = {column: _amount(frame, column, ledger) for column in AMOUNTS}
    priority = _whole(frame, ledger)
    kept = np.flatnonzero(ledger.kept)
    if not np.all(np.diff(submit_s[kept]) >= 0):
        kept = kept[np.argsort(submit_s[kept], kind="stable")]
    everything = len(kept) == len(ledger.kept) and bool(np.all(np.diff(kept) == 1))
    rows: slice | Ints = slice(None) if everything else kept
    columns = {"submit_s": submit_s, "duration_s": duration_s, "gpus": gpus, "priority": priority}
    chosen: dict[str, Any] = {name: values[rows] for name, values in (columns | amounts).items()}
    chosen["submit_s"] = chosen["submit_s"] - chosen["submit_s"][0] * sheet.own_start
    chosen["start_s"] = chosen["submit_s"] + chosen.pop("wait_s")  # as it was recorded
    return Trace(
        name=sheet.name,
        origin=sheet.origin,
        synthetic=sheet.synthetic,
        job_id=_labels(sheet, ids, kept),
        after=_placed(pairs, kept, len(ledger.kept)),
        faults=ledger.faults(sheet),
        **chosen,
        **_names(frame, kept),
    )


def _plan(sheet: Sheet) -> pl.LazyFrame:
    flags = [which.alias(f"_out{i}") for i, (_, which) in enumerate(sheet.leave_out)]
    flags += [which.alias(f"_mended{i}") for i, (_, which) in enumerate(sheet.mended)]
    if sheet.zoned is not None:
        flags.append(sheet.zoned.alias("_zoned"))
    return sheet.rows.select(ROW, *(e.alias(c) for c, e in sheet.cells.items()), *flags)


@dataclass(slots=True)
class _Ledger:
    """Which rows are still in, and what was said about the others. The first reason counts."""

    rows: Ints
    kept: Mask = field(init=False)
    said: list[tuple[str, bool, Ints]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kept = np.ones(len(self.rows), np.bool_)

    def leave(self, reason: str, which: Mask) -> None:
        now = which & self.kept
        if now.any():
            self.said.append((reason, False, self.rows[now]))
            self.kept &= ~which

    def mend(self, reason: str, which: Mask) -> None:
        now = which & self.kept
        if now.any():
            self.said.append((reason, True, self.rows[now]))

    def faults(self, sheet: Sheet) -> tuple[RowFault, ...]:
        shown = {reason: [int(r) for r in rows[:_EXAMPLES]] for reason, _, rows in self.said}
        lines = sheet.lines(sorted({r for rows in shown.values() for r in rows})) if shown else {}
        return sheet.notes + tuple(
            RowFault(
                reason=reason,
                rows=len(rows),
                kept=kept,
                examples=tuple(lines[r] for r in shown[reason] if r in lines),
            )
            for reason, kept, rows in self.said
        )


def _numbers(frame: pl.DataFrame, column: str, ledger: _Ledger) -> Floats:
    """Return a needed column; rows where it is missing or no number are left out."""
    cells = frame[column]
    ledger.leave(f"{column} is missing", cells.is_null().to_numpy())
    values: Floats = cells.fill_null(0.0).to_numpy()
    ledger.leave(f"{column} is no number", np.isnan(values))
    return values


def _essentials(
    sheet: Sheet, frame: pl.DataFrame, ledger: _Ledger
) -> tuple[Floats, Floats, Floats]:
    submit_s = _numbers(frame, "submit_s", ledger)
    duration_s = _numbers(frame, "duration_s", ledger)
    ledger.leave("duration_s is negative", duration_s < 0)
    ledger.leave("duration_s is 0: it never ran", duration_s == 0)
    ledger.leave("duration_s is more than 100 years: another unit?", duration_s > LONGEST_S)
    gpus = _numbers(frame, "gpus", ledger)
    ledger.leave("gpus is negative", gpus < 0)
    if sheet.cpu_jobs:
        ledger.mend("asks for no GPU: kept as a CPU job", gpus == 0)
    else:
        ledger.leave("gpus is 0: a CPU job", gpus == 0)
    broken = (gpus > 1) & (gpus != np.floor(gpus))
    ledger.mend("gpus is above 1 and not whole: rounded up", broken)
    gpus = np.where(broken, np.ceil(gpus), gpus)
    zoned = frame["_zoned"].fill_null(value=False).to_numpy() if "_zoned" in frame.columns else None
    submit_s = from_start(submit_s, zoned, kept=ledger.kept, leave=ledger.leave, mend=ledger.mend)
    return submit_s, duration_s, gpus


def _ids(sheet: Sheet, frame: pl.DataFrame, ledger: _Ledger) -> pl.Series:
    if "job_id" not in sheet.cells:
        return frame[ROW].cast(pl.String)
    ids = frame["job_id"]
    nameless = ids.is_null()
    ledger.mend("job_id is missing: the place of the row is its id", nameless.to_numpy())
    if nameless.any():
        ids = pl.Series(
            frame[ROW]
            .cast(pl.String)
            .to_frame()
            .select(pl.when(nameless).then(pl.first()).otherwise(ids).alias("job_id"))["job_id"]
        )
    # a bad row must not push out a good one with the same id
    usable = pl.Series(ledger.kept)
    again = np.zeros(len(ids), np.bool_)
    again[ledger.kept] = (~ids.filter(usable).is_first_distinct()).to_numpy()
    ledger.leave("job_id is there twice: the first counts", again)
    return ids


def _pairs(frame: pl.DataFrame, ids: pl.Series, ledger: _Ledger) -> Ints:
    """Return who waits for whom, as places in the frame; rings are left out."""
    if "after" not in frame.columns or frame["after"].is_null().all():
        return np.empty((0, 2), np.int64)
    kept = np.flatnonzero(ledger.kept)
    found = dependencies.resolve(ids.gather(kept), frame["after"].gather(kept))
    unknown, ring = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.bool_)
    unknown[kept], ring[kept] = found.unknown, found.in_ring
    named = ", ".join(ids.filter(pl.Series(ring)).head(10))
    ledger.leave(f"after goes in a ring ({named}): none of them could start", ring)
    ledger.mend("after names a job that is not in the trace: does not wait for it", unknown)
    return kept[found.pairs]


def _placed(pairs: Ints, kept: Ints, n: int) -> Ints:
    place = np.full(n, -1, np.int64)
    place[kept] = np.arange(len(kept))
    return place[pairs]


def _amount(frame: pl.DataFrame, column: str, ledger: _Ledger) -> Floats:
    """Return a column that may be unknown; what makes no sense is unknown, and said."""
    if column not in frame.columns:
        return np.full(len(frame), np.nan)
    given = frame[column].is_not_null().to_numpy()
    values = frame[column].cast(pl.Float64).fill_null(np.nan).to_numpy()
    wrong = given & ~(values >= 0)
    ledger.mend(f"{column} is negative or no number: taken as unknown", wrong)
    return np.where(wrong, np.nan, values)


def _whole(frame: pl.DataFrame, ledger: _Ledger) -> Ints:
    if "priority" not in frame.columns:
        return np.zeros(len(frame), np.int64)
    values = frame["priority"].cast(pl.Float64).fill_null(0.0).to_numpy()
    wrong = ~(np.abs(values) <= 2.0**53)
    ledger.mend("priority is no number: taken as 0", wrong)
    return np.rint(np.where(wrong, 0.0, values)).astype(np.int64)


def _names(frame: pl.DataFrame, kept: Ints) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for column, plural in NAMES.items():
        if column not in frame.columns:
            columns |= {column: np.full(len(kept), -1, np.int64), plural: ()}
            continue
        words = frame[column].gather(kept)
        known = words.drop_nulls().unique(maintain_order=True)
        codes = words.cast(pl.Enum(known)).to_physical().cast(pl.Int64).fill_null(-1)
        columns |= {column: codes.to_numpy(), plural: tuple(known)}
    return columns


def _labels(sheet: Sheet, ids: pl.Series, kept: Ints) -> NDArray[np.object_]:
    if sheet.own_start:
        return np.array([str(i) for i in range(len(kept))], object)
    labels: NDArray[np.object_] = ids.gather(kept).to_numpy().astype(object)
    return labels


def _nothing(sheet: Sheet, ledger: _Ledger) -> StewardError:
    told = "; ".join(
        f"{fault.reason} ({fault.rows} rows{', ' + fault.examples[0] if fault.examples else ''})"
        for fault in ledger.faults(sheet)
        if not fault.kept
    )
    problem = f"no row can be used: {told}" if told else "there are no job rows"
    return StewardError(problem, where=sheet.origin, hint="docs/traces.md says what a row needs")
