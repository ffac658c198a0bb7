"""Trees as arrays: predicted the same before they are saved and after, without their library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["TreeSum"]

Floats = NDArray[np.float64]


class TreeSum:
    """A weighted sum of regression trees."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._state = dict(state)

    @classmethod
    def of_trees(cls, trees: Sequence[Any], *, weight: float, offset: float = 0.0) -> TreeSum:
        """Copy scikit-learn's trees: `tree_` of each."""
        counts = [tree.node_count for tree in trees]
        root = np.cumsum([0, *counts[:-1]], dtype=np.int64)
        starts = np.repeat(root, counts)
        feature = np.concatenate([tree.feature for tree in trees]).astype(np.int64)
        own, leaf = np.arange(len(starts)), feature < 0
        left = np.concatenate([tree.children_left for tree in trees]) + starts
        right = np.concatenate([tree.children_right for tree in trees]) + starts
        return cls(
            {
                "root": root,
                "feature": np.maximum(feature, 0),
                "threshold": np.concatenate([tree.threshold for tree in trees]),
                "left": np.where(leaf, own, left),
                "right": np.where(leaf, own, right),
                "value": np.concatenate([tree.value[:, 0, 0] for tree in trees]) * weight,
                "depth": int(max(tree.max_depth for tree in trees)),
                "offset": float(offset),
            }
        )

    def predict(self, x: Floats) -> Floats:
        """Return the sum for each row."""
        state = self._state
        feature, threshold = state["feature"], state["threshold"]
        narrow = x.astype(np.float32)  # as the library does before it compares
        total = np.full(len(x), float(state["offset"]))
        rows = np.arange(len(x))
        for root in state["root"]:
            node = np.full(len(x), root)
            for _ in range(int(state["depth"])):
                goes_left = narrow[rows, feature[node]] <= threshold[node]
                node = np.where(goes_left, state["left"][node], state["right"][node])
            total += state["value"][node]
        return total

    def state(self) -> dict[str, Any]:
        return dict(self._state)
