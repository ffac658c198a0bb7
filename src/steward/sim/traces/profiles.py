"""Measured profiles of training applications, in the layout of the Pollux and Sia artifacts.

`profile_placements.csv.gz` and `profile_scalability.csv.gz` hold step times (with a column
`gpu_type` where there are several), `profile_validation.csv.gz` how the application learns. A
folder without the last one shares it with a folder beside it, given as `learning_from`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from steward.errors import StewardError
from steward.model.application import ApplicationProfile, Learning, StepTimes

__all__ = ["read_profiles"]

# What the artifacts state in their programs and not in their tables.
_MOST_LOCAL = {("yolov3", "t4"): 8, ("deepspeech2", "rtx"): 57}  # samples that fit one GPU
_MOST_REPLICAS = {"ncf": 1}  # does not gain from a second GPU
_RESTART_S = {
    "cifar10": 50.0,
    "deepspeech2": 25.0,
    "bert": 120.0,
    "yolov3": 80.0,
    "imagenet": 250.0,
    "ncf": 15.0,
}
_SLOWDOWN = {
    "cifar10": 1.8,
    "imagenet": 1.2,
    "yolov3": 1.2,
    "bert": 1.2,
    "deepspeech2": 1.2,
    "ncf": 1.5,
}


def read_profiles(
    folder: Path, *, learning_from: Path | None = None
) -> dict[str, ApplicationProfile]:
    """Read every application of a folder that has both step times and a learning curve.

    Where GPU types are told apart (Sia), restart times and the slowdown of real runs are those
    that its authors measured; where they are not (Pollux, one type: T4), 30 s and none.
    """
    placements = _table(folder / "profile_placements.csv.gz")
    counts = _table(folder / "profile_scalability.csv.gz")
    curves = _table((learning_from or folder) / "profile_validation.csv.gz")
    several = "gpu_type" in placements.columns
    if not several:
        placements = placements.with_columns(gpu_type=pl.lit("t4"))
        counts = counts.with_columns(gpu_type=pl.lit("t4"))
    known = curves["application"].unique(maintain_order=True).to_list()
    return {
        name: ApplicationProfile(
            name=name,
            learning=_learning(curves.filter(application=name)),
            step_times=_step_times(placements.filter(application=name), counts, name),
            restart_s=_RESTART_S.get(name, 30.0) if several else 30.0,
            slowdown=_SLOWDOWN.get(name, 1.0) if several else 1.0,
            most_replicas=_MOST_REPLICAS.get(name, 64),
        )
        for name in placements["application"].unique(maintain_order=True).to_list()
        if name in known
    }


def _table(path: Path) -> pl.DataFrame:
    if not path.exists():
        hint = "a profile folder has profile_placements, _scalability and _validation.csv.gz"
        raise StewardError("the profile is not there", where=str(path), hint=hint)
    return pl.read_csv(path, schema_overrides={"placement": pl.String}, infer_schema_length=None)


def _learning(rows: pl.DataFrame) -> Learning:
    batches = tuple(sorted(rows["batch_size"].unique().to_list()))
    epochs = min(rows.filter(batch_size=batch).height for batch in batches)

    def grid(column: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        by_batch = (rows.filter(batch_size=b).sort("epoch_index")[column] for b in batches)
        return np.array([values.head(epochs).to_numpy() for values in by_batch], np.float64)

    return Learning(
        batches=batches,
        progress=grid("progress"),
        steps=grid("iteration"),
        grad_sqr=grid("grad_sqr"),
        grad_var=grid("grad_var"),
    )


def _step_times(placements: pl.DataFrame, counts: pl.DataFrame, name: str) -> dict[str, StepTimes]:
    measured = ["local_bsz", "step_time_s", "sync_time_s"]
    found: dict[str, StepTimes] = {}
    for gpu_type in placements["gpu_type"].unique(maintain_order=True).to_list():
        rows = placements.filter(gpu_type=gpu_type)
        wide = counts.filter(application=name, gpu_type=gpu_type)
        by_shape = {
            tuple(int(digit) for digit in shape): table.select(measured).sort("local_bsz")
            for (shape,), table in rows.group_by(["placement"], maintain_order=True)
        }
        largest = int(rows["local_bsz"].to_numpy().max())
        found[gpu_type] = StepTimes(
            by_shape={s: t.to_numpy().astype(np.float64) for s, t in by_shape.items()},
            by_count=wide.select("num_nodes", "num_replicas", *measured)
            .to_numpy()
            .astype(np.float64),
            max_local=min(_MOST_LOCAL.get((name, gpu_type), largest), largest),
        )
    return found
