"""Sort operators into the classes whose speed is fitted, and count their work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

__all__ = ["CLASSES", "CONVOLUTIONS", "OpWork", "op_work"]

_MATMULS = frozenset({"mm", "addmm", "bmm", "baddbmm", "linear"})
_COPIES = frozenset(
    "_to_copy clone cat copy_ stack index repeat _pad constant_pad_nd roll".split()  # noqa: SIM905
)
_REDUCTIONS = frozenset(
    "sum mean amax var_mean _softmax _log_softmax _softmax_backward_data "  # noqa: SIM905
    "_log_softmax_backward_data max_pool2d_with_indices max_pool2d_with_indices_backward "
    "nll_loss_forward nll_loss_backward avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d "
    "_adaptive_avg_pool2d_backward".split()
)
_LEVELS = ("full", "low")
CONVOLUTIONS = ("depth", "group", "kxk", "one", "stem")
CLASSES = (
    *(f"conv_{kind}_{level}_{way}" for kind in CONVOLUTIONS for level in _LEVELS for way in "bf"),
    *(f"{kind}_{level}_{way}" for kind in ("att", "bn", "mm") for level in _LEVELS for way in "bf"),
    *(f"ln_full_{way}" for way in "bf"),
    *(f"{kind}_{level}" for kind in ("bmm", "copy", "mem", "red") for level in _LEVELS),
)
_NARROW, _DEEP = 64, 256  # channels, and the side of a matrix, that fill the tensor cores
_STEM_CHANNELS = 4


@dataclass(frozen=True, slots=True)
class OpWork:
    """The class of one operator, its FLOPs and bytes, and work that its shape wastes."""

    kind: str
    rate: int  # 0: low precision, 1: TF32, 2: float32
    flops: float
    moved_bytes: float
    wasted: tuple[tuple[str, float], ...] = ()  # FLOPs or bytes, by the name of their feature


def op_work(  # noqa: PLR0913, PLR0917 - a row of a trace
    name: str,
    shapes: Sequence[Sequence[int]],
    item_bytes: int,
    flops: float,
    moved_bytes: float,
    backward: bool,  # noqa: FBT001
    extra: Sequence[int],
) -> OpWork:
    """Return the class and the work of one operator of a trace."""
    level = "low" if item_bytes < 4 else "full"
    way = "b" if backward else "f"
    rate = 0 if level == "low" else 2
    if name.startswith("convolution"):
        return _convolution(name, shapes, level, flops, moved_bytes, extra)
    if name in _MATMULS:
        kind = f"bmm_{level}" if name in {"bmm", "baddbmm"} else f"mm_{level}_{way}"
        waste = _matmul_waste(name, shapes, level, flops)
        return OpWork(kind, rate, flops, moved_bytes, waste)
    if "attention" in name:
        kind = f"att_{level}_{way}"
    elif "batch_norm" in name:
        kind = f"bn_{level}_{way}"
    elif "norm" in name:
        kind = f"ln_full_{way}"
    elif name in _COPIES:
        kind = f"copy_{level}"
    else:
        kind = f"red_{level}" if name in _REDUCTIONS else f"mem_{level}"
    return OpWork(kind, rate, flops if kind.startswith("att") else 0.0, moved_bytes)


def _convolution(
    name: str,
    shapes: Sequence[Sequence[int]],
    level: str,
    flops: float,
    moved_bytes: float,
    extra: Sequence[int],
) -> OpWork:
    backward = name != "convolution"
    weight = shapes[2] if backward else shapes[1]
    area, _stride, groups = extra
    outs, ins = max(1, weight[0]), max(1, weight[1])
    if groups > 1:
        kind = "depth" if ins == 1 else "group"
    elif ins <= _STEM_CHANNELS:
        kind = "stem"
    else:
        kind = "one" if area == 1 else "kxk"
    if backward:  # PyTorch's own count takes no notice of groups
        gradients = 1 if kind == "stem" else 2
        flops = 2.0 * prod(shapes[0]) * ins * area * gradients
    waste: tuple[tuple[str, float], ...] = ()
    if groups == 1:
        waste = (
            (f"few_inputs_{level}", flops * _NARROW / ins),
            (f"few_outputs_{level}", flops * _NARROW / outs),
        )
    elif kind == "depth":
        waste = ((f"wide_kernel_{level}", moved_bytes * area),)
    way = "b" if backward else "f"
    rate = 0 if level == "low" else 1
    return OpWork(f"conv_{kind}_{level}_{way}", rate, flops, moved_bytes, waste)


def _matmul_waste(
    name: str, shapes: Sequence[Sequence[int]], level: str, flops: float
) -> tuple[tuple[str, float], ...]:
    sides = [side for shape in shapes[-2:] for side in shape if len(shape) > 1]
    if name not in {"mm", "addmm"} or not sides:
        return ()
    return ((f"thin_matrix_{level}", flops * _DEEP / max(1, min(sides))),)
