"""Makes scenes, measures them, and trains the graph network on what the mean field gets wrong.

All of it goes on where it was stopped: scenes are kept in files of 500, and the training every few
hundred steps. The same arguments give the same scenes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from steward.errors import StewardError
from steward.learn.topology.example_files import read_examples, write_examples
from steward.learn.topology.graph_inputs import inputs_of
from steward.learn.topology.graph_network import GraphNetwork
from steward.learn.topology.training import Example, Progress, TrainingPlan, train
from steward.sim.fabric.scenes import WORLDS, SceneSize, make_scene
from steward.sim.fabric.steady_state import measured_slowdown

__all__ = ["HELD_OUT_SEED", "TEST_SEED", "ResidualRun", "make_example", "train_residual"]

# Seeds of scenes: trained on, held out to see progress and to calibrate, and for benchmarks alone.
HELD_OUT_SEED = 10_000_000
TEST_SEED = 20_000_000
_PER_FILE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualRun:
    """How many scenes, and how long to learn from them."""

    scenes: int = 24_000
    held_out: int = 600
    plan: TrainingPlan = TrainingPlan(steps=14_000)  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        """Refuse what would learn nothing."""
        if min(self.scenes, self.held_out, self.plan.steps) < 1:
            raise StewardError(
                f"{self.scenes} scenes and {self.plan.steps} steps",
                where="fabric train",
                hint="give at least one of each",
            )


def make_example(seed: int, *, world: str, size: SceneSize | None = None) -> Example:
    """Make a scene of a world and measure it."""
    scene = make_scene(seed, size=size, world=world)
    return Example(
        inputs=inputs_of(scene.seen, scene.signs),
        measured=measured_slowdown(scene.true, seed=seed, losses=scene.losses),
    )


def train_residual(
    folder: Path,
    run: ResidualRun,
    *,
    scenes_done: Callable[[int, int], None] = lambda *_: None,
    trained: Callable[[Progress], None] = lambda *_: None,
) -> GraphNetwork:
    """Return a trained network; `folder` keeps what a later call goes on from."""
    folder.mkdir(parents=True, exist_ok=True)
    examples = _examples(folder, run.scenes, 0, scenes_done)
    held_out = _examples(folder, run.held_out, HELD_OUT_SEED, lambda *_: None)
    state_file = folder / f"training-{run.scenes}-{run.plan.steps}-{run.plan.seed}.npz"

    def report(progress: Progress, state: Any) -> None:  # noqa: ANN401 - arrays by name
        partial = state_file.with_suffix(".partial")
        with partial.open("wb") as target:
            np.savez(target, **state)
        partial.replace(state_file)
        trained(progress)

    return train(examples, held_out, run.plan, resume=_state(state_file), report=report)


def _state(file: Path) -> dict[str, Any] | None:
    """Return the state of a training that was stopped; None where there is none."""
    if not file.is_file():
        return None
    try:
        with file.open("rb") as source, np.load(source, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, BadZipFile) as fault:
        raise StewardError(
            f"holds no training: {fault}", where=str(file), hint="delete it to train anew"
        ) from fault


def _examples(
    folder: Path, count: int, seed: int, done: Callable[[int, int], None]
) -> list[Example]:
    """Return examples from files, and make those that are not there yet."""
    found: list[Example] = []
    for first in range(seed, seed + count, _PER_FILE):
        last = min(first + _PER_FILE, seed + count)
        file = folder / f"scenes-{first}-{last}.npz"
        if not file.is_file():
            made = [
                make_example(each, world=WORLDS[each % len(WORLDS)]) for each in range(first, last)
            ]
            write_examples(file, made)
        found += read_examples(file)
        done(len(found), count)
    return found
