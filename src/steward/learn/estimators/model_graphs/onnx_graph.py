"""Inference of an ONNX file: weights, live tensors in the file's order, and operators.

Nothing runs and torch is not needed. Imports `onnx` (optional) when a file is read.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.allocator import CachingAllocator
from steward.learn.estimators.model_graphs.question import ModelQuestion

__all__ = ["NOTES", "graph"]

NOTES = ("an ONNX file: eager execution in the file's order; a runtime that fuses needs less",)
_LIBRARY_BYTES = 65 << 20
_ITEM = {1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4, 13: 8, 16: 2}
_PRODUCTS = {"MatMul": "mm", "Gemm": "addmm", "FusedMatMul": "mm", "MatMulInteger": "mm"}
_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Shape", "Constant"})
_NAMES = {
    "LayerNormalization": "native_layer_norm",
    "BatchNormalization": "native_batch_norm",
    "Softmax": "_softmax",
    "Concat": "cat",
    "Cast": "_to_copy",
    "Transpose": "clone",
    "ReduceMean": "mean",
    "Pad": "_pad",
    "Slice": "clone",
    "Gather": "index",
}
Shape = tuple[int, ...]


def graph(question: ModelQuestion) -> dict[str, Any]:
    """Return an ONNX file in the terms of a trace of one forward pass."""
    if question.trains:
        raise StewardError(
            "an ONNX file holds a forward pass only",
            where=question.model,
            hint="add --mode infer, or name the model's source to estimate training",
        )
    model = _loaded(question)
    weights = {each.name: each for each in model.graph.initializer}
    shapes, items = _shapes(model, weights, question)
    weight_bytes = sum(
        prod(each.dims) * _ITEM.get(each.data_type, 4) for each in model.graph.initializer
    )
    allocator = CachingAllocator()
    allocator.allocate("library", _LIBRARY_BYTES)
    for name, each in weights.items():
        size = int(prod(each.dims)) * _ITEM.get(each.data_type, 4)
        if size:
            allocator.allocate(("weight", name), size)
    operators, views = _walk(model, shapes, items, allocator, weights)
    return {
        "parameters": sum(int(prod(each.dims)) for each in weights.values()),
        "parameter_tensors": len(weights),
        "parameter_bytes": weight_bytes,
        "allocated_bytes": allocator.peak_allocated_bytes,
        "reserved_bytes": allocator.reserved_bytes,
        "activation_bytes": max(0, allocator.peak_allocated_bytes - weight_bytes - _LIBRARY_BYTES),
        "block_bytes": weight_bytes,
        "blocks": 1,
        "operators": operators,
        "views": [views, 0],
        "modules": 0,
    }


def _loaded(question: ModelQuestion) -> Any:
    try:
        onnx: Any = importlib.import_module("onnx")
    except ImportError as error:
        raise StewardError(
            "the package onnx is not installed",
            where=question.model,
            hint="pip install onnx; nothing else is needed for this estimate",
        ) from error
    if not Path(question.model).is_file():
        raise StewardError("there is no such file", where=question.model, hint="name an .onnx file")
    try:
        model = onnx.load(question.model, load_external_data=False)
        _set_free_sizes(model, question)
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # protobuf and onnx raise many kinds
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise StewardError(
            f"the file cannot be read as ONNX: {first}",
            where=question.model,
            hint="check it with `python -m onnx.checker FILE`",
        ) from error


def _set_free_sizes(model: Any, question: ModelQuestion) -> None:
    """Give the inputs' free dimensions the question's sizes, and forget sizes inferred before."""
    names = {each.name for each in model.graph.initializer}
    for given in model.graph.input:
        if given.name in names:
            continue
        for at, side in enumerate(given.type.tensor_type.shape.dim):
            if at == 0:
                side.dim_value = question.batch
            elif side.dim_value <= 0:
                images = len(given.type.tensor_type.shape.dim) == 4
                side.dim_value = question.size if images else question.seq
    for out in model.graph.output:
        out.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]


def _shapes(
    model: Any, weights: Mapping[str, Any], question: ModelQuestion
) -> tuple[dict[str, Shape], dict[str, int]]:
    shapes: dict[str, Shape] = {}
    items: dict[str, int] = {}
    for each in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        tensor = each.type.tensor_type
        if tensor.HasField("shape"):
            # A size that stays open after inference is a product of the batch most often.
            sides = [side.dim_value or question.batch for side in tensor.shape.dim]
            shapes[each.name] = tuple(max(1, int(side)) for side in sides)
        items[each.name] = _ITEM.get(tensor.elem_type, 4)
    for name, each in weights.items():
        shapes[name] = tuple(int(side) for side in each.dims)
        items[name] = _ITEM.get(each.data_type, 4)
    return shapes, items


def _walk(
    model: Any,
    shapes: Mapping[str, Shape],
    items: Mapping[str, int],
    allocator: CachingAllocator,
    weights: Mapping[str, Any],
) -> tuple[list[list[Any]], int]:
    """Follow the nodes in order; return their operators, and how many make no copy."""
    nodes = list(model.graph.node)
    ends = {name: at for at, node in enumerate(nodes) for name in node.input if name}
    kept = {*weights, *(each.name for each in model.graph.output)}
    tensors = _Tensors(allocator, kept, ends)
    for given in model.graph.input:
        if given.name in shapes and given.name not in weights:
            tensors.make(given.name, _bytes(given.name, shapes, items))
    rows: dict[tuple[Any, ...], int] = {}
    for at, node in enumerate(nodes):
        if node.op_type in _VIEWS and node.input:
            tensors.view(node.input[0], node.output)
        else:
            for name in node.output:
                tensors.make(name, _bytes(name, shapes, items) if name in shapes else 0)
            key = _row(node, shapes, items)
            rows[key] = rows.get(key, 0) + 1
        tensors.release((*node.input, *node.output), at)
    return [[*key, count] for key, count in rows.items()], len(nodes) - sum(rows.values())


class _Tensors:
    """What is alive: a view keeps the tensor that it looks at."""

    def __init__(
        self, allocator: CachingAllocator, kept: set[str], ends: Mapping[str, int]
    ) -> None:
        self._allocator = allocator
        self._kept = kept
        self._ends = dict(ends)
        self._owner: dict[str, str] = {}

    def make(self, name: str, size: int) -> None:
        if size:
            self._allocator.allocate(("tensor", name), size)

    def view(self, given: str, made: Iterable[str]) -> None:
        whole = self._owner.get(given, given)
        for name in made:
            self._owner[name] = whole
            self._ends[whole] = max(self._ends.get(whole, 0), self._ends.get(name, 0))
            if name in self._kept:
                self._kept.add(whole)

    def release(self, names: Iterable[str], at: int) -> None:
        for name in names:
            whole = self._owner.get(name, name)
            if self._ends.get(whole, at) <= at and whole not in self._kept:
                self._allocator.free(("tensor", whole))


def _bytes(name: str, shapes: Mapping[str, Shape], items: Mapping[str, int]) -> int:
    return max(1, prod(shapes.get(name, (1,)))) * items.get(name, 4)


def _row(node: Any, shapes: Mapping[str, Shape], items: Mapping[str, int]) -> tuple[Any, ...]:
    given = [shapes[name] for name in node.input if name in shapes]
    made = [shapes[name] for name in node.output if name in shapes]
    moved = float(sum(_bytes(name, shapes, items) for name in (*node.input, *node.output) if name))
    item = items.get(next(iter(node.output), ""), 4)
    out = prod(made[0]) if made else 0
    if node.op_type in {"Conv", "ConvTranspose"} and len(given) > 1:
        weight = given[1]
        groups = next((each.i for each in node.attribute if each.name == "group"), 1)
        area = prod(weight[2:])
        strides = next((each.ints for each in node.attribute if each.name == "strides"), [1])
        flops = 2.0 * out * weight[1] * area
        extra = (int(area), int(max(strides)), int(groups))
        return ("convolution", tuple(given[:3]), item, flops, moved, False, extra)
    if node.op_type in _PRODUCTS and given:
        name = _PRODUCTS[node.op_type]
        inner = given[0][-1] if given[0] else 1
        if name == "mm" and len(given) > 1 and len(given[1]) > 2:
            name = "bmm"
        return (name, tuple(given[-2:]), item, 2.0 * out * inner, moved, False, ())
    name = _NAMES.get(node.op_type, "mul")
    return (name, tuple(given[:3]), item, 0.0, moved, False, ())
