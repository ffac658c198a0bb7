"""Step time over four GPUs: NeuSight's rows of data, tensor and pipeline parallel training.

The collectives and the division of work have no fitted number; the speed of one such GPU comes from
NeuSight's rows on one GPU, which are part of the calibration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from model_traces import PeerRow, peer_rows
from report import bar, finish, quick
from steward.learn.estimators.model_graphs.answers import estimate_model
from steward.learn.estimators.model_graphs.pool import TraceWorker
from steward.learn.estimators.model_graphs.question import ModelQuestion, ParallelPlan

_GPUS = 4
_PLANS = {
    "dp4": ParallelPlan(data=_GPUS),
    "tp4": ParallelPlan(tensor=_GPUS),
    "pp4_1": ParallelPlan(stages=_GPUS),
}


class _Recorded(TraceWorker):
    """Answers with one trace."""

    def __init__(self, trace: Mapping[str, Any]) -> None:
        super().__init__()
        self._trace = dict(trace)

    def ask(self, question: ModelQuestion, **more: object) -> dict[str, Any]:  # noqa: ARG002
        return self._trace


def main() -> None:
    """Print the error of each way to divide, and NeuSight's."""
    quick()
    rows = peer_rows(options=True)
    by_batch = {_key(row): row for row in [*peer_rows(), *rows]}
    compared = [_compared(row, by_batch) for row in rows]
    found = [each for each in compared if each is not None]
    figures: dict[str, Any] = {
        "rows": len(found),
        "without_a_trace": len(compared) - len(found),
        "mean_error": float(np.mean([each["error"] for each in found])),
        "neusight_mean_error": float(np.mean([each["neusight"] for each in found])),
        "within_limits_share": float(np.mean([each["within"] for each in found])),
        "by_option": {
            name: float(np.mean([each["error"] for each in found if each["option"] == name]))
            for name in sorted({each["option"] for each in found})
        },
    }
    theirs = figures["neusight_mean_error"]
    bars = [bar("mean error, to NeuSight's", figures["mean_error"] / theirs, "<=", 1.0)]
    finish("estimate_parallel", figures, bars)


def _key(row: PeerRow) -> tuple[str, int, str]:
    return row.model, row.question.batch, row.question.mode


def _compared(
    row: PeerRow, by_batch: Mapping[tuple[str, int, str], PeerRow]
) -> dict[str, Any] | None:
    plan = _PLANS[row.option]
    batch = row.question.batch // plan.data  # theirs is the batch of all GPUs
    traced = by_batch.get((row.model, batch, row.question.mode))
    if traced is None:
        return None
    question = replace(row.question, model=row.model, batch=batch, gpu=row.device)
    worker = _Recorded({**traced.trace, "parameter_tensors": 0})
    time = estimate_model(question, worker, find_batch=False, plan=plan).step_s
    if time is None:
        return None
    seconds = row.step.seconds
    return {
        "option": row.option,
        "error": abs(time.likely / seconds - 1),
        "neusight": abs(row.predicted_s / seconds - 1),
        "within": time.low <= seconds <= time.high,
    }


if __name__ == "__main__":
    main()
