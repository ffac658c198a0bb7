"""What is asked about a model: which one, how large a batch, how it trains, over how many GPUs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from steward.errors import StewardError, unknown_name

__all__ = ["MODES", "OPTIMIZERS", "SHARDINGS", "ModelQuestion", "OptimizerMemory", "ParallelPlan"]

MODES = ("train", "infer")
SHARDINGS = ("none", "zero1", "zero2", "zero3")
_ALSO = {"ddp": "none", "fsdp": "zero3", "grad_op": "zero2", "shard_grad_op": "zero2"}
_SMALL_ELEMENTS = 4096  # tensors below keep 32 bits in 8-bit optimizers


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerMemory:
    """Tensors of a parameter's size: kept between steps, and alive only during one.

    `alone` means that the temporaries of one parameter are gone before the next one's.
    """

    states: int
    temporaries: int
    state_item_bytes: float = 4.0
    alone: bool = False
    factored: bool = False

    def state_bytes(self, parameter_bytes: int) -> int:
        """Return the bytes of one state of a float32 parameter."""
        elements = parameter_bytes // 4
        if self.factored:  # one row and one column: least where the matrix is square
            return min(parameter_bytes, int(8 * elements**0.5) + 8)
        if self.state_item_bytes < 4 and elements < _SMALL_ELEMENTS:
            return parameter_bytes
        return int(elements * self.state_item_bytes)


_EIGHT = 1 + 4 / 256  # a byte, and a scale for each block of 256
# `foreach` is PyTorch's default on a GPU: one list of all denominators lives during Adam's step.
OPTIMIZERS = {
    "sgd": OptimizerMemory(states=0, temporaries=0),
    "sgd_momentum": OptimizerMemory(states=1, temporaries=0),
    "sgd_fused": OptimizerMemory(states=1, temporaries=0),
    "adam": OptimizerMemory(states=2, temporaries=1),
    "adamw": OptimizerMemory(states=2, temporaries=1),
    "adam_fused": OptimizerMemory(states=2, temporaries=0),
    "adamw_fused": OptimizerMemory(states=2, temporaries=0),
    "adam_single": OptimizerMemory(states=2, temporaries=1, alone=True),
    "adamw_single": OptimizerMemory(states=2, temporaries=1, alone=True),
    "adam_8bit": OptimizerMemory(states=2, temporaries=0, state_item_bytes=_EIGHT),
    "adamw_8bit": OptimizerMemory(states=2, temporaries=0, state_item_bytes=_EIGHT),
    "lion": OptimizerMemory(states=1, temporaries=1, alone=True),
    "lion_8bit": OptimizerMemory(states=1, temporaries=0, state_item_bytes=_EIGHT),
    "rmsprop": OptimizerMemory(states=1, temporaries=1),
    "adagrad": OptimizerMemory(states=1, temporaries=1),
    "adafactor": OptimizerMemory(states=1, temporaries=2, alone=True, factored=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelPlan:
    """Over how many GPUs: copies of the model, its state sharded or not, tensors, stages."""

    data: int = 1
    sharding: str = "none"
    tensor: int = 1
    stages: int = 1
    link_bytes_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("data", "tensor", "stages"):
            _at_least_one(name, getattr(self, name), "the parallel plan")
        if self.sharding in _ALSO:
            object.__setattr__(self, "sharding", _ALSO[self.sharding])
        if self.sharding not in SHARDINGS:
            known = (*SHARDINGS, *_ALSO)
            raise unknown_name("sharding", self.sharding, known, where="the parallel plan")
        if self.sharding != "none" and self.data == 1:
            raise StewardError(
                f"{self.sharding} over one copy of the model shards nothing",
                where="the parallel plan",
                hint="give --dp 2 or more",
            )
        if self.link_bytes_s is not None and not self.link_bytes_s > 0:
            raise StewardError(
                "the link's rate is not above 0", where="the parallel plan", hint="give GB/s"
            )

    @property
    def gpus(self) -> int:
        """Return how many GPUs it takes."""
        return self.data * self.tensor * self.stages


def _at_least_one(name: str, value: int, where: str) -> None:
    if value < 1:
        raise StewardError(f"{name} is {value}", where=where, hint="give 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuestion:
    """One configuration of one model; `model` is a name, a file of a configuration, or an entry.

    `batch` is what one GPU takes in one forward pass, of which a step has `accumulate`.
    """

    model: str
    batch: int
    mode: str = "train"
    size: int = 224
    seq: int = 512
    amp: bool = False
    opt: str = "adamw"
    grad_ckpt: bool = False
    gpu: str = "h200"
    accumulate: int = 1
    layers: int | None = None  # a copy of the configuration with as many layers

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise unknown_name("mode", self.mode, MODES, where=self.model)
        if self.opt not in OPTIMIZERS:
            raise unknown_name("optimizer", self.opt, OPTIMIZERS, where=self.model)
        for name in ("batch", "size", "seq", "accumulate"):
            _at_least_one(name, getattr(self, name), self.model)
        if self.accumulate > 1 and not self.trains:
            raise StewardError(
                "inference accumulates no gradients", where=self.model, hint="leave --accumulate"
            )

    @property
    def trains(self) -> bool:
        """Return whether gradients and optimizer states exist."""
        return self.mode == "train"

    def with_layers(self, layers: int) -> ModelQuestion:
        """Return the same question about a copy with fewer layers."""
        return replace(self, layers=layers)

    def record(self) -> dict[str, Any]:
        """Return the fields as plain values, as a worker reads them."""
        return asdict(self)
