"""The training that steward runs as a job: `python -m ecology.train DATA.npz MODEL.pt`.

The lines with `training` and `job` are all that it needs to be stopped and to go on elsewhere.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from ecology.network import build, prepared
from steward import training

__all__ = ["epochs_for", "main", "train"]

BATCH = 64
LEAST_STEPS, LEAST_EPOCHS = 600, 6


def steps_for(crops: int) -> int:
    """Return how many optimizer steps a training on so many crops takes."""
    return epochs_for(crops) * -(-crops // BATCH)


def epochs_for(crops: int) -> int:
    """Return how often all crops are seen: fewer times where there are many."""
    return max(LEAST_EPOCHS, -(-LEAST_STEPS * BATCH // crops))


def train(
    crops: NDArray[np.uint8],
    labels: NDArray[np.str_],
    *,
    seed: int,
    most_steps: int | None = None,
    folder: Path | None = None,
) -> tuple[Any, tuple[str, ...], int]:
    """Return a trained network, its classes, and the steps that this process took."""
    torch.manual_seed(seed)
    classes = tuple(np.unique(labels).tolist())
    targets = torch.from_numpy(np.searchsorted(np.array(classes), labels))
    network = build(len(classes))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)
    total = most_steps or steps_for(len(crops))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=total + 1)
    loader = DataLoader(TensorDataset(prepared(crops), targets), batch_size=BATCH, shuffle=True)
    weights = _weights(targets, len(classes))
    # As a job, TERM is a warning to save; in a program of one's own it has to end it.
    alone = folder is not None
    job = training.attach(
        network, optimizer, schedule, loader=loader, folder=folder, stop_on_term=alone
    )
    taken = 0
    for seen, target in job.batches(epochs=epochs_for(len(crops))):
        loss = functional.cross_entropy(
            network(_varied(seen)), target, weights, label_smoothing=0.05
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        taken += 1
        job.step(loss=loss, samples=len(target))
        if job.steps >= total:
            break
    job.finish()
    return network, classes, taken


def _weights(targets: Any, classes: int) -> Any:
    """Return the weight of each class: rare ones count for more, by the square root."""
    counts = torch.bincount(targets, minlength=classes).float().clamp(min=1)
    weights = counts.rsqrt()
    return weights / weights.mean()


def _varied(crops: Any) -> Any:
    """Return crops mirrored, turned, moved, nearer or farther, and lit differently."""
    count = len(crops)
    size, turn = torch.empty(count).uniform_(0.8, 1.25), torch.empty(count).normal_(0, 0.12)
    mirror = torch.where(torch.rand(count) < 0.5, -1.0, 1.0)
    change = torch.zeros(count, 2, 3)
    change[:, 0, 0], change[:, 0, 1] = mirror * size * turn.cos(), -size * turn.sin()
    change[:, 1, 0], change[:, 1, 1] = mirror * size * turn.sin(), size * turn.cos()
    change[:, :, 2] = torch.empty(count, 2).uniform_(-0.25, 0.25)
    grid = functional.affine_grid(change, list(crops.shape), align_corners=False)
    crops = functional.grid_sample(crops, grid, padding_mode="reflection", align_corners=False)
    light = torch.empty(2, count, 1, 1, 1)
    return crops * light[0].uniform_(0.8, 1.2) + light[1].uniform_(-0.2, 0.2)


def main() -> None:
    """Train on a file of crops and labels, and write the model and what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="stop earlier: a downsized run")
    given = parser.parse_args()
    torch.set_num_threads(1)
    began_s = time.perf_counter()
    data = np.load(given.data)
    network, classes, taken = train(
        data["crops"], data["labels"], seed=given.seed, most_steps=given.steps
    )
    torch.save({"weights": network.state_dict(), "classes": classes}, given.model)
    report = {
        "steps": taken,
        "cpu_s": time.process_time(),
        "loop_s": time.perf_counter() - began_s,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
