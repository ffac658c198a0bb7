"""One code, two worlds: what a policy does on live views is what it does in a replay."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
from live_agreement import CASES, Case, differences, random_trace


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_lab_and_live_start_stop_and_end_jobs_alike(case: Case) -> None:
    trace = random_trace(7, deadlines=case.deadlines, within_quota=case.name == "static-quota")

    assert differences(case, trace) == 0
