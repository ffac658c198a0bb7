"""A function of JAX: its graph as `jax.make_jaxpr` gives it, without a GPU and without compiling.

Imports `jax` (optional) and the user's module when asked. XLA fuses and reorders: memory of the
graph in its own order is an upper bound most often, and elementwise work moves less.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from math import prod
from typing import Any

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.allocator import rounded
from steward.learn.estimators.model_graphs.question import ModelQuestion

__all__ = ["NOTES", "graph"]

NOTES = ("a function of JAX: its graph before XLA fuses it; memory is an upper bound most often",)
_LIBRARY_BYTES = 65 << 20
_FUSED_SHARE = 0.4  # of the bytes of elementwise operators, after fusion
_VIEWS = frozenset(
    {"reshape", "squeeze", "broadcast_in_dim", "expand_dims", "copy", "stop_gradient"}
)
_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr", "body_jaxpr")


def graph(question: ModelQuestion) -> dict[str, Any]:
    """Return a function of JAX in the terms of a trace; what it computes is one step."""
    function, arguments = _entry(question)
    jax = importlib.import_module("jax")
    try:
        closed = jax.make_jaxpr(function)(*arguments)
    except Exception as error:  # any code may fail in any way
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise StewardError(
            f"the function cannot be traced by JAX: {first}",
            where=question.model,
            hint="return (function, arguments) where jax.jit(function).lower(*arguments) works",
        ) from error
    held = sum(_size(each.aval) for each in closed.jaxpr.invars)
    held += sum(_size(each.aval) for each in closed.jaxpr.constvars)
    rows: dict[tuple[Any, ...], float] = {}
    for key, count in _operators(closed.jaxpr, 1.0):
        rows[key] = rows.get(key, 0.0) + count
    peak = held + _peak(closed.jaxpr)
    largest = [_size(each.aval) for each in closed.jaxpr.invars]
    return {
        "parameters": held // 4,
        "parameter_tensors": len(largest),
        "parameter_bytes": 0,
        "allocated_bytes": peak + _LIBRARY_BYTES,
        "reserved_bytes": peak + _LIBRARY_BYTES,
        "activation_bytes": peak - held,
        "block_bytes": max(largest, default=0),
        "blocks": 1,
        "operators": [[*key, count] for key, count in rows.items()],
        "views": [0, 0],
        "modules": 0,
    }


def _entry(question: ModelQuestion) -> tuple[Any, tuple[Any, ...]]:
    path = question.model.removeprefix("jax:")
    module, _, name = path.partition(":")
    try:
        importlib.import_module("jax")
    except ImportError as error:
        raise StewardError(
            "jax is not installed", where=question.model, hint="pip install jax"
        ) from error
    try:
        make = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise StewardError(
            f"the entry cannot be imported: {error}",
            where=question.model,
            hint="write jax:pkg.mod:function, and run where pkg can be imported (PYTHONPATH)",
        ) from error
    given = {"batch": question.batch, "size": question.size, "seq": question.seq}
    takes = inspect.signature(make).parameters
    found = make(**{key: given[key] for key in given if key in takes})
    if not (isinstance(found, tuple) and len(found) == 2 and callable(found[0])):
        raise StewardError(
            "the entry returned no function with its arguments",
            where=question.model,
            hint="return (function, (jax.ShapeDtypeStruct(...), ...))",
        )
    arguments = found[1] if isinstance(found[1], tuple) else (found[1],)
    return found[0], arguments


def _size(aval: Any) -> int:
    shape = getattr(aval, "shape", ())
    item = getattr(getattr(aval, "dtype", None), "itemsize", 4)
    return rounded(int(prod(shape)) * int(item))


def _inner(equation: Any) -> list[tuple[Any, float]]:
    found = []
    times = float(equation.params.get("length", 1)) if equation.primitive.name == "scan" else 1.0
    for name, value in equation.params.items():
        parts = value if name == "branches" else (value,) if name in _CALLS else ()
        found += [(getattr(part, "jaxpr", part), times) for part in parts]
    return found


def _operators(jaxpr: Any, times: float) -> Iterator[tuple[tuple[Any, ...], float]]:
    for equation in jaxpr.eqns:
        inner = _inner(equation)
        if inner:
            for part, count in inner:
                yield from _operators(part, times * count)
            continue
        name = equation.primitive.name
        if name in _VIEWS:
            continue
        yield _row(name, equation), times


def _row(name: str, equation: Any) -> tuple[Any, ...]:
    given = [each.aval for each in equation.invars]
    out = equation.outvars[0].aval
    shapes = tuple(tuple(getattr(each, "shape", ())) for each in given[:3])
    item = int(getattr(getattr(out, "dtype", None), "itemsize", 4))
    sizes = [*given, *(each.aval for each in equation.outvars)]
    moved = float(sum(_size(each) for each in sizes))
    if name == "dot_general":
        (contract, _), (batch, _) = equation.params["dimension_numbers"]
        inner = prod(given[0].shape[side] for side in contract)
        kind = "bmm" if batch else "mm"
        return (kind, shapes, item, 2.0 * prod(out.shape) * inner, moved, False, ())
    if name == "conv_general_dilated":
        layout = equation.params["dimension_numbers"].rhs_spec
        weight = given[1].shape
        area = prod(weight[side] for side in layout[2:])
        ordered = (weight[layout[0]], weight[layout[1]], area)
        groups = int(equation.params["feature_group_count"])
        stride = max(equation.params["window_strides"], default=1)
        flops = 2.0 * prod(out.shape) * ordered[1] * area
        extra = (int(area), int(stride), groups)
        return ("convolution", (shapes[0], ordered), item, flops, moved, False, extra)
    kind = "sum" if name.startswith("reduce") or name in {"argmax", "sort", "cumsum"} else "mul"
    return (kind, shapes, item, 0.0, moved * _FUSED_SHARE, False, ())


def _peak(jaxpr: Any) -> int:
    """Return the most bytes that are alive at once beside the arguments, in the graph's order."""
    ends: dict[Any, int] = {}
    for at, equation in enumerate(jaxpr.eqns):
        ends.update({each: at for each in equation.invars if not _literal(each)})
    ends.update({each: len(jaxpr.eqns) for each in jaxpr.outvars if not _literal(each)})
    alive: dict[Any, int] = {}
    live = peak = 0
    for at, equation in enumerate(jaxpr.eqns):
        inside = max((_peak(part) for part, _ in _inner(equation)), default=0)
        if equation.primitive.name not in _VIEWS:
            for each in equation.outvars:
                alive[each] = _size(each.aval)
                live += alive[each]
        peak = max(peak, live + inside)
        for each in {*equation.outvars, *(e for e in equation.invars if not _literal(e))}:
            if ends.get(each, at) <= at:
                live -= alive.pop(each, 0)
    return peak


def _literal(value: Any) -> bool:
    return hasattr(value, "val")
