"""Baskets are made by Dask workers that are jobs of a real Slurm, with the bytes of one process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from beds.slurm import slurm_bed
from patience import LONG_S
from telemetry_tables import reveal_table

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def test_workers_of_slurm_give_the_bytes_of_one_process(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(300):  # more than one part
        reveal_table(rows=40 + i % 7, seed=i).write_csv(folder / f"r{i:03}.csv")

    def baskets(out: Path, *options: str, env: dict[str, str] | None = None) -> dict[str, object]:
        command = [sys.executable, "-m", "steward", "learn", "baskets", str(folder), "--window"]
        done = subprocess.run(
            [*command, "1s", "--out", str(out), "--json", *options],
            env=env, capture_output=True, text=True, timeout=10 * LONG_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        report: dict[str, object] = json.loads(done.stdout)
        return report

    alone = baskets(tmp_path / "alone.parquet")
    with TemporaryDirectory(prefix="steward-slurm-") as place, slurm_bed(Path(place)) as bed:
        env = {
            **bed.env,
            "DASK_JOBQUEUE__SLURM__CORES": "1",
            "DASK_JOBQUEUE__SLURM__MEMORY": "1GiB",
            "DASK_JOBQUEUE__SLURM__JOB_MEM": "100M",
            "DASK_JOBQUEUE__SLURM__LOG_DIRECTORY": place,
        }
        options = ("--scheduler", "slurm", "--workers", "2")
        on_slurm = baskets(tmp_path / "slurm.parquet", *options, env=env)
        ran = bed.run("sacct", "-n", "-X", "-P", "-o", "jobname").split()

    assert {**on_slurm, "out": ""} == {**alone, "out": ""}
    assert (tmp_path / "slurm.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()
    assert ran.count("dask-worker") == 2
