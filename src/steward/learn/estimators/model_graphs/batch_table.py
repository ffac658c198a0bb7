"""Many batches of one transformer at once, by the closed form: what planning compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from steward.learn.estimators.model_graphs.calibration import calibration
from steward.learn.estimators.model_graphs.closed_form import (
    Transformer,
    closed_form,
    closed_trace,
    transformer,
)
from steward.learn.estimators.model_graphs.gpu_types import gpu_type
from steward.learn.estimators.model_graphs.op_times import in_seconds, step_work, ways_seconds
from steward.learn.estimators.model_graphs.question import OPTIMIZERS, ModelQuestion

__all__ = ["BatchTable", "batch_table"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchTable:
    """What is likely for each batch; limits are those of the closed form."""

    batches: npt.NDArray[np.int64]
    allocated_bytes: Floats
    step_s: Floats


def batch_table(
    config: Mapping[str, Any], question: ModelQuestion, batches: Sequence[int]
) -> BatchTable:
    """Return memory and time of each batch, without a trace; `question.batch` does not matter.

    Work grows by a line with the batch, so two batches give the time of all.
    """
    shape = transformer(config, where=question.model)
    sizes = np.asarray(batches, np.int64)
    allocated = [closed_form(shape, replace(question, batch=int(b))).allocated_bytes for b in sizes]
    known = calibration()
    like = gpu_type(question.gpu)
    first = max(1, -(-shape.width // question.seq))
    here = _ways(shape, replace(question, batch=first), like.rates)
    there = _ways(shape, replace(question, batch=2 * first), like.rates)
    offsets = known.offsets(like)[0]
    seconds = ways_seconds(
        here, (there - here) / first, (sizes - first).astype(float), known.costs, offsets
    )
    return BatchTable(
        batches=sizes,
        allocated_bytes=np.array(allocated, float),
        step_s=seconds * known.time_bias,
    )


def _ways(shape: Transformer, question: ModelQuestion, rates: Sequence[float]) -> Floats:
    trace = closed_trace(shape, closed_form(shape, question), question, reserved_share=1.0)
    states = OPTIMIZERS[question.opt].states if question.trains else 0
    work = step_work(trace, states=states, trains=question.trains)
    return in_seconds(work.passes(question.accumulate), rates)
