"""Trace models on request: one JSON object per line in, one per line out.

Run by `pool.TraceWorker` as `python -m`; nothing else of steward imports this module, because it
imports torch, and because a faulty operator of a model may end the process.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from typing import Any, TextIO

import torch

from steward.errors import StewardError
from steward.learn.estimators.model_graphs import cuda_rules
from steward.learn.estimators.model_graphs.builders import Built, build
from steward.learn.estimators.model_graphs.op_trace import OpTrace
from steward.learn.estimators.model_graphs.question import OPTIMIZERS, ModelQuestion
from steward.learn.estimators.model_graphs.replay import Step, replay

__all__ = ["answer", "main"]


def main() -> None:
    """Answer until stdin ends. What models print goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    cuda_rules.install()
    _write(out, {"ready": True, "torch": torch.__version__})
    for line in sys.stdin:
        _write(out, _answered(json.loads(line)))


def _write(out: TextIO, record: dict[str, Any]) -> None:
    out.write(json.dumps(record) + "\n")
    out.flush()


def _answered(record: dict[str, Any]) -> dict[str, Any]:
    try:
        return answer(record)
    except StewardError as error:
        return {"error": error.as_record()}
    except Exception as error:  # noqa: BLE001 - any code of a model may fail in any way
        first = next(iter(str(error).splitlines()), "")
        return {
            "error": {
                "problem": f"the model cannot be traced: {type(error).__name__}: {first}",
                "where": str(record.get("model", "")),
                "hint": "custom operators need a meta kernel (torch.library.register_fake)",
            }
        }


def answer(record: dict[str, Any]) -> dict[str, Any]:
    """Trace one step and return its peaks and its operators."""
    late = bool(record.pop("late_zero_grad", False))
    question = ModelQuestion(**record)
    started = time.perf_counter()
    built = build(question)
    step, trace = _traced(built, question)
    traced = time.perf_counter()
    optimizer = OPTIMIZERS[question.opt] if question.trains else None
    peaks = replay(step, optimizer, late_zero_grad=late)
    parameters = list(built.net.parameters())
    return {
        "parameters": sum(each.numel() for each in parameters),
        "parameter_tensors": len(parameters),
        "parameter_bytes": sum(step.parameter_bytes),
        "allocated_bytes": peaks.allocated_bytes,
        "reserved_bytes": peaks.reserved_bytes,
        "operators": [
            [o.name, o.shapes, o.item_bytes, o.flops, o.moved_bytes, o.backward, o.extra, count]
            for o, count in trace.operators.items()
        ],
        "trace_s": traced - started,
        "replay_s": time.perf_counter() - traced,
    }


def _traced(built: Built, question: ModelQuestion) -> tuple[Step, OpTrace]:
    net = built.net.train(question.trains)
    trace = OpTrace()
    with trace, torch.set_grad_enabled(question.trains):
        for tensor in (*net.parameters(), *net.buffers(), *built.inputs):
            trace.add(tensor)
        begin = len(trace.events)
        with cuda_rules.autocast(on=question.amp):
            out = built.forward()
        middle = len(trace.events)
        if question.trains:
            trace.backward = True
            torch.autograd.backward([out])
        del out
    events = list(trace.events)
    step = Step(
        setup=events[:begin],
        forward=events[begin:middle],
        backward=events[middle:],
        parameter_bytes=[p.numel() * p.element_size() for p in net.parameters() if p.requires_grad],
    )
    return step, trace


if __name__ == "__main__":
    main()
