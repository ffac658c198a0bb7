"""What is asked about a model: which one, how large a batch, how it trains."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from steward.errors import StewardError, unknown_name

__all__ = ["MODES", "OPTIMIZERS", "ModelQuestion", "OptimizerMemory"]

MODES = ("train", "infer")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerMemory:
    """Tensors of a parameter's size: kept between steps, and alive only during one."""

    states: int
    temporaries: int


# `foreach` is PyTorch's default on a GPU: one list of all denominators lives during Adam's step.
OPTIMIZERS = {
    "sgd": OptimizerMemory(states=0, temporaries=0),
    "sgd_momentum": OptimizerMemory(states=1, temporaries=0),
    "adam": OptimizerMemory(states=2, temporaries=1),
    "adamw": OptimizerMemory(states=2, temporaries=1),
    "adamw_fused": OptimizerMemory(states=2, temporaries=0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuestion:
    """One configuration of one model; `model` is a name, a file of a configuration, or an entry."""

    model: str
    batch: int
    mode: str = "train"
    size: int = 224
    seq: int = 512
    amp: bool = False
    opt: str = "adamw"
    grad_ckpt: bool = False
    gpu: str = "h200"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise unknown_name("mode", self.mode, MODES, where=self.model)
        if self.opt not in OPTIMIZERS:
            raise unknown_name("optimizer", self.opt, OPTIMIZERS, where=self.model)
        for name in ("batch", "size", "seq"):
            if getattr(self, name) < 1:
                raise StewardError(
                    f"{name} is {getattr(self, name)}", where=self.model, hint="give 1 or more"
                )

    @property
    def trains(self) -> bool:
        """Return whether gradients and optimizer states exist."""
        return self.mode == "train"

    def record(self) -> dict[str, Any]:
        """Return the fields as plain values, as a worker reads them."""
        return asdict(self)
