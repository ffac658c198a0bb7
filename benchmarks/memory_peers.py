"""Rules of others for the memory of a model, on the same configurations.

accelerate's estimate is its published rule (weights, four times for training). DNNMem is a walk
over the graph with its own allocator: as its paper describes, not its code, which is not public.
torch's MemTracker is torch's own, run on fake tensors.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from model_traces import Row
from report import progress
from steward.learn.estimators.model_graphs.allocator import CachingAllocator
from steward.learn.estimators.model_graphs.question import OPTIMIZERS

__all__ = ["accelerate_like_bytes", "dnnmem_like_bytes", "mem_tracker_bytes"]

_CONTEXT_BYTES = 500 << 20  # a constant of DNNMem's kind, not fitted on these rows
_WORKSPACE_BYTES = 32 << 20
_SAVED = frozenset({"relu_", "add_", "silu_", "_unsafe_view", "empty"})


def accelerate_like_bytes(row: Row) -> float:
    """Return weights, times four for training; no activations, whatever the batch."""
    return float(row.trace["parameter_bytes"]) * (4 if row.record["mode"] == "train" else 1)


def dnnmem_like_bytes(row: Row, context_bytes: float = _CONTEXT_BYTES) -> float:
    """Return the peak of a graph walk: weights, outputs kept for the backward pass, allocator."""
    trains = row.record["mode"] == "train"
    allocator = CachingAllocator()
    size = int(row.trace["parameter_bytes"])
    copies = 2 + OPTIMIZERS[row.record["opt"]].states if trains else 1
    allocator.allocate("weights", size * copies)
    allocator.allocate("workspace", _WORKSPACE_BYTES)
    number = 0
    before: object = None
    for name, shapes, item, _flops, moved, backward, _extra, count in row.trace["operators"]:
        if backward or name in _SAVED:
            continue
        given = sum(_product(shape) for shape in shapes) * item
        made = max(512, int(moved - given))
        for _ in range(int(count)):
            number += 1
            allocator.allocate(number, made)
            if not trains and before is not None:
                allocator.free(before)
            before = number
    return float(allocator.reserved_bytes + context_bytes)


def _product(shape: Sequence[int]) -> int:
    found = 1
    for side in shape:
        found *= int(side)
    return found


_TRACKER = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from steward.learn.estimators.model_graphs import builders
from steward.learn.estimators.model_graphs.question import ModelQuestion
torch.__future__.set_overwrite_module_params_on_conversion(True)
OPT = {"sgd": lambda p: torch.optim.SGD(p, 0.1), "adam": torch.optim.Adam,
       "sgd_momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), "adamw": torch.optim.AdamW}
for line in sys.stdin:
    record = json.loads(line)
    try:
        question = ModelQuestion(**record)
        built = builders.build(question)
        with FakeTensorMode(allow_non_fake_inputs=True):
            net = built.net.to_empty(device="cpu").train(question.trains)
            if hasattr(net, "tie_weights"):
                net.tie_weights()
            tokens = not (len(built.inputs[0].shape) == 4)
            optimizer = OPT[question.opt](net.parameters()) if question.trains else None
            tracker = MemTracker()
            tracker.track_external(net, *([optimizer] if optimizer else []))
            def forward():
                if tokens:
                    ids = torch.zeros(question.batch, question.seq, dtype=torch.long)
                    out = net(input_ids=ids, labels=ids) if question.trains else net(input_ids=ids)
                    return out.loss if question.trains else out.logits
                x = torch.empty(question.batch, 3, question.size, question.size)
                y = torch.zeros(question.batch, dtype=torch.long)
                out = net(x)
                return torch.nn.functional.cross_entropy(out, y) if question.trains else out
            with tracker:
                for number in range(2 if question.trains else 1):
                    with torch.autocast("cpu", torch.bfloat16, enabled=question.amp), \\
                            torch.set_grad_enabled(question.trains):
                        out = forward()
                    if question.trains:
                        out.backward()
                        optimizer.step()
                        optimizer.zero_grad()
                    del out
                    if number == 0:
                        tracker.reset_mod_stats()
        peak = tracker.get_tracker_snapshot("peak")
        print(json.dumps(max(sum(v for k, v in each.items() if str(k) == "Total" or
              getattr(k, "value", "") == "Total") or max(each.values())
              for each in peak.values())), flush=True)
    except BaseException as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"[:200]}), flush=True)
"""


def mem_tracker_bytes(found: Sequence[Row], questions: Sequence[Any]) -> list[float | None]:
    """Return torch's own peak for each row; none where it fails."""
    process = subprocess.Popen(
        [sys.executable, "-c", _TRACKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    answers: list[float | None] = []
    if process.stdin is None or process.stdout is None:
        return [None] * len(found)
    try:
        for question in questions:
            process.stdin.write(json.dumps(question.record()) + "\n")
            process.stdin.flush()
            text = process.stdout.readline()
            value = json.loads(text) if text else {"error": "it ended"}
            answers.append(value if isinstance(value, int | float) else None)
            if answers[-1] is None:
                progress(f"MemTracker, {question.model}: {value['error']}")
            if not text:
                answers += [None] * (len(questions) - len(answers))
                break
    finally:
        process.kill()
        process.wait()
    return answers
