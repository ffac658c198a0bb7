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

    assert differences(case, trace) == (0, False)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(9, id="borrowers that began at once, and not in the order they came"),
        pytest.param(129, id="jobs stopped in several looks at one instant"),
    ],
)
def test_kueue_takes_back_from_the_same_borrowers_in_both(seed: int) -> None:
    kueue = next(case for case in CASES if case.name == "kueue")

    assert differences(kueue, random_trace(seed, deadlines=False, within_quota=False)) == (0, False)


@pytest.mark.parametrize(("title", "seed"), [("commons packed", 197), ("commons count", 43)])
def test_levels_that_two_jobs_reach_at_one_instant_are_one_call_in_both(
    title: str, seed: int
) -> None:
    case = next(each for each in CASES if each.title.startswith(title))

    trace = random_trace(seed, deadlines=case.deadlines, within_quota=False)

    assert differences(case, trace) == (0, False)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param("las", 26, id="a job that fell, waited, and starts beside its equals"),
        pytest.param("las", 96, id="a job that starts again exactly at a threshold"),
        pytest.param("tiresias", 118, id="jobs begun in two looks at one instant"),
    ],
)
def test_jobs_of_one_level_keep_their_order_in_both(name: str, seed: int) -> None:
    case = next(each for each in CASES if each.name == name)

    assert differences(case, random_trace(seed, deadlines=False, within_quota=False)) == (0, False)


def test_two_levels_a_rounding_error_apart_are_told_as_that() -> None:
    gittins = next(each for each in CASES if each.name == "gittins")

    jobs, rounded = differences(gittins, random_trace(108, deadlines=False, within_quota=False))

    assert (jobs > 0) == rounded
