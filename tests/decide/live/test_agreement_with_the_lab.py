"""One code, two worlds: what a policy does on live views is what it does in a replay."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.learn.experience import EDGES_S
from steward.model.decision import Decision
from steward.model.machines import machines_of
from steward.model.trace import Trace, trace_of
from steward.model.view import ClusterView
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.view_replay import ViewReplay

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
from live_agreement import CASES, Case, differences, edges_s, learned, random_trace


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
        pytest.param("las", 258, id="one starts with a level as another falls to it"),
        pytest.param("las", 358, id="two start in two looks at one instant"),
        pytest.param("las", 367, id="one falls to a level as others start in a second look"),
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


@pytest.mark.parametrize(
    ("title", "seed"), [("commons count deadlines", 1095), ("commons packed turns deadlines", 60)]
)
def test_a_moment_of_urgency_that_was_superseded_is_no_call_in_either(
    title: str, seed: int
) -> None:
    case = next(each for each in CASES if each.title == title)

    assert differences(case, random_trace(seed, deadlines=True, within_quota=False)) == (0, False)


LEVELS_S = [float(edge) for edge in EDGES_S if 0.0 < edge < 500.0]
CALLS_S = [0.0, 1.0, *LEVELS_S, 500.0]  # two jobs come, one reaches levels, and ends


def urgent_early() -> tuple[Trace, LabSettings]:
    """Return a job that would be urgent at 230 s, but already is at 60 s: few end after that."""
    trace = trace_of(
        "urgent early",
        submit_s=np.array([0.0, 1.0]),
        duration_s=np.array([500.0, 10.0]),
        gpus=np.ones(2),
        tenant=["a", "b"],
        job_id=["runs", "waits"],
        deadline_s=np.array([210_000.0, np.nan]),
    )
    return trace, LabSettings(quota={"a": 1, "b": 0}, placement="packed", every_level=True)


@dataclass(kw_only=True)
class Recorded:
    """Commons, and the times of the views that it was asked about."""

    name: str = "commons"
    asked_s: list[float] = field(default_factory=list)

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        self.asked_s.append(view.t_s)
        return Commons(moves=False).decide(view)


def test_live_replays_ask_at_moments_that_follow_from_present_beliefs_only() -> None:
    trace, settings = urgent_early()
    policy = Recorded()

    ViewReplay(
        trace=trace,
        machines=machines_of(1),
        policy=policy,
        settings=settings,
        estimators=learned(),
        levels_s=edges_s,
    ).run()

    assert policy.asked_s == pytest.approx(CALLS_S)


def test_the_lab_asks_at_moments_that_follow_from_present_beliefs_only() -> None:
    trace, settings = urgent_early()

    assert replay(trace, machines_of(1), "commons", settings).decisions == len(CALLS_S)
