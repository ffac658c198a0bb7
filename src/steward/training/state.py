"""What a checkpoint holds: a JSON tree of plain values, with tensors and arrays beside it.

A state_dict is walked once. Tensors go to a file that `torch.load(weights_only=True)` reads, NumPy
arrays to an `.npz` without pickles, the rest to JSON. Values of any other kind are refused: loading
a checkpoint never runs code from it.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.training.protocol import TrainingError

__all__ = ["Snapshot", "capture_generators", "decode", "encode", "restore_generators", "stateful"]

_PLAIN = (str, int, bool, type(None))
_DICTS: dict[str, Callable[[Any], Any]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "Counter": lambda pairs: Counter(dict(pairs)),
    "defaultdict": lambda pairs: defaultdict(None, pairs),
}
_SEQUENCES: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "Size": tuple,
    "set": set,
    "frozenset": frozenset,
}


@dataclass(slots=True)
class Snapshot:
    """The parts of one rank's checkpoint while it is being built."""

    tree: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    bytes: int = 0  # of all tensors, those of rank 0 too
    keys: dict[tuple[Any, ...], str] = field(default_factory=dict)  # tensors that are one memory

    def check(self) -> None:
        """Raise an error that names everything that cannot be saved."""
        if self.faults:
            raise TrainingError(
                "; ".join(self.faults[:5]) + (" …" if len(self.faults) > 5 else ""),
                hint="state_dict() may hold tensors, arrays, numbers, texts, lists, tuples, sets"
                " and dicts; leave the rest out and build it anew after loading",
            )


