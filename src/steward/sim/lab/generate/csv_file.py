"""Write a trace as the plain CSV that every reader of traces understands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from steward.errors import StewardError
from steward.model.trace import Trace

__all__ = ["write_csv"]

_NAMES = {"user": "users", "tenant": "tenants", "gpu_type": "gpu_types", "model": "models"}
_AMOUNTS = ("cpus", "memory_bytes", "batch", "deadline_s", "checkpoint_s")


def write_csv(trace: Trace, path: str | Path) -> None:
    """Write all that is known; a first line says whether any of it was made up."""
    columns: dict[str, object] = {
        "job_id": list(trace.job_id),
        "submit_s": trace.submit_s,
        "duration_s": trace.duration_s,
        "gpus": trace.gpus,
    }
    for column, plural in _NAMES.items():
        words = np.array([*getattr(trace, plural), ""], object)  # -1, "none", is the last
        if len(words) > 1:
            columns[column] = list(words[getattr(trace, column)])
    for column in _AMOUNTS:
        values = getattr(trace, column)
        if not np.isnan(values).all():
            columns[column] = values
    if trace.priority.any():
        columns["priority"] = trace.priority
    if len(trace.after):
        columns["after"] = _after(trace)
    frame = pl.DataFrame(columns).with_columns(pl.col(pl.Float64).fill_nan(None))
    kind = "synthetic" if trace.synthetic else "trace"
    remark = f"# {kind}: {trace.name}; {trace.origin}".replace("\r", " ").replace("\n", " ")
    try:
        with Path(path).open("wb") as stream:
            stream.write((remark + "\n").encode())
            # all words in quotes: an id that begins with # is no remark
            frame.write_csv(stream, quote_style="non_numeric")
    except OSError as fault:
        problem = f"cannot be written: {fault.strerror}"
        raise StewardError(problem, where=str(path), hint="choose another place") from None


def _after(trace: Trace) -> list[str]:
    waits: list[list[str]] = [[] for _ in range(len(trace))]
    for job, before in trace.after.tolist():
        waits[job].append(str(trace.job_id[before]))
    return [";".join(ids) for ids in waits]
