"""Compare answers with measured configurations: memory, the upper limit, and time."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.answers import ModelEstimate, estimate_model
from steward.learn.estimators.model_graphs.pool import TraceWorker
from steward.learn.estimators.model_graphs.question import ModelQuestion

__all__ = ["question_of", "read_truth", "score", "summary"]

_NEEDED = ("model", "mode", "batch", "peak_reserved_bytes", "nvml_used_bytes", "step_s")


def read_truth(path: Path) -> list[dict[str, str]]:
    """Read a file with the columns of `estimator_truth.csv`."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except UnicodeDecodeError as error:
        raise StewardError("this is not text", where=str(path), hint="give a CSV file") from error
    missing = [name for name in _NEEDED if not rows or name not in rows[0]]
    if missing:
        problem = f"missing columns or no rows: {', '.join(missing)}"
        hint = "the columns are those of estimator_truth.csv"
        raise StewardError(problem, where=str(path), hint=hint)
    return rows


def question_of(row: Mapping[str, Any], gpu: str = "h200") -> ModelQuestion:
    """Return the question that a measured row answers."""
    try:
        return ModelQuestion(
            model=str(row["model"]),
            batch=int(row["batch"]),
            mode=str(row["mode"]),
            size=int(float(row.get("size") or 224)),
            seq=int(float(row.get("seq") or 512)),
            amp=str(row.get("amp")).lower() in {"true", "1"},
            opt=str(row.get("opt") or "adamw"),
            grad_ckpt=str(row.get("grad_ckpt")).lower() in {"true", "1"},
            gpu=gpu,
        )
    except ValueError as error:
        raise StewardError(
            f"a row is not a configuration: {error}", where=str(row.get("model")), hint="see batch"
        ) from error


def score(rows: Iterable[Mapping[str, Any]], worker: TraceWorker | None) -> dict[str, Any]:
    """Estimate each row; a row that cannot be estimated is counted and says why."""
    answered, failed = [], []
    for number, row in enumerate(rows, start=2):
        try:
            estimate = estimate_model(question_of(row), worker, find_batch=False)
            answered.append(_compared(number, row, estimate))
        except StewardError as error:
            failed.append({"line": number, "model": row["model"], **error.as_record()})
    return {"rows": answered, "not_answered": failed, **summary(answered)}


def _compared(line: int, row: Mapping[str, Any], found: ModelEstimate) -> dict[str, Any]:
    try:
        used, reserved = float(row["nvml_used_bytes"]), float(row["peak_reserved_bytes"])
        seconds = float(row["step_s"])
    except (TypeError, ValueError) as error:
        problem = "nvml_used_bytes, peak_reserved_bytes or step_s is not a number"
        raise StewardError(problem, where=f"line {line}", hint="measure it again") from error
    if min(used, reserved, seconds) <= 0:
        raise StewardError("a measured value is not above 0", where=f"line {line}")
    likely = found.step_s.likely if found.step_s is not None else None
    return {
        "line": line,
        "model": found.model,
        "mode": row["mode"],
        "tier": found.tier,
        "allocated_bytes": found.allocated_bytes,
        "reserved_bytes": found.reserved_bytes,
        "device_bytes": found.device_bytes,
        "step_s": found.step_s,
        "energy_j_per_step": found.energy_j_per_step,
        "device_error": abs(found.device_bytes.likely / used - 1),
        "reserved_error": abs(found.reserved_bytes.likely / reserved - 1),
        "above_q95": used > found.device_bytes.high,
        "reserved_above_q95": reserved > found.reserved_bytes.high,
        "time_error": None if likely is None else abs(likely / seconds - 1),
        "notes": found.notes,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means of the compared rows; nothing where there are none."""
    times = [each["time_error"] for each in rows if each["time_error"] is not None]
    device = _mean(each["device_error"] for each in rows)
    reserved = _mean(each["reserved_error"] for each in rows)
    both = [each for each in (device, reserved) if each is not None]
    return {
        "answered": len(rows),
        "memory": {
            "mean_error": max(both, default=None),
            "device_mean_error": device,
            "reserved_mean_error": reserved,
            "above_q95": _mean(float(each["above_q95"]) for each in rows),
            "reserved_above_q95": _mean(float(each["reserved_above_q95"]) for each in rows),
        },
        "time": {"mean_error": _mean(times)},
    }


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None
