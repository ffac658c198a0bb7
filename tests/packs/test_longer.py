"""Rules on series over runs of an H200 that go on for minutes: who fires is true, and nobody else.

What was seen and why each is judged so: docs/rules/tuning.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from stretched import stretched
from told import steward

SHARED = Path(os.environ.get("STEWARD_DATA", "../shared/data")) / "h200"
KINDS = Path(__file__).parents[1] / "data" / "h200-kinds"
PACK = Path(__file__).parents[2] / "rules" / "telemetry"
IDLE, FP32, LAUNCHES, STARVED = "STW-TEL-0001", "STW-TEL-0007", "STW-TEL-0008", "STW-TEL-0011"
PROCESSOR, SAVING, LINK = "STW-TEL-0012", "STW-TEL-0014", "STW-TEL-0016"
TRUE = {  # all others are sound, or nothing that a rule promises to find
    "bert_infer_b1": {LAUNCHES},
    "checkpoint_stalls": {SAVING},
    "gpt2_tiny_train_small": {LAUNCHES},
    "h2d_copy_bound": {LINK},
    "idle_allocated": {IDLE},
    "input_bound": {STARVED},
    "llama1b_decode_b1": {LAUNCHES},
    "llama1b_decode_b32": {LAUNCHES},
    "mobilenet_train_small": {LAUNCHES},
    "resnet50_infer_sparse": {IDLE},
    "rl_cpu_bound": {IDLE, PROCESSOR},
    "fp32_transformer_train": {FP32},
    "fp32_transformer_train+sparse_infer": {FP32},
    "gru_small_train": {LAUNCHES},
    "sparse_infer": {IDLE},
}
Change = Callable[[pl.DataFrame], pl.DataFrame]


def noise(table: pl.DataFrame) -> pl.DataFrame:
    """Let each value be wrong by a tenth."""
    random = np.random.default_rng(5)
    names = [name for name in table.columns if name.endswith(("_share", "_per_s", "_cores"))]
    off = {name: pl.Series(random.normal(1.0, 0.1, table.height)) for name in names}
    return table.with_columns((pl.col(name) * off[name]).clip(0.0) for name in names)


def gaps(table: pl.DataFrame) -> pl.DataFrame:
    """Lose a fifth of the values, a tenth of the rows, and nine seconds of each hundred."""
    random = np.random.default_rng(6)
    values = [name for name in table.columns if name not in ("t_s", "entity", "phase")]
    table = table.with_columns(
        pl.when(pl.Series(random.random(table.height) > 0.2)).then(pl.col(name)).alias(name)
        for name in values
    )
    kept = pl.Series(random.random(table.height) > 0.1)
    return table.filter(kept & ((pl.col("t_s") % 100) > 9))


def hot(table: pl.DataFrame) -> pl.DataFrame:
    """Draw more power and run hotter, as another H200 in another rack does."""
    names = ("gpu.power_watts", "gpu.temperature_celsius", "gpu.clock.sm_hz")
    return table.with_columns(pl.col(name) * 1.15 for name in names)


def fired(table: pl.DataFrame, file: Path) -> dict[str, set[str]]:
    table.write_csv(file)
    answer = steward("rules", "run", "--rules", PACK, "--telemetry", file, "--json")
    found: dict[str, set[str]] = {}
    for each in answer.json["findings"]:
        found.setdefault(each["entity"].split("/")[0], set()).add(each["rule"])
    return found


@pytest.mark.data
@pytest.mark.parametrize("change", [noise, gaps, hot])
def test_work_that_goes_on_is_found_for_what_it_is(tmp_path: Path, change: Change) -> None:
    both = [stretched(folder, seconds=400, every_s=2) for folder in (SHARED, KINDS)]
    table = change(pl.concat(both, how="diagonal_relaxed").sort("t_s", "entity"))

    assert fired(table, tmp_path / "long.csv") == TRUE


@pytest.mark.data
def test_kinds_of_work_that_nobody_tuned_on_raise_nothing_in_seconds() -> None:
    file = KINDS / "telemetry.csv.gz"
    answer = steward("rules", "run", "--rules", PACK, "--telemetry", file, "--json")

    assert answer.json["samples"] == 1794
    assert answer.json["findings"] == []
