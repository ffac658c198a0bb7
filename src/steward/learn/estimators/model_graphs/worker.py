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
from typing import Any, Self, TextIO

import torch

from steward.errors import StewardError
from steward.learn.estimators.model_graphs import cuda_rules
from steward.learn.estimators.model_graphs.builders import Built, build
from steward.learn.estimators.model_graphs.op_trace import OpTrace
from steward.learn.estimators.model_graphs.question import OPTIMIZERS, ModelQuestion
from steward.learn.estimators.model_graphs.replay import Step, activation_bytes, replay

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


class _Last:
    """The sizes of the model that was built last, for when its trace fails."""

    built: dict[str, int] | None = None


def _sizes(net: Any) -> dict[str, int] | None:
    parameters = list(net.parameters())
    if not parameters:
        return None
    return {
        "parameters": sum(each.numel() for each in parameters),
        "parameter_tensors": len(parameters),
        "parameter_bytes": sum(each.numel() * each.element_size() for each in parameters),
    }


def _answered(record: dict[str, Any]) -> dict[str, Any]:
    _Last.built = None
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
            },
            "built": _Last.built,
        }


def answer(record: dict[str, Any]) -> dict[str, Any]:
    """Trace one step and return its peaks and its operators."""
    late = bool(record.pop("late_zero_grad", False))
    question = ModelQuestion(**record)
    started = time.perf_counter()
    built = build(question)
    _Last.built = _sizes(built.net)
    step, trace = _traced(built, question)
    traced = time.perf_counter()
    optimizer = OPTIMIZERS[question.opt] if question.trains else None
    peaks = replay(step, optimizer, late_zero_grad=late, accumulate=question.accumulate)
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
        "views": [trace.views[False], trace.views[True]],
        "modules": step.modules,
        "activation_bytes": activation_bytes(step),
        "block_bytes": _largest_block(built.net),
        "blocks": _blocks(built.net),
        "layers": getattr(getattr(built.net, "config", None), "num_hidden_layers", None),
        "trace_s": traced - started,
        "replay_s": time.perf_counter() - traced,
    }


def _traced(built: Built, question: ModelQuestion) -> tuple[Step, OpTrace]:
    net = built.net.train(question.trains)
    trace = OpTrace()
    calls = _ModuleCalls()
    with calls, trace, torch.set_grad_enabled(question.trains):
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
        modules=calls.count,
    )
    return step, trace


def _block_sizes(net: Any) -> dict[str, int]:
    """Return parameter bytes by repeated block, which is what FSDP gathers at once."""
    sizes: dict[str, int] = {}
    for name, parameter in net.named_parameters():
        parts = name.split(".")
        at = next((number for number, part in enumerate(parts) if part.isdigit()), 0)
        block = ".".join(parts[: at + 1])
        sizes[block] = sizes.get(block, 0) + parameter.numel() * parameter.element_size()
    return sizes


def _largest_block(net: Any) -> int:
    return max(_block_sizes(net).values(), default=0)


def _blocks(net: Any) -> int:
    return sum(name.rpartition(".")[2].isdigit() for name in _block_sizes(net))


class _ModuleCalls:
    """Count the calls of modules while entered, those that checkpointing repeats included."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        self._hook = torch.nn.modules.module.register_module_forward_pre_hook(self._add)
        return self

    def __exit__(self, *_: object) -> None:
        self._hook.remove()

    def _add(self, module: Any, inputs: Any) -> None:  # noqa: ARG002 - torch's signature
        self.count += 1


if __name__ == "__main__":
    main()
