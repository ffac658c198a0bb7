"""`steward fabric train`: scenes, what they measure, and a network that learns the residual."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note

__all__ = ["train"]

Folder = Annotated[
    Path,
    typer.Option(
        "--folder", metavar="DIR", help="Keeps scenes and the training: called again, it goes on."
    ),
]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the network goes.")]
Scenes = Annotated[
    int, typer.Option("--scenes", min=1, max=1_000_000, help="Scenes to learn from.")
]
Steps = Annotated[int, typer.Option("--steps", min=1, max=1_000_000, help="Steps of training.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the training.")]

_EVERY = 5  # files of scenes between two notes


def train(
    *,
    folder: Folder = Path("fabric-training"),
    out: Out = Path("residual.npz"),
    scenes: Scenes = 24_000,
    steps: Steps = 14_000,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train the graph network that corrects the mean field of shared links.

    Makes scenes, simulates what jobs measure on them, and trains with torch (extra `torch`). What
    is exported is used without torch. Stopped at any moment, the same call goes on.
    """
    from steward.learn.topology.training import Progress, TrainingPlan
    from steward.sim.fabric.residual_training import ResidualRun, train_residual

    last: list[Progress] = []

    def scenes_done(done: int, of: int) -> None:
        if done == of or done // 500 % _EVERY == 0:
            print_note(f"{done} of {of} scenes")

    def trained(progress: Progress) -> None:
        last[:] = [progress]
        print_note(
            f"step {progress.step} of {progress.steps}: error {progress.error:.1%} on scenes held "
            f"out (mean field {progress.mean_field_error:.1%})"
        )

    run = ResidualRun(scenes=scenes, plan=TrainingPlan(steps=steps, seed=seed))
    with suppress(BrokenPipeError):
        print_note(f"scenes and training are kept in {folder}")
    network = train_residual(folder, run, scenes_done=scenes_done, trained=trained)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(network.to_bytes())
    found = {
        "file": str(out),
        "parameters": network.parameters,
        "scenes": scenes,
        "steps": steps,
        "error": last[0].error if last else None,
        "mean_field_error": last[0].mean_field_error if last else None,
    }
    if as_json:
        print_json(found)
    else:
        print_lines([f"{out}: {network.parameters} parameters, learned from {scenes} scenes"])
