"""Cuts the phase shapes of the simulated cluster out of real measurements on one H200.

    python scripts/make_shapes.py [FOLDER] [OUTPUT]

FOLDER holds `telemetry.csv.gz` and `events.jsonl` (default: $STEWARD_DATA/h200, else
../shared/data/h200). The result is committed, so nobody needs the measurements to run steward.
Every cut is a line of `CUTS`: where it lies between two marks of the recording, and what of it is
steady. CPU time of the host itself is taken off; what is left is the job's.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["CUTS", "Cut", "main"]

Floats = NDArray[np.float64]

STEP_S = 0.1
MIB = 2**20
ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "src" / "steward" / "sim" / "shapes.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One shape: the `nth` stretch of `run` that begins with `mark`, less its transients.

    `steady` drops the ramp: all before the GPU first reaches half of what it reaches later.
    """

    shape: str
    run: str
    mark: str = "start"
    nth: int = 0
    skip_s: float = 0.3
    drop_s: float = 0.3
    steady: bool = True


CUTS: tuple[Cut, ...] = (
    Cut(shape="train.resnet50", run="a-00"),
    Cut(shape="train.gpt2", run="a-01"),
    Cut(shape="train.bert", run="a-02"),
    Cut(shape="train.vit", run="a-03"),
    Cut(shape="train.llama1b", run="a-04"),
    Cut(shape="train.dlrm", run="a-07"),
    Cut(shape="train.unet", run="a-08"),
    Cut(shape="train.mobilenet_small", run="a-09"),
    Cut(shape="train.gpt2_tiny", run="a-10"),
    Cut(shape="train.checkpointed", run="b-04", mark="train", nth=1),
    Cut(shape="infer.decode_b1", run="a-11"),
    Cut(shape="infer.decode_b32", run="a-12"),
    Cut(shape="infer.prefill", run="a-13"),
    Cut(shape="infer.resnet50_b64", run="a-14"),
    Cut(shape="infer.resnet50_sparse", run="a-15"),
    Cut(shape="infer.bert_b1", run="a-16"),
    Cut(shape="input_bound", run="b-01", mark="input_bound"),
    Cut(shape="rl_cpu_bound", run="b-06", mark="rl_cpu_bound"),
    Cut(shape="h2d_copy_bound", run="b-07", mark="h2d_copy_bound"),
    Cut(shape="membw_bound", run="b-08", mark="membw_bound"),
    Cut(shape="gemm_bound", run="b-09", mark="gemm_bound"),
    Cut(shape="memory_leak", run="b-10", mark="memory_leak"),
    # The first 1.2 s of compiling still set the device up; what follows is the compiler at work.
    Cut(shape="compile", run="b-02", mark="compile", skip_s=1.2, steady=False),
    Cut(shape="dataset_load", run="b-03", mark="dataset_load", steady=False),
    # The first mark of this name lies in the imports; the second is a real checkpoint. NVML's
    # window shows the training before it for the first 0.4 s.
    Cut(shape="checkpoint", run="b-04", mark="checkpoint", nth=1, skip_s=0.4, steady=False),
    # Power takes 1.3 s to fall, and NVML's window shows the training for 0.2 s.
    Cut(shape="idle_allocated", run="b-00", mark="idle_allocated", skip_s=2.0, steady=False),
)


def _rate(total: Floats, t_s: Floats) -> Floats:
    """Turn a cumulative counter into a rate; the first value of each run is the second's."""
    step = np.diff(t_s)
    rate = np.append(np.nan, np.diff(total) / step)
    rate[np.append(True, step > 5 * STEP_S)] = np.nan  # a gap between two runs
    return rate


def read_samples(folder: Path) -> pl.DataFrame:
    """Return the recording with our names and units, rates instead of counters."""
    raw = pl.read_csv(folder / "telemetry.csv.gz")
    t_s = raw["t"].to_numpy().astype(np.float64)
    column = {
        name: raw[name].cast(pl.Float64, strict=False).to_numpy()
        for name in raw.columns
        if name != "run"
    }
    cpu_s = (column["cpu_user_ticks"] + column["cpu_system_ticks"]) / 100.0
    return pl.DataFrame(
        {
            "run": raw["run"],
            "t_s": t_s,
            "gpu.busy_share": column["gpu_util"] / 100.0,
            "gpu.sm.active_share": column["sm_active"] / 100.0,
            "gpu.memory.used_bytes": column["fb_used_mib"] * MIB,
            "gpu.power_watts": column["power_w"],
            "gpu.temperature_celsius": column["temp_c"],
            "job.cpu.busy_cores": _rate(cpu_s, t_s),
            "job.disk.read_bytes_per_s": _rate(column["disk_read_bytes_total"], t_s),
            "job.disk.write_bytes_per_s": _rate(column["disk_write_bytes_total"], t_s),
        }
    ).with_columns(pl.selectors.float().fill_nan(None).backward_fill().fill_null(0.0))


