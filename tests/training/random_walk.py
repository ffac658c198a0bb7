"""A training without torch: NumPy weights that follow random batches. A program, too.

    python random_walk.py STEPS_PER_EPOCH EPOCHS WEIGHTS [PAUSE_S]

It prints a hash of the final weights.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from steward import training


class Walk:
    def __init__(self, size: int = 4) -> None:
        self.weights = np.zeros(size)
        self.moves: dict[Any, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self.weights, "moves": self.moves}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weights, self.moves = state["weights"], state["moves"]

    def follow(self, batch: float) -> None:
        self.weights += batch * np.random.rand(len(self.weights)) + random.random()
        self.moves[int(batch * 8)] = self.moves.get(int(batch * 8), 0) + 1

    def hash(self) -> str:
        text = repr(sorted(self.moves.items())).encode()
        return hashlib.sha256(self.weights.tobytes() + text).hexdigest()


class RandomBatches:
    """Draws from a global generator while it is iterated over, as augmentation does."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Any:
        return (random.random() for _ in range(self.count))


def attached(folder: Path | None, count: int, **more: Any) -> tuple[Walk, training.TrainingJob]:
    random.seed(1)
    np.random.seed(1)
    walk = Walk(more.pop("size", 4))
    return walk, training.attach(walk, loader=RandomBatches(count), folder=folder, **more)


def main() -> None:
    count, epochs, size = (int(each) for each in sys.argv[1:4])
    pause_s = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    every_s = float(os.environ.get("EVERY_S", "0")) or None
    walk, job = attached(None, count, size=size, every_s=every_s)
    for batch in job.batches(epochs=epochs):
        walk.follow(batch)
        job.step(loss=float(walk.weights[0]))
        time.sleep(pause_s)
    print(walk.hash())  # noqa: T201 - what the tests read


if __name__ == "__main__":
    main()
