"""A network of some 62,000 parameters that names the animal of a crop, or calls it blank."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

__all__ = ["Answers", "Model", "build", "prepared"]

CHANNELS = (16, 32, 64)
AT_ONCE = 1024
FAINT = 5.0  # contrast that is noise


def build(classes: int) -> Any:
    """Return the network with fresh weights."""
    first, second, third = CHANNELS
    return nn.Sequential(
        nn.Conv2d(3, first, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(first), nn.ReLU(),
        nn.Conv2d(first, second, 3, padding=1, bias=False), nn.BatchNorm2d(second), nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(second, third, 3, padding=1, bias=False), nn.BatchNorm2d(third), nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(third, third, 3, padding=1, bias=False), nn.BatchNorm2d(third), nn.ReLU(),
        nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(third, classes),
    )  # fmt: skip


def prepared(crops: NDArray[np.uint8]) -> Any:
    """Return crops as the network takes them, each with its own light and contrast taken out."""
    seen = torch.from_numpy(crops).permute(0, 3, 1, 2).float()
    light = seen.mean(dim=(1, 2, 3), keepdim=True)
    contrast = seen.std(dim=(1, 2, 3), keepdim=True)
    return ((seen - light) / (contrast + FAINT)).contiguous()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What a model says about crops: a share per class, and what it saw before it decided."""

    classes: tuple[str, ...]
    shares: NDArray[np.float64]
    features: NDArray[np.float64]

    @property
    def names(self) -> NDArray[np.str_]:
        """Return the likeliest class of each crop."""
        return np.array([self.classes[each] for each in self.shares.argmax(axis=1)], dtype=np.str_)

    def share_of(self, name: str) -> NDArray[np.float64]:
        """Return how likely each crop is of a class; 0 if the model does not know it."""
        if name not in self.classes:
            return np.zeros(len(self.shares))
        return self.shares[:, self.classes.index(name)]


@dataclass(frozen=True, slots=True)
class Model:
    """Trained weights and the classes that they know."""

    network: Any
    classes: tuple[str, ...]

    @classmethod
    def read(cls, file: Path) -> Model:
        """Return the model that a training wrote."""
        saved = torch.load(file, weights_only=True)
        network = build(len(saved["classes"]))
        network.load_state_dict(saved["weights"])
        return cls(network.eval(), tuple(saved["classes"]))

    def ask(self, crops: NDArray[np.uint8]) -> Answers:
        """Return what the model says about crops."""
        parts = [self._ask(crops[at : at + AT_ONCE]) for at in range(0, len(crops), AT_ONCE)]
        width = self.network[-1].in_features
        shares = [np.zeros((0, len(self.classes))), *(share for share, _ in parts)]
        features = [np.zeros((0, width)), *(feature for _, feature in parts)]
        return Answers(
            classes=self.classes, shares=np.concatenate(shares), features=np.concatenate(features)
        )

    def _ask(self, crops: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        with torch.inference_mode():
            features = self.network[:-1](prepared(crops))
            shares = self.network[-1](features).softmax(dim=1)
        return shares.double().numpy(), features.double().numpy()
