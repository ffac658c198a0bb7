"""Record every operator of a forward and backward pass on meta tensors. Runs in the worker only.

An event is `(key, bytes)` for an allocation and `-key` for a release. Results of operators with the
same shapes are rebuilt from a memo, which makes a repeated layer cheap.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from steward.learn.estimators.model_graphs.workspaces import conv_workspaces

__all__ = ["OpTrace", "Operator"]

aten = torch.ops.aten
_META = torch.device("meta")
_HIDDEN_VIEWS = frozenset({aten._unsafe_view.default, aten.detach.default})  # noqa: SLF001
_NO_KERNEL = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})


@dataclass(frozen=True, slots=True)
class Operator:
    """One kind of call: its name, shapes of tensors, element bytes, work, and pass."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    item_bytes: int
    flops: float
    moved_bytes: float
    backward: bool
    extra: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Known:
    outputs: Any
    flops: float
    moved_bytes: float


class OpTrace(TorchDispatchMode):  # type: ignore[misc]
    """Enter around the passes; `events` and `operators` hold what happened."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []
        self.operators: dict[Operator, int] = {}
        self.views = {False: 0, True: 0}  # calls without a kernel, by pass: the host pays for them
        self.backward = False
        self._memo: dict[Any, _Known] = {}
        self._functional: dict[Any, bool] = {}
        self._keys: Any = weakref.WeakKeyDictionary()
        self._true: Any = weakref.WeakSet()
        self._last = 0

    def add(self, tensor: Any) -> int:
        """Record the storage of a tensor once, and its release when it dies."""
        storage = tensor.untyped_storage()
        key = self._keys.get(storage)
        if key is not None:
            return int(key)
        self._last += 1
        self._keys[storage] = self._last
        if storage.nbytes():
            self.events.append((self._last, storage.nbytes()))
            weakref.finalize(storage, self.events.append, -self._last).atexit = False
        return self._last

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if func is aten._local_scalar_dense.default and args[0].device == _META:  # noqa: SLF001
            return self._neutral(args[0])
        functional = self._is_functional(func)
        key = _key(func, args, options)
        known = self._memo.get(key) if functional and key is not None else None
        if known is not None:
            out, flops, moved = _rebuilt(known.outputs), known.flops, known.moved_bytes
        else:
            out = func(*args, **options)
            flops, moved = _work(func, args, options, out)
            if functional and key is not None and _plain(out):
                self._memo[key] = _Known(_described(out), flops, moved)
        if func is aten.all.default or func._overloadpacket is aten.all:  # noqa: SLF001
            self._true.add(out.untyped_storage())
        if functional or func._schema.is_mutable:  # noqa: SLF001
            self._record(func, (args, options), out, flops, moved)
        else:
            self.views[self.backward] += 1
        return out

    def _record(self, func: Any, given: Any, out: Any, flops: float, moved: float) -> None:
        name = func._overloadpacket.__name__  # noqa: SLF001
        tensors = [t for t in _tensors(given) if t.device == _META]
        outputs = [t for t in _tensors((out,)) if t.device == _META]
        for tensor in outputs:
            self.add(tensor)
        extra: tuple[int, ...] = ()
        if name in {"convolution", "convolution_backward"}:
            extra = _conv_details(given[0], backward=name != "convolution")
            for size in conv_workspaces(tensors, outputs, extra, backward=name != "convolution"):
                self._last += 1
                self.events.extend(((self._last, size), -self._last))
        if name in _NO_KERNEL or not (tensors or outputs):
            return
        operator = Operator(
            name,
            tuple(tuple(t.shape) for t in tensors[:3]),
            (tensors or outputs)[0].element_size(),
            flops,
            moved,
            self.backward,
            extra,
        )
        self.operators[operator] = self.operators.get(operator, 0) + 1

    def _is_functional(self, func: Any) -> bool:
        found = self._functional.get(func)
        if found is None:
            schema = func._schema  # noqa: SLF001
            aliases = any(each.alias_info for each in schema.returns)
            found = not schema.is_mutable and not aliases and func not in _HIDDEN_VIEWS
            self._functional[func] = found
        return found

    def _neutral(self, tensor: Any) -> Any:
        if tensor.is_floating_point():
            return 1.0
        return tensor.untyped_storage() in self._true if tensor.dtype == torch.bool else 1


def _conv_details(args: Sequence[Any], *, backward: bool) -> tuple[int, ...]:
    """Return kernel area, stride and groups."""
    weight = args[2] if backward else args[1]
    stride = args[4] if backward else args[3]
    groups = args[9] if backward else args[8]
    area = 1
    for side in weight.shape[2:]:
        area *= int(side)
    return area, max(stride), int(groups)


def _tensors(values: Any) -> Iterator[Any]:
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple | dict):
            yield from _tensors(value)


def _meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (value.device.type, value.shape, value.stride(), value.dtype)
    if isinstance(value, list | tuple):
        return tuple(map(_meta, value))
    return value


def _key(func: Any, args: Any, options: Mapping[str, Any]) -> Any:
    key = (func, _meta(args), tuple((name, _meta(value)) for name, value in options.items()))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _work(func: Any, args: Any, options: Mapping[str, Any], out: Any) -> tuple[float, float]:
    count = flop_registry.get(func._overloadpacket)  # noqa: SLF001
    flops = float(count(*args, **options, out_val=out)) if count else 0.0
    moved = sum(t.numel() * t.element_size() for t in _tensors((args, options, (out,))))
    return flops, float(moved)


def _plain(out: Any) -> bool:
    parts = out if isinstance(out, list | tuple) else (out,)
    return all(not isinstance(p, list | tuple) for p in parts) and all(
        p.device == _META for p in parts if isinstance(p, torch.Tensor)
    )


def _described(out: Any) -> Any:
    if isinstance(out, list | tuple):
        return (type(out), [_described(part) for part in out])
    if isinstance(out, torch.Tensor):
        return (torch.Tensor, out.shape, out.stride(), out.dtype)
    return (None, out)


def _rebuilt(known: Any) -> Any:
    if known[0] is torch.Tensor:
        return torch.empty_strided(known[1], known[2], dtype=known[3], device="meta")
    if known[0] is None:
        return known[1]
    kind = known[0] if known[0] in {list, tuple} else tuple
    return kind(_rebuilt(part) for part in known[1])
