"""Traces of deep stacks of equal layers, from two shallow copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steward.learn.estimators.model_graphs.configs import layers_of
from steward.learn.estimators.model_graphs.pool import TraceWorker
from steward.learn.estimators.model_graphs.question import OPTIMIZERS, ModelQuestion

__all__ = ["extrapolated", "trace_of"]

_FEW, _MORE = 4, 6
_LIBRARY_BYTES = 65 << 20
_DEEP = 40  # below, a whole trace is as fast; what reserves memory is then followed exactly
_LINEAR = (
    "parameters",
    "parameter_tensors",
    "parameter_bytes",
    "allocated_bytes",
    "reserved_bytes",
    "activation_bytes",
    "blocks",
    "modules",
)
_ADDED = ("trace_s", "replay_s")


def trace_of(
    question: ModelQuestion, config: Mapping[str, Any] | None, worker: TraceWorker
) -> dict[str, Any]:
    """Return the trace of a model; of two copies with few layers where the stack is deep."""
    layers = layers_of(config) if config is not None else None
    if layers is None or layers < _DEEP or question.layers is not None:
        return worker.ask(question)
    few = worker.ask(question.with_layers(_FEW))
    more = worker.ask(question.with_layers(_MORE))
    return extrapolated(few, more, layers, question)


def extrapolated(
    few: Mapping[str, Any], more: Mapping[str, Any], layers: int, question: ModelQuestion
) -> dict[str, Any]:
    """Return what a stack of `layers` needs, on the line through those of 4 and of 6.

    Activations and logits decide the peak of a shallow stack, and the optimizer's step may decide
    that of a deep one: it is counted.
    """
    times = (layers - _FEW) / (_MORE - _FEW)

    def line(here: float, there: float) -> float:
        return here + (there - here) * times

    found = dict(more)
    for name in _LINEAR:
        found[name] = round(line(few[name], more[name]))
    for name in _ADDED:
        found[name] = few.get(name, 0.0) + more.get(name, 0.0)
    found["views"] = [
        line(here, there) for here, there in zip(few["views"], more["views"], strict=True)
    ]
    if question.trains:
        optimizer, size = OPTIMIZERS[question.opt], found["parameter_bytes"]
        temporaries = 0 if optimizer.alone else optimizer.temporaries
        state = optimizer.states * optimizer.state_bytes(size)
        stepping = (2 + temporaries) * size + state + _LIBRARY_BYTES
        found["allocated_bytes"] = max(found["allocated_bytes"], stepping)
    found["reserved_bytes"] = max(found["reserved_bytes"], found["allocated_bytes"])
    first, second = _counts(few), _counts(more)
    found["operators"] = [
        [*row[:-1], line(first.get(key, (None, 0.0))[1], count)]
        for key, (row, count) in second.items()
    ]
    found["layers"] = layers
    return found


def _counts(trace: Mapping[str, Any]) -> dict[str, tuple[list[Any], float]]:
    return {repr(row[:-1]): (list(row), float(row[-1])) for row in trace["operators"]}
