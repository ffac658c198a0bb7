"""Traces of every measured configuration, and what is fitted on some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from report import progress
from steward.learn.estimators.model_graphs.op_times import (
    CONSTANTS,
    START,
    StepWork,
    step_seconds,
    step_work,
)
from steward.learn.estimators.model_graphs.pool import TraceWorker
from steward.learn.estimators.model_graphs.question import OPTIMIZERS
from steward.learn.estimators.model_graphs.scores import question_of, read_truth
from steward.sim.traces.locate import data_folder

__all__ = ["Row", "calibrate", "calibrate_memory", "calibrate_time", "folds", "rows"]

_OWN = Path(__file__).parent / "h200" / "models_h200.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured configuration with its trace."""

    source: str
    record: dict[str, str]
    trace: dict[str, Any]
    work: StepWork
    trace_s: float

    @property
    def family(self) -> str:
        """Return the family and the mode."""
        return f"{self.record['family']} {self.record['mode']}"

    def measured(self, name: str) -> float:
        """Return one measured column."""
        return float(self.record[name])


def rows(*, few: bool) -> list[Row]:
    """Trace the shared rows and those of this repository; every sixth of them when `few`."""
    shared = Path(data_folder()).parent / "h200" / "estimator_truth.csv"
    found = []
    with TraceWorker() as worker:
        for source, path in (("shared", shared), ("own", _OWN)):
            for record in read_truth(path)[:: 6 if few else 1]:
                question = question_of(record)
                # The own rows freed gradients after the forward pass, as their script did.
                trace = worker.ask(question, late_zero_grad=source == "own")
                work = step_work(
                    trace, states=OPTIMIZERS[question.opt].states, trains=question.trains
                )
                spent = trace["trace_s"] + trace["replay_s"]
                found.append(
                    Row(source=source, record=record, trace=trace, work=work, trace_s=spent)
                )
            progress(f"{len(found)} configurations traced")
    return found


def folds(found: Sequence[Row], count: int = 12) -> list[tuple[list[Row], list[Row]]]:
    """Split by model, so that no model is in both parts of a fold."""
    models = sorted({row.record["model"] for row in found})
    parts = []
    for number in range(min(count, len(models))):
        held = set(models[number::count])
        inside = [row for row in found if row.record["model"] not in held]
        parts.append((inside, [row for row in found if row.record["model"] in held]))
    return parts


def calibrate(found: Sequence[Row]) -> dict[str, Any]:
    """Fit everything on the given rows."""
    models = len({row.record["model"] for row in found})
    return {
        "gpu": "h200",
        **calibrate_memory(found),
        **calibrate_time(found),
        "basis": f"{len(found)} configurations of {models} models on one H200 (torch 2.11)",
    }


def calibrate_memory(found: Sequence[Row]) -> dict[str, Any]:
    """Return the context's bytes and the limits of truth over prediction."""
    contexts = [
        row.measured("nvml_used_bytes") - row.measured("peak_reserved_bytes") for row in found
    ]
    context = float(np.median(contexts))
    ratios: dict[str, list[float]] = {"any": []}
    for row in found:
        device = row.measured("nvml_used_bytes") / (row.trace["reserved_bytes"] + context)
        reserved = row.measured("peak_reserved_bytes") / row.trace["reserved_bytes"]
        for name in ("any", row.family):
            ratios.setdefault(name, []).append(max(device, reserved))
    return {
        "context_bytes": context,
        "memory_low": {name: float(np.quantile(each, 0.05)) for name, each in ratios.items()},
        "memory_q95": {name: _upper(each) for name, each in ratios.items()},
    }


def calibrate_time(found: Sequence[Row], inner: int = 4) -> dict[str, Any]:
    """Return the constants, and the limits on models that the constants did not see."""
    constants = _fit(found)
    parts = [_log_errors(held, _fit(inside)) for inside, held in folds(found, inner)]
    errors = np.concatenate(parts)
    host = np.array([step_seconds(row.work, constants)[1] for row in found])
    watts = np.array([row.measured("mean_power_w") for row in found])
    slope, level = np.polyfit(host, watts, 1)
    return {
        "constants": dict(zip(CONSTANTS, np.exp(constants).tolist(), strict=True)),
        "time_low": float(np.exp(np.quantile(errors, 0.05))),
        "time_high": float(np.exp(np.quantile(errors, 0.95))),
        "time_bias": 1.0,
        "power_watts": [float(level), float(-slope)],
    }


def _upper(ratios: Sequence[float]) -> float:
    """Return the conformal upper limit; 3 % may lie above, since new models differ more."""
    count = len(ratios)
    return float(np.quantile(ratios, min(1.0, 0.97 * (count + 1) / count)))


def _fit(found: Sequence[Row]) -> Any:
    times = np.log([row.measured("step_s") for row in found])

    def residuals(constants: Any) -> Any:
        seconds = np.array([step_seconds(row.work, constants)[0] for row in found])
        return np.concatenate([np.log(seconds) - times, (constants - START) * 0.05])

    return least_squares(residuals, START, loss="soft_l1", f_scale=0.1, max_nfev=20).x


def _log_errors(found: Sequence[Row], constants: Any) -> Any:
    return np.array(
        [np.log(row.measured("step_s") / step_seconds(row.work, constants)[0]) for row in found]
    )
