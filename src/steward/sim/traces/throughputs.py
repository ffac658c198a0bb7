"""Measured training rates by job type, GPU type and size, in the layout of Gavel's tables.

`throughputs_solo.csv.gz` has the jobs alone, `throughputs_pairs.csv.gz` two on the same GPUs (0
is "does not fit"). A type ending in `_unconsolidated` is that type with GPUs in several servers.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from steward.errors import StewardError
from steward.model.throughput import ThroughputTable, throughputs_of

__all__ = ["read_throughputs"]

_APART = "_unconsolidated"
_SOLO = ("worker_type", "job_type", "scale_factor", "steps_per_s")
_PAIRS = (
    "worker_type",
    "job_type_a",
    "scale_factor_a",
    "job_type_b",
    "scale_factor_b",
    "steps_per_s_a",
    "steps_per_s_b",
)


def read_throughputs(folder: Path, *, reference: str = "v100") -> ThroughputTable:
    """Read the tables of a folder; `reference` is the type for which durations are stated."""
    solo = _rows(folder / "throughputs_solo.csv.gz", _SOLO)
    types = {str(kind).removesuffix(_APART) for kind, *_ in solo.iter_rows()}
    if reference not in types:
        problem = f"has no rates for {reference}; there are: {', '.join(sorted(types))}"
        raise StewardError(problem, where=str(folder), hint="name one of these as the reference")
    path = folder / "throughputs_pairs.csv.gz"
    pairs = _rows(path, _PAIRS) if path.exists() else pl.DataFrame(schema=list(_PAIRS))
    return throughputs_of(
        folder.name,
        solo=[
            (kind.removesuffix(_APART), model, int(size), float(rate), not kind.endswith(_APART))
            for kind, model, size, rate in solo.iter_rows()
        ],
        pairs=[
            (kind, (one, int(size)), (other, int(other_size)), float(rate), float(other_rate))
            for kind, one, size, other, other_size, rate, other_rate in pairs.iter_rows()
            if not kind.endswith(_APART)
        ],
        reference=reference,
    )


def _rows(path: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    if not path.exists():
        hint = "a folder of rates has throughputs_solo.csv.gz, and may have throughputs_pairs"
        raise StewardError("the table of rates is not there", where=str(path), hint=hint)
    table = pl.read_csv(path, infer_schema_length=None)
    lacking = [column for column in columns if column not in table.columns]
    if lacking:
        problem = f"lacks {', '.join(lacking)}; it has: {', '.join(table.columns)}"
        raise StewardError(problem, where=str(path), hint=f"needed: {', '.join(columns)}")
    return table.select(columns)
