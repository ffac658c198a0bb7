"""A comparison has every figure under its name, is the same for a seed, and leaves nobody out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from steward.cli.output import plain
from steward.errors import StewardError
from steward.model.machines import machines_of
from steward.model.trace import RowFault, trace_of
from steward.sim.lab.compare import ComparisonPlan, compare
from steward.sim.lab.judge import FIGURES
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.sweep import sweep
from steward.sim.lab.trials import StudyInput
from tiny_replays import small_trace, tiny_run

BASE = StudyInput(trace=small_trace(80), machines=machines_of(8), run=tiny_run)
BOTH = ("fifo", "short-first")
PROMISED = (
    *("jct_mean_s", "jct_p50_s", "jct_p99_s", "wait_mean_s", "makespan_s", "utilisation"),
    *("fairness_compliance", "preemptions", "cpu_s", "jobs", "unfinished"),
)


def record(
    *policies: str, plan: ComparisonPlan | None = None, base: StudyInput = BASE
) -> dict[str, Any]:
    return compare(base, policies or BOTH, LabSettings(), plan).as_record()


def test_the_record_has_what_was_promised_under_its_name() -> None:
    found = record()

    assert list(found["policies"]) == list(BOTH)
    for figures in found["policies"].values():
        for name in PROMISED:
            assert isinstance(figures[name], int | float), name
        for name in set(PROMISED) - {"cpu_s"}:
            low, high = figures["intervals"][name]
            assert low <= figures[name] <= high, name
        assert set(FIGURES) <= set(figures)
    assert found["trace"]["jobs"] == 80
    assert found["trace"]["synthetic"] is True
    assert found["cluster"]["gpus"] == 8


def test_the_same_seed_gives_the_same_bytes() -> None:
    first, again = (json.dumps(plain(record())) for _ in range(2))

    assert first == again


def test_differences_are_to_the_baseline() -> None:
    found = record(plan=ComparisonPlan(baseline="short-first"))

    means = {name: figures["jct_mean_s"] for name, figures in found["policies"].items()}
    change = found["differences"]["fifo"]["jct_mean_s"]
    assert list(found["differences"]) == ["fifo"]
    assert change["difference"] == pytest.approx(means["fifo"] - means["short-first"])
    assert change["interval"][0] <= change["difference"] <= change["interval"][1]
    assert 0 < change["p"] <= 1


def test_a_baseline_must_be_among_the_policies() -> None:
    with pytest.raises(StewardError, match="baseline 'srtf' is not among the policies"):
        record(plan=ComparisonPlan(baseline="srtf"))


def test_a_policy_that_cannot_run_does_not_stop_the_others() -> None:
    found = record("pollux", "fifo")

    assert list(found["policies"]) == ["fifo"]
    assert found["failed"]["pollux"]["problem"] == "pollux needs what this trace has not"
    assert found["baseline"] == "fifo"


def test_when_no_policy_can_run_there_are_no_figures() -> None:
    found = record("pollux")

    assert (found["policies"], found["baseline"], found["differences"]) == ({}, "", {})


def test_rows_that_were_not_used_are_told_whoever_left_them_out() -> None:
    fault = RowFault(reason="negative duration", rows=3, examples=("line 7: -1",))
    trace = replace(small_trace(20), faults=(fault,))
    trace.gpus[4] = 64.0

    found = record(base=replace(BASE, trace=trace))["trace"]

    assert (found["jobs"], found["rows_left_out"]) == (19, 4)
    assert [each["reason"] for each in found["left_out"]] == [
        "negative duration",
        "larger than the cluster (8 GPUs)",
    ]


def test_a_trace_of_which_nothing_fits_is_refused() -> None:
    trace = trace_of("huge", submit_s=[0], duration_s=[1], gpus=[64])

    with pytest.raises(StewardError, match=r"no job of the trace can run .* larger than"):
        record(base=replace(BASE, trace=trace))


def test_figures_of_several_runs_are_their_means() -> None:
    plan = ComparisonPlan(seeds=(0, 1), windows=2)

    found = compare(BASE, ["fifo"], LabSettings(), plan)

    runs = found.judged["fifo"]
    assert len(runs) == 4
    assert found.figures["fifo"]["jct_mean_s"] == pytest.approx(
        np.mean([run.measures.jct_mean_s for run in runs])
    )
    assert found.as_record()["settings"]["windows"] == 2


def test_series_are_there_when_asked_for() -> None:
    found = compare(BASE, ["fifo"], LabSettings()).as_record(series=True)

    line = found["policies"]["fifo"]["timeline"]
    assert len(line["edges_s"]) == len(line["queue_mean"]) + 1
    json.dumps(plain(found), allow_nan=False)


# -- sweeps ------------------------------------------------------------------------------------


def test_a_sweep_compares_at_every_point_of_the_grid() -> None:
    grid = {"load": [0.5, 2.0], "checkpoint_s": [0, 60]}

    found = sweep(BASE, BOTH, LabSettings(), ComparisonPlan(), vary=grid)

    waits = {
        tuple(point.varied.values()): point.comparison.figures["fifo"]["wait_mean_s"]
        for point in found.points
    }
    assert list(waits) == [(0.5, 0), (0.5, 60), (2.0, 0), (2.0, 60)]
    assert waits[0.5, 0] < waits[2.0, 0] < waits[2.0, 60]
    rows = list(found.rows())
    assert len(rows) == 8
    assert list(rows[0])[:3] == ["load", "checkpoint_s", "policy"]
    assert [each["varied"] for each in found.as_record()["points"]][1] == {
        "load": 0.5,
        "checkpoint_s": 60,
    }


def test_the_size_of_the_cluster_and_options_can_vary() -> None:
    grid = {"gpus": [8, 16], "option.patience": [1, True]}

    found = sweep(BASE, ["fifo"], LabSettings(), ComparisonPlan(), vary=grid)

    last = found.points[-1].comparison
    assert last.base.machines.total_gpus == 16
    assert last.settings.policy_options == {"patience": True}
    assert (
        last.figures["fifo"]["wait_mean_s"]
        < found.points[0].comparison.figures["fifo"]["wait_mean_s"]
    )


@pytest.mark.parametrize(
    ("vary", "says"),
    [
        ({"laod": [1]}, "there is no thing to vary called 'laod'"),
        ({"load": [0]}, "load cannot be '0'"),
        ({"load": ["fast"]}, "load cannot be 'fast'"),
        ({"checkpoint_s": [-1]}, "checkpoint_s cannot be '-1'"),
        ({"gpus": [True]}, "gpus cannot be 'True'"),
    ],
)
def test_what_cannot_vary_is_refused_before_anything_runs(vary: Any, says: str) -> None:
    with pytest.raises(StewardError, match=says):
        sweep(BASE, ["fifo"], LabSettings(), ComparisonPlan(), vary=vary)
