"""Microsoft Philly: the cleaned table of the data folder, and the raw `cluster_job_log`.

In the raw log a job's duration is the sum of its attempts, its GPUs those of the last attempt.
"""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from steward.errors import StewardError
from steward.model.trace import Trace
from steward.sim.traces.cells import iso_s, number, text
from steward.sim.traces.formats.assemble import trace_from
from steward.sim.traces.rows import build
from steward.sim.traces.selection import picked
from steward.sim.traces.source import Sheet, TraceHead, TraceReader, TraceSource
from steward.sim.traces.table import ROW, open_bytes, read_table

__all__ = ["PHILLY", "PHILLY_LOG"]

_COLUMNS = ("job_id", "submit_s", "duration_s", "num_gpus", "vc")


def read_philly(source: TraceSource) -> Trace:
    """Read the table. One virtual cluster alone counts its time and its ids from its first job."""
    table = read_table(source.path)
    return trace_from(
        table,
        source,
        reader="philly",
        rows=picked(table, source),
        cells={
            "job_id": text("job_id"),
            "submit_s": number("submit_s"),
            "duration_s": number("duration_s"),
            "gpus": number("num_gpus"),
            "tenant": text("vc"),
        },
        own_start="vc" in source.picks,
    )


def read_log(source: TraceSource) -> Trace:
    """Read the raw log: a JSON list of jobs with their attempts."""
    where = str(source.path)
    try:
        with open_bytes(source.path) as stream:
            jobs = json.load(stream)
    except (ValueError, OSError, EOFError, RecursionError) as fault:
        raise StewardError(f"is no JSON: {fault}", where=where, hint="is it whole?") from None
    if not isinstance(jobs, list):
        raise StewardError("holds no list of jobs", where=where, hint="see docs/traces.md")
    rows = [_row(place, job) for place, job in enumerate(jobs[: source.limit])]
    wanted = source.picks.get("vc")
    rows = [row for row in rows if wanted is None or row["vc"] == wanted]
    frame = pl.DataFrame(rows, schema=_LOG_COLUMNS)
    return build(
        Sheet(
            name=source.name,
            origin=f"{where}, read as philly-log",
            rows=frame.lazy(),
            cells={
                "job_id": text("jobid"),
                "submit_s": iso_s("submitted_time"),
                "duration_s": pl.col("ran_s"),
                "gpus": pl.col("gpus"),
                "tenant": text("vc"),
                "user": text("user"),
            },
            zoned=pl.lit(value=False),
            leave_out=(
                ("the entry is no job", pl.col("jobid").is_null()),
                ("no attempt was recorded: it never ran", pl.col("attempts") == 0),
                ("no attempt has both a start and an end", pl.col("ran_s").is_null()),
            ),
            mended=(("an attempt without start or end is not counted", pl.col("open") > 0),),
            lines=lambda places: {i: f"job {i + 1}: {_said(jobs[i])}" for i in places},
        )
    )


_LOG_COLUMNS: dict[str, pl.DataType] = {
    ROW: pl.Int64(),
    "jobid": pl.String(),
    "vc": pl.String(),
    "user": pl.String(),
    "submitted_time": pl.String(),
    "attempts": pl.Int64(),
    "open": pl.Int64(),
    "ran_s": pl.Float64(),
    "gpus": pl.Float64(),
}


def _row(place: int, job: object) -> dict[str, Any]:
    if not isinstance(job, dict):
        return dict.fromkeys(_LOG_COLUMNS) | {ROW: place}
    listed = job.get("attempts")
    attempts = [a for a in listed if isinstance(a, dict)] if isinstance(listed, list) else []
    spans = [_ran_s(attempt) for attempt in attempts]
    known = [span for span in spans if span is not None]
    return {
        ROW: place,
        **{key: _word(job.get(key)) for key in ("jobid", "vc", "user", "submitted_time")},
        "attempts": len(attempts),
        "open": len(spans) - len(known),
        "ran_s": sum(known) if known else None,
        "gpus": float(_gpus(attempts[-1])) if attempts else None,
    }


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def _ran_s(attempt: dict[str, Any]) -> float | None:
    ends = pl.DataFrame(
        {key: [_word(attempt.get(key))] for key in ("start_time", "end_time")},
        schema={"start_time": pl.String, "end_time": pl.String},
    )
    start, end = ends.select(iso_s("start_time"), iso_s("end_time")).row(0)
    return end - start if start is not None and end is not None and end >= start else None


def _gpus(attempt: dict[str, Any]) -> int:
    detail = attempt.get("detail")
    places = [d for d in detail if isinstance(d, dict)] if isinstance(detail, list) else []
    held = [place.get("gpus") for place in places]
    return sum(len(gpus) for gpus in held if isinstance(gpus, list))


def _said(job: object) -> str:
    return json.dumps(job)[:90]


PHILLY = TraceReader(
    name="philly",
    about="Philly table: job_id, submit_s, duration_s, num_gpus, vc",
    # with more columns it is plain, which loses none of them
    recognises=lambda head: head.columns == _COLUMNS,
    read=read_philly,
    needs=_COLUMNS,
    picks={"vc": ""},
)


def _is_log(head: TraceHead) -> bool:
    start = head.begins.lstrip()
    return start[:1] == b"[" and b'"attempts"' in head.begins and b'"submitted_time"' in head.begins


PHILLY_LOG = TraceReader(
    name="philly-log",
    about="raw Philly cluster_job_log (JSON): status, vc, jobid, attempts, submitted_time, user",
    recognises=_is_log,
    read=read_log,
    picks={"vc": ""},
)
