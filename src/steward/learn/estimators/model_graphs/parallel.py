"""A model over several GPUs: memory of one rank and time, in closed form on top of a trace.

Nothing here was fitted: bytes are counted, and collectives run at a share of the link's rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steward.learn.estimators.model_graphs.question import (
    OPTIMIZERS,
    ModelQuestion,
    ParallelPlan,
)

__all__ = ["RankNeeds", "rank_needs"]

_LIBRARY_BYTES = 65 << 20
_BUCKET_BYTES = 25 << 20  # of DDP's gradients, and of FSDP's prefetch at least
_COLLECTIVE_BYTES = 300 << 20  # NCCL's buffers of one communicator, outside of the allocator
_LINK_SHARE = 0.75  # of a link's rate that a ring of large messages reaches
_HIDDEN_SHARE = 0.6  # of the gradients' exchange that the backward pass hides
_SPLIT_SHARE = 0.8  # of a layer's activations that tensor parallelism divides
_GATHERED_BLOCKS = 2  # the one that computes, and the one that is fetched ahead
_REDUCTIONS = 4  # of a layer's output under tensor parallelism: two forward, two backward


@dataclass(frozen=True, slots=True, kw_only=True)
class RankNeeds:
    """What the fullest rank holds, and how a step changes against one GPU."""

    allocated_bytes: float
    context_bytes: float  # on top of a process's own
    time_share: float  # of one GPU's device time for the same batch of one rank
    bubble_share: float  # of a step that pipeline stages wait
    communication_s: float  # not hidden behind the backward pass


def rank_needs(
    trace: Mapping[str, Any], question: ModelQuestion, plan: ParallelPlan, link_bytes_s: float
) -> RankNeeds:
    """Return what one rank needs; `question.batch` is one rank's, `accumulate` its passes."""
    parts = plan.tensor * plan.stages
    optimizer = OPTIMIZERS[question.opt]
    weights = trace["parameter_bytes"] / parts
    shards = plan.data if plan.sharding != "none" else 1
    state = optimizer.state_bytes(int(weights)) * optimizer.states if question.trains else 0.0
    gradients = weights if question.trains else 0.0
    step = 0.0 if optimizer.alone else optimizer.temporaries * weights * question.trains
    gathered = 0.0
    if plan.sharding == "zero3":
        block = min(trace.get("block_bytes", weights), weights * parts) / plan.tensor
        gathered = min(_GATHERED_BLOCKS * block, weights)
        held = weights / shards
    else:
        held = weights
    kept_gradients = gradients / (shards if plan.sharding in {"zero2", "zero3"} else 1)
    buckets = min(gradients, float(_BUCKET_BYTES)) if plan.data > 1 else 0.0
    activations = _activations(trace, question, plan)
    passes = held + state / shards + kept_gradients + buckets + gathered + activations
    stepping = held + (state + step) / shards + kept_gradients
    rings = (plan.data > 1) + (plan.tensor > 1) + (plan.stages > 1)
    return RankNeeds(
        allocated_bytes=max(passes, stepping) + _LIBRARY_BYTES,
        context_bytes=float(rings * _COLLECTIVE_BYTES),
        time_share=1 / parts,
        bubble_share=(plan.stages - 1) / (question.accumulate + plan.stages - 1),
        communication_s=_communication_s(trace, question, plan, link_bytes_s),
    )


def _activations(trace: Mapping[str, Any], question: ModelQuestion, plan: ParallelPlan) -> float:
    # Autocast keeps a copy of each weight until the pass ends; FSDP casts what it gathers.
    copies = trace["parameters"] * 2.0 if question.amp else 0.0
    one = max(0.0, float(trace["activation_bytes"]) - copies)
    copies = 0.0 if plan.sharding == "zero3" else copies / plan.tensor
    split = one * (_SPLIT_SHARE / plan.tensor + 1 - _SPLIT_SHARE) + copies
    in_flight = min(question.accumulate, plan.stages) if question.trains else 1
    return split * in_flight / plan.stages


def _communication_s(
    trace: Mapping[str, Any], question: ModelQuestion, plan: ParallelPlan, link_bytes_s: float
) -> float:
    rate = _LINK_SHARE * (plan.link_bytes_s or link_bytes_s)
    weights = trace["parameter_bytes"] / plan.tensor / plan.stages
    seconds = 0.0
    if plan.data > 1:
        ring = (plan.data - 1) / plan.data
        if plan.sharding == "zero3":
            times = question.accumulate * (3 if question.trains else 1)
            hidden = _HIDDEN_SHARE
        else:
            times, hidden = (2 if question.trains else 0), _HIDDEN_SHARE
        seconds += times * ring * weights / rate * (1 - hidden)
    tokens = question.batch * _output_bytes(trace, question)
    if plan.tensor > 1:
        ring = 2 * (plan.tensor - 1) / plan.tensor
        times = trace.get("blocks", 1) * (_REDUCTIONS if question.trains else _REDUCTIONS // 2)
        seconds += question.accumulate * times * ring * tokens / rate / plan.stages
    if plan.stages > 1:
        times = 2 if question.trains else 1
        seconds += question.accumulate * times * tokens / rate
    return seconds


def _output_bytes(trace: Mapping[str, Any], question: ModelQuestion) -> float:
    """Return the bytes of one item between two blocks, seen from the norms of a trace."""
    sizes = [
        float(shapes[0][-1]) * question.seq * (2 if question.amp else 4)
        for name, shapes, *_ in trace["operators"]
        if name in {"native_layer_norm", "rsqrt"} and shapes and len(shapes[0]) == 3
    ]
    return max(sizes, default=1e6)
