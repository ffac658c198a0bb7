"""Compare answers with measured configurations: memory, the upper limit, and time."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.answers import (
    ModelEstimate,
    estimate_model,
    graph_of,
)
from steward.learn.estimators.model_graphs.pool import TraceWorker
from steward.learn.estimators.model_graphs.question import ModelQuestion
from steward.learn.estimators.model_graphs.sites import MeasuredRun, Site

__all__ = ["measured_runs", "question_of", "read_truth", "score", "summary"]

_NEEDED = ("model", "mode", "batch")
_MEASURED = ("peak_reserved_bytes", "nvml_used_bytes", "step_s")
_NOTHING = frozenset({"nan", "na", "n/a", "none", "null"})
_LARGEST = 1e9  # of a batch, a size or a length


def read_truth(path: Path) -> list[dict[str, str]]:
    """Read a file with the columns of `estimator_truth.csv`."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        problem = f"the file cannot be read: {error.strerror or error}"
        raise StewardError(problem, where=str(path), hint="give a CSV file") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise StewardError(
            "this is not CSV text", where=str(path), hint="give a CSV file"
        ) from error
    columns = [name for name in (rows[0] if rows else ()) if name is not None]
    missing = [name for name in _NEEDED if name not in columns]
    if not any(name in columns for name in _MEASURED):
        missing.append(f"one of {', '.join(_MEASURED)}")
    if missing:
        problem = f"missing columns or no rows: {', '.join(missing)}"
        hint = "the columns are those of estimator_truth.csv"
        raise StewardError(problem, where=str(path), hint=hint)
    return rows


def question_of(row: Mapping[str, Any], gpu: str = "h200") -> ModelQuestion:
    """Return the question that a measured row answers."""
    return ModelQuestion(
        model=str(row["model"]).strip(),
        batch=_whole(row, "batch", None),
        mode=str(row["mode"]).strip(),
        size=_whole(row, "size", 224),
        seq=_whole(row, "seq", 512),
        amp=_truth(row.get("amp")),
        opt=_text(row, "opt") or "adamw",
        grad_ckpt=_truth(row.get("grad_ckpt")),
        gpu=_text(row, "gpu") or gpu,
        accumulate=_whole(row, "accumulate", 1),
    )


def _text(row: Mapping[str, Any], name: str) -> str:
    """Return a cell; empty where it is not there, as other programs write that, too."""
    text = str(row.get(name) or "").strip()
    return "" if text.lower() in _NOTHING else text


def _whole(row: Mapping[str, Any], name: str, missing: int | None) -> int:
    text = _text(row, name)
    if not text and missing is not None:
        return missing
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not (isfinite(value) and value == int(value) and 0 < value < _LARGEST):
        raise StewardError(
            f"{name} is {text!r}", where=str(row.get("model")), hint="give a whole number above 0"
        )
    return int(value)


def _truth(value: object) -> bool:
    return str(value).strip().lower() in {"true", "1", "yes"}


def measured_runs(
    rows: Iterable[Mapping[str, Any]], worker: TraceWorker | None, gpu: str
) -> tuple[list[MeasuredRun], list[dict[str, Any]]]:
    """Return measured rows with the traces of their models, and the rows that cannot be used."""
    runs, failed = [], []
    for number, row in enumerate(rows, start=2):
        try:
            question = question_of(row, gpu)
            found = {name: _positive(row, name, number) for name in _MEASURED}
            if not any(found.values()):
                raise StewardError("nothing was measured", where=f"line {number}")
            runs.append(
                MeasuredRun(
                    question=question,
                    trace=graph_of(question, worker),
                    step_s=found["step_s"],
                    reserved_bytes=found["peak_reserved_bytes"],
                    device_bytes=found["nvml_used_bytes"],
                )
            )
        except StewardError as error:
            failed.append({"line": number, "model": row.get("model"), **error.as_record()})
    return runs, failed


def score(
    rows: Iterable[Mapping[str, Any]],
    worker: TraceWorker | None,
    *,
    gpu: str = "h200",
    site: Site | None = None,
) -> dict[str, Any]:
    """Estimate each row; a row that cannot be estimated is counted and says why."""
    answered, failed = [], []
    for number, row in enumerate(rows, start=2):
        try:
            question = question_of(row, gpu)
            truth = {name: _positive(row, name, number) for name in _MEASURED}
            estimate = estimate_model(question, worker, find_batch=False, site=site)
            answered.append(_compared(number, question, truth, estimate))
        except StewardError as error:
            failed.append({"line": number, "model": row.get("model"), **error.as_record()})
    return {"rows": answered, "not_answered": failed, **summary(answered)}


def _positive(row: Mapping[str, Any], name: str, line: int) -> float | None:
    text = str(row.get(name) or "").strip()
    if not text or text.lower() == "nan":
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (isfinite(value) and value > 0):
        raise StewardError(
            f"{name} is {text!r}", where=f"line {line}", hint="give a number above 0, or nothing"
        )
    return value


def _compared(
    line: int, question: ModelQuestion, truth: Mapping[str, float | None], found: ModelEstimate
) -> dict[str, Any]:
    used, reserved, seconds = (
        truth[name] for name in ("nvml_used_bytes", "peak_reserved_bytes", "step_s")
    )
    time = found.step_s
    return {
        "line": line,
        "model": found.model,
        "mode": question.mode,
        "tier": found.tier,
        "allocated_bytes": found.allocated_bytes,
        "reserved_bytes": found.reserved_bytes,
        "device_bytes": found.device_bytes,
        "step_s": time,
        "energy_j_per_step": found.energy_j_per_step,
        "device_error": _error(found.device_bytes.likely, used),
        "reserved_error": _error(found.reserved_bytes.likely, reserved),
        "above_q95": None if used is None else used > found.device_bytes.high,
        "reserved_above_q95": None if reserved is None else reserved > found.reserved_bytes.high,
        "time_error": _error(time.likely, seconds) if time is not None else None,
        "time_within": (
            None if seconds is None or time is None else time.low <= seconds <= time.high
        ),
        "notes": found.notes,
    }


def _error(likely: float, truth: float | None) -> float | None:
    return None if truth is None else abs(likely / truth - 1)


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the means of the compared rows; nothing where there are none."""
    device, reserved = _mean(rows, "device_error"), _mean(rows, "reserved_error")
    above = _mean(rows, "above_q95"), _mean(rows, "reserved_above_q95")
    return {
        "answered": len(rows),
        "memory": {
            "mean_error": max(
                (each for each in (device, reserved) if each is not None), default=None
            ),
            "device_mean_error": device,
            "reserved_mean_error": reserved,
            "above_q95": max((each for each in above if each is not None), default=None),
            "device_above_q95": above[0],
            "reserved_above_q95": above[1],
        },
        "time": {
            "mean_error": _mean(rows, "time_error"),
            "within_limits": _mean(rows, "time_within"),
        },
    }


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [float(each[name]) for each in rows if each[name] is not None]
    return fmean(values) if values else None