def read_marks(folder: Path) -> dict[str, list[tuple[float, str]]]:
    """Return the phase marks of each run, in order."""
    marks: dict[str, list[tuple[float, str]]] = {}
    for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["phase"] != "summary":
            marks.setdefault(event["run"], []).append((float(event["t"]), str(event["phase"])))
    return marks


def host_background(samples: pl.DataFrame, marks: dict[str, list[tuple[float, str]]]) -> float:
    """Return the cores that the host keeps busy by itself: seen after each run's exit."""
    after = [
        samples.filter((pl.col("run") == run) & (pl.col("t_s") > lines[-1][0] + 0.3))
        for run, lines in marks.items()
    ]
    return float(pl.concat(after)["job.cpu.busy_cores"].to_numpy().mean())


def _steady_from(busy: Floats) -> int:
    level = np.quantile(busy, 0.75) / 2
    return int(np.argmax(busy >= max(level, 0.01))) + round(1.0 / STEP_S)


def cut_shape(cut: Cut, samples: pl.DataFrame, lines: list[tuple[float, str]]) -> pl.DataFrame:
    """Return the rows of one shape, without its transients."""
    begins = [i for i, (_, phase) in enumerate(lines) if phase == cut.mark][cut.nth]
    from_s, to_s = lines[begins][0], lines[begins + 1][0]
    rows = samples.filter(
        (pl.col("run") == cut.run)
        & (pl.col("t_s") >= from_s + cut.skip_s)
        & (pl.col("t_s") < to_s - cut.drop_s)
    )
    if cut.steady:
        rows = rows.slice(_steady_from(rows["gpu.busy_share"].to_numpy()))
    return rows.drop("run", "t_s").insert_column(0, pl.Series("shape", [cut.shape] * rows.height))


def less_background(rows: pl.DataFrame, background: float) -> pl.DataFrame:
    """Take the host's own CPU time off the mean and keep the form of the series.

    Clipping each 100 ms at zero instead would leave half of the background in an idle job, because
    the kernel counts in ticks of 10 ms.
    """
    cores = rows["job.cpu.busy_cores"].to_numpy()
    mean = float(cores.mean())
    factor = max(0.0, mean - background) / mean if mean > 0 else 0.0
    return rows.with_columns(pl.Series("job.cpu.busy_cores", cores * factor))


def unallocated(samples: pl.DataFrame, marks: dict[str, list[tuple[float, str]]]) -> pl.DataFrame:
    """Return the shape of a GPU that nobody holds: the first run's seconds before its start."""
    run = min(marks)
    rows = samples.filter((pl.col("run") == run) & (pl.col("t_s") < marks[run][0][0] - 1.0))
    host = [name for name in rows.columns if name.startswith("job.")]
    rows = rows.drop("run", "t_s").with_columns(pl.lit(0.0).alias(name) for name in host)
    return rows.insert_column(0, pl.Series("shape", ["unallocated"] * rows.height))


def main(arguments: list[str]) -> None:
    """Write the shapes and print what they look like."""
    shared = Path(os.environ.get("STEWARD_DATA", ROOT.parent / "shared" / "data"))
    folder = Path(arguments[0]) if arguments else shared / "h200"
    output = Path(arguments[1]) if len(arguments) > 1 else OUTPUT
    samples, marks = read_samples(folder), read_marks(folder)
    background = host_background(samples, marks)
    shapes = [less_background(cut_shape(cut, samples, marks[cut.run]), background) for cut in CUTS]
    whole = pl.concat([*shapes, unallocated(samples, marks)])
    whole = whole.with_columns(pl.selectors.float().round(4).cast(pl.Float32))
    whole.write_parquet(output, compression="zstd", compression_level=19)
    size = output.stat().st_size
    print(f"{output}: {whole.height} rows, {size} bytes; host background {background:.3f} cores")
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=160, float_precision=2):
        print(whole.group_by("shape", maintain_order=True).agg(pl.len(), pl.all().mean()))


if __name__ == "__main__":
    main(sys.argv[1:])