def encode(
    value: Any,
    path: str,
    into: Snapshot,
    shared: Callable[[str], bool] = lambda _: False,
) -> Any:
    """Return `value` as JSON; tensors and arrays are put `into` the snapshot, not yet copied.

    A tensor whose path is `shared` is the same on every rank, and is only referred to: rank 0 has
    it.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is list:
        return [encode(each, f"{path}/{i}", into, shared) for i, each in enumerate(value)]
    if kind.__name__ in _SEQUENCES and isinstance(value, tuple | set | frozenset):
        items = [encode(each, f"{path}/{i}", into, shared) for i, each in enumerate(value)]
        return {"$sequence": kind.__name__, "items": items}
    if kind in (dict, OrderedDict, Counter, defaultdict):
        return _encode_dict(value, path, into, shared)
    return _encode_other(value, path, into, shared)


def _encode_dict(
    value: Mapping[Any, Any], path: str, into: Snapshot, shared: Callable[[str], bool]
) -> dict[str, Any]:
    pairs = [
        [encode(key, f"{path}/{key}", into), encode(item, f"{path}/{key}", into, shared)]
        for key, item in value.items()
    ]
    record: dict[str, Any] = {"$dict": type(value).__name__, "items": pairs}
    if (metadata := getattr(value, "_metadata", None)) is not None:  # versions of nn.Modules
        record["metadata"] = encode(metadata, f"{path}/_metadata", into)
    return record


def _encode_other(
    value: Any,
    path: str,
    into: Snapshot,
    shared: Callable[[str], bool],
) -> dict[str, Any] | None:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return _encode_tensor(torch, value, path, into, shared)
    if torch is not None and isinstance(value, torch.dtype | torch.device):
        return {f"${type(value).__name__}": str(value).removeprefix("torch.")}
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        if not value.dtype.hasobject:
            key = _free(path, into.arrays)
            into.arrays[key] = numpy.array(value, copy=True)
            return {"$array": key, "scalar": isinstance(value, numpy.generic)}
    elif type(value) is bytes:
        return {"$bytes": value.hex()}
    into.faults.append(f"{path} is a {type(value).__module__}.{type(value).__qualname__}")
    return None


def _encode_tensor(
    torch: Any,
    value: Any,
    path: str,
    into: Snapshot,
    shared: Callable[[str], bool],
) -> dict[str, Any] | None:
    plain = type(value) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    if not plain or value.layout is not torch.strided or value.is_quantized or value.is_meta:
        what = f"{type(value).__name__}, {value.layout}, {value.device}"
        into.faults.append(f"{path} is a tensor of a kind that cannot be saved yet ({what})")
        return None
    value = value.detach()
    memory = (value.data_ptr(), value.shape, value.stride(), value.dtype, value.device)
    key = into.keys.get(memory) if value.numel() else None
    record = {"device": str(value.device)}
    if key is None:
        key = into.keys[memory] = _free(path, into.tensors)
        into.bytes += value.numel() * value.element_size()
        if not shared(path):
            into.tensors[key] = value
    return {"$tensor": key, **record, **({} if key in into.tensors else {"rank": 0})}


def _free(path: str, taken: Mapping[str, Any]) -> str:
    return path if path not in taken else f"{path}#{len(taken)}"


def decode(
    tree: Any,
    tensor: Callable[[dict[str, Any]], Any],
    array: Callable[[str], Any],
) -> Any:
    """Return the value that `encode` was given, with tensors and arrays from the two look-ups."""
    if isinstance(tree, list):
        return [decode(each, tensor, array) for each in tree]
    if not isinstance(tree, dict):
        return tree
    kind = next(iter(tree))
    if kind == "$dict":
        pairs = [(decode(k, tensor, array), decode(v, tensor, array)) for k, v in tree["items"]]
        found = _DICTS[tree["$dict"]](pairs)
        if "metadata" in tree:
            found._metadata = decode(tree["metadata"], tensor, array)  # noqa: SLF001 - as nn.Module
        return found
    if kind == "$sequence":
        return _SEQUENCES[tree["$sequence"]](decode(tree["items"], tensor, array))
    return _decode_leaf(kind, tree, tensor, array)


def _decode_leaf(
    kind: str,
    tree: dict[str, Any],
    tensor: Callable[[dict[str, Any]], Any],
    array: Callable[[str], Any],
) -> Any:
    if kind == "$tensor":
        return tensor(tree)
    if kind == "$array":
        return array(tree["$array"])[()] if tree["scalar"] else array(tree["$array"])
    if kind == "$float":
        return float(tree["$float"])
    if kind == "$bytes":
        return bytes.fromhex(tree["$bytes"])
    torch = sys.modules["torch"]  # a dtype or device
    return torch.device(tree[kind]) if kind == "$device" else getattr(torch, tree[kind])


@dataclass(frozen=True, slots=True)
class _Generator:
    """A random generator with the two methods that everything else in a checkpoint has."""

    state_dict: Callable[[], Any]
    load_state_dict: Callable[[Any], Any]


def stateful(name: str, value: Any) -> Any:
    """Return `value`, or a view of a random generator, that has state_dict and load_state_dict."""
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return value
    if isinstance(value, random.Random):
        return _Generator(value.getstate, value.setstate)
    if hasattr(value, "get_state") and hasattr(value, "set_state"):  # torch.Generator, RandomState
        return _Generator(value.get_state, value.set_state)
    if hasattr(value, "bit_generator"):
        bits = value.bit_generator
        return _Generator(lambda: bits.state, lambda state: setattr(bits, "state", state))
    raise TrainingError(
        f"`{name}` is a {type(value).__qualname__}, which has no state_dict and load_state_dict",
        where="training.attach",
        hint="hand in models, optimizers, schedulers, scalers, random generators, or objects of"
        " your own with these two methods",
    )


def capture_generators(*, devices: bool = True) -> dict[str, Any]:
    """Return the states of the global random generators of Python, NumPy and torch."""
    states: dict[str, Any] = {"python": random.getstate()}
    if (numpy := sys.modules.get("numpy")) is not None:
        states["numpy"] = numpy.random.get_state(legacy=False)
    if (torch := sys.modules.get("torch")) is not None:
        states["torch"] = torch.get_rng_state()
        if devices and torch.cuda.is_initialized():
            states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def restore_generators(states: Mapping[str, Any]) -> None:
    """Set the global random generators to captured states."""
    random.setstate(states["python"])
    if "numpy" in states:
        import numpy as np  # noqa: PLC0415 - was there when the checkpoint was written

        np.random.set_state(states["numpy"])
    if "torch" in states:
        import torch  # noqa: PLC0415

        torch.set_rng_state(states["torch"])
        if "cuda" in states:
            torch.cuda.set_rng_state_all(states["cuda"])
