"""Rules on series over what was measured on an H200: which of them may fire in which workload.

How they were tuned, on which runs, and what that showed: docs/rules/tuning.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from told import steward

DATA = Path(os.environ.get("STEWARD_DATA", "../shared/data")) / "h200"
PACK = Path(__file__).parents[2] / "rules" / "telemetry"
# Runs last half a minute, so that little else can have lasted for long enough to be a finding.
MAY = {"STW-TEL-0016": {"h2d_copy_bound"}}


def recording(folder: Path, keep: Callable[[int], bool]) -> Path:
    """Write some of the runs, as if only those had been recorded: between them are gaps."""
    table = pl.read_csv(DATA / "telemetry.csv.gz", infer_schema=False)
    names = [name for number, name in enumerate(table["run"].unique().sort()) if keep(number)]
    table.filter(pl.col("run").is_in(names)).write_csv(folder / "telemetry.csv")
    marks = (DATA / "events.jsonl").read_text().splitlines()
    kept = [line for line in marks if json.loads(line)["run"] in names]
    (folder / "events.jsonl").write_text("\n".join(kept) + "\n")
    return folder / "telemetry.csv"


def found(file: Path) -> set[tuple[str, str]]:
    """Return which rule fires in which workload, by the times of what it says."""
    answer = steward("rules", "run", "--rules", PACK, "--telemetry", file, "--json")
    return {
        (each["rule"], workload)
        for each in answer.json["findings"]
        for workload, (from_s, to_s) in workloads().items()
        if each["first_t"] <= to_s and each["last_t"] >= from_s
    }


def workloads() -> dict[str, tuple[float, float]]:
    marks = [json.loads(line) for line in (DATA / "events.jsonl").read_text().splitlines()]
    times: dict[str, list[float]] = {}
    for mark in marks:
        times.setdefault(mark["workload"], []).append(mark["t"])
    return {name: (min(each), max(each)) for name, each in times.items()}


@pytest.mark.data
def test_a_finding_on_the_h200_is_of_its_workload_and_none_is_missed() -> None:
    may = {(rule, workload) for rule, names in MAY.items() for workload in names}

    assert found(DATA / "telemetry.csv.gz") == may


@pytest.mark.data
@pytest.mark.parametrize("part", range(3))
def test_gaps_between_runs_and_runs_beside_them_change_nothing(tmp_path: Path, part: int) -> None:
    file = recording(tmp_path, lambda number: number % 3 == part)

    assert found(file) <= {(rule, name) for rule, names in MAY.items() for name in names}
