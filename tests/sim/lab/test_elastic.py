import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.scheduling.elastic import ELASTIC_POLICIES
from steward.decide.scheduling.elastic.interface import ElasticChoice, ElasticView, Needs, Placement
from steward.errors import StewardError
from steward.model.goodput import alone_s
from steward.model.machines import MachineChange, Machines, machines_of
from steward.model.replay import Replay
from steward.model.trace import Trace
from steward.sim.lab.elastic import replay_elastic
from tiny_profiles import profile, trace, two_types

DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
TOY = {"toy": profile()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Places every job as told, round by round; the last line holds on."""

    rounds: tuple[dict[int, Placement], ...]
    name: str = "script"
    needs: Needs = "size"
    fixed_batch: bool = True

    def decide(self, moment: ElasticView) -> ElasticChoice:
        turn = int(moment.memory or 0)  # type: ignore[call-overload]
        here = self.rounds[min(turn, len(self.rounds) - 1)]
        return ElasticChoice(placements=here, memory=turn + 1)


def run(jobs: Trace, policy: Any, machines: Machines | None = None, **settings: Any) -> Replay:
    machines = machines or machines_of(8, gpus_per_node=4, gpu_type="t4")
    if isinstance(policy, str):
        policy = ELASTIC_POLICIES[policy]()
    return replay_elastic(jobs, machines, policy, **({"profiles": TOY} | settings))


def test_a_job_alone_takes_its_time_and_one_restart_from_the_next_round() -> None:
    made = run(trace(10.0), Script(rounds=({0: (0, 0)},)))

    alone = alone_s(TOY["toy"], replicas=2, batch=64.0)
    assert made.start_s[0] == 60.0
    assert made.end_s[0] == pytest.approx(60.0 + 30.0 + alone, abs=4)  # whole seconds per epoch
    assert made.preemptions[0] == 0
    assert made.lost_s[0] == 30.0


def test_every_change_of_gpus_costs_a_restart() -> None:
    calm = run(trace(10.0), Script(rounds=({0: (0, 0)},)))

    moved = run(trace(10.0), Script(rounds=({0: (0, 0)}, {0: (1, 1)})))

    assert moved.end_s[0] == pytest.approx(calm.end_s[0] + 30.0, abs=2)
    assert (moved.preemptions[0], moved.lost_s[0]) == (1, 60.0)
    assert moved.segments.node.tolist() == [0, 1]


def test_a_job_without_gpus_waits() -> None:
    made = run(trace(10.0), Script(rounds=({}, {}, {0: (0, 0)})))

    assert made.start_s[0] == 180.0


def test_spans_add_up_to_the_work_of_the_job() -> None:
    made = run(trace(10.0), Script(rounds=({0: (0, 0)}, {0: (0,)}, {0: (0, 0, 1)}, {0: (0, 0)})))

    spans = made.segments
    done_s = (spans.speed * (spans.stop_s - spans.start_s)).sum()
    assert done_s == pytest.approx(alone_s(TOY["toy"], replicas=2, batch=64.0), rel=1e-9)
    assert spans.gpus.tolist() == [2, 1, 3, 2]
    assert spans.nodes.tolist() == [1, 1, 2, 1]


def test_the_duration_of_the_trace_is_the_measure_of_work_where_there_is_one() -> None:
    jobs = replace(trace(10.0), duration_s=np.array([500.0]))

    spans = run(jobs, Script(rounds=({0: (0, 0)},))).segments

    assert (spans.speed * (spans.stop_s - spans.start_s)).sum() == pytest.approx(500.0)


def test_the_profile_says_how_long_a_restart_takes_if_nobody_else_does() -> None:
    made = run(
        trace(10.0),
        Script(rounds=({0: (0, 0)},)),
        profiles={"toy": two_types()},
        restart_s=None,
    )

    assert made.lost_s[0] == 20.0


def test_a_job_over_two_types_goes_at_the_pace_of_the_slower() -> None:
    two = replace(machines_of(8, gpus_per_node=4), type=np.array([0, 1]), types=("a100", "t4"))
    known = {"profiles": {"toy": two_types()}}

    fast, slow, both = (
        run(trace(10.0), Script(rounds=({0: nodes},)), two, **known).end_s[0]
        for nodes in ((0, 0), (1, 1), (0, 1))
    )

    assert fast < slow <= both


def test_a_profile_of_one_gpu_type_stands_for_whatever_the_machines_are() -> None:
    made = run(trace(10.0), "optimus", machines_of(4, gpus_per_node=4, gpu_type="unheard-of"))

    assert np.isfinite(made.end_s[0])


def test_a_job_loses_its_gpus_when_a_node_goes_down_and_comes_back_with_it() -> None:
    machines = replace(
        machines_of(4, gpus_per_node=4, gpu_type="t4"),
        changes=(
            MachineChange(t_s=100.0, node=0, up=False),
            MachineChange(t_s=400.0, node=0, up=True),
        ),
    )

    made = run(trace(10.0, gpus=4.0), "elastic-tiresias", machines)

    assert made.preemptions[0] == 1
    assert made.segments.stop_s[0] == 120.0
    assert made.segments.start_s[1] == 420.0
    assert np.isfinite(made.end_s[0])


def test_a_job_larger_than_the_cluster_is_told_and_the_others_run() -> None:
    jobs = replace(trace(10.0, 20.0), gpus=np.array([99.0, 1.0]))

    made = run(jobs, "elastic-tiresias")

    assert np.isnan(made.end_s[0])
    assert np.isfinite(made.end_s[1])
    assert made.notes == ("1 jobs never finished: they fit on no machine",)


def test_jobs_without_a_profile_are_told_and_the_others_run() -> None:
    jobs = replace(trace(10.0, 20.0), model=np.array([0, -1]))

    made = run(jobs, "optimus")

    assert made.notes == ("1 jobs have no profile and did not run",)
    assert np.isfinite(made.end_s[0])


def test_a_trace_without_any_profile_is_refused() -> None:
    with pytest.raises(StewardError, match="no job of this trace has a profile") as refused:
        run(trace(10.0, model="other"), "pollux")

    assert refused.value.hint == "profiles of: toy"


def test_nothing_to_do_is_done_at_once() -> None:
    made = run(trace(), "sia")

    assert len(made.segments) == 0
    assert made.decisions == 0


def test_idle_time_is_skipped() -> None:
    made = run(trace(10.0, 1e6), Script(rounds=({0: (0, 0), 1: (0, 0)},)))

    assert made.decisions < 60
    assert made.start_s[1] == 1_000_020.0


def test_a_job_alone_grows_step_by_step_under_pollux_and_sia() -> None:
    for policy in ("pollux", "sia"):
        made = run(trace(10.0, gpus=1.0), policy)

        gpus = made.segments.gpus
        assert gpus[0] == 1
        assert gpus.max() > 1
        assert (gpus[1:] <= 2 * np.maximum.accumulate(gpus)[:-1]).all()


def test_an_application_that_gains_nothing_from_more_gpus_keeps_one() -> None:
    made = run(trace(10.0), "pollux", profiles={"toy": profile(most_replicas=1)})

    assert made.segments.gpus.tolist() == [1.0]


@pytest.mark.parametrize("policy", ELASTIC_POLICIES)
@given(
    submits=st.lists(st.integers(0, 2000), min_size=1, max_size=6),
    gpus=st.integers(1, 4),
    nodes=st.integers(1, 3),
)
@settings(max_examples=8)
def test_no_gpu_is_held_twice_time_goes_forward_and_all_work_is_done(
    policy: str, submits: list[int], gpus: int, nodes: int
) -> None:
    jobs = trace(*map(float, submits), gpus=float(gpus))
    machines = machines_of(4 * nodes, gpus_per_node=4, gpu_type="t4")

    made = run(jobs, policy, machines)

    spans = made.segments
    assert np.isfinite(made.end_s).all()
    assert (made.start_s >= jobs.submit_s).all()
    assert (spans.stop_s > spans.start_s).all()
    for moment in np.unique(spans.start_s):
        here = (spans.start_s <= moment) & (moment < spans.stop_s)
        assert spans.gpus[here].sum() <= 4 * nodes
        assert len(np.unique(spans.job[here])) == here.sum()
    work = np.bincount(spans.job, spans.speed * (spans.stop_s - spans.start_s))
    assert work == pytest.approx(alone_s(TOY["toy"], replicas=gpus, batch=64.0))


@pytest.mark.parametrize("policy", ELASTIC_POLICIES)
def test_the_same_input_gives_the_same_replay(policy: str) -> None:
    jobs = trace(10.0, 200.0, 300.0)

    once, again = run(jobs, policy), run(jobs, policy)

    assert once.end_s.tolist() == again.end_s.tolist()
    assert once.segments.speed.tolist() == again.segments.speed.tolist()


@pytest.mark.data
@pytest.mark.parametrize("place", [0, 1, 2, 3], ids=["tiresias", "optimus", "pollux", "sia"])
def test_the_peers_simulators_agree(place: int, anchors: list[dict[str, Any]]) -> None:
    assert anchors[place]["holds"], anchors[place]


@pytest.fixture(scope="module")
def anchors() -> list[dict[str, Any]]:
    assert DATA.exists(), f"the shared data folder is not at {DATA}"
    folder = str(Path(__file__).resolve().parents[3] / "benchmarks" / "agreement")
    sys.path.insert(0, folder)
    try:
        import elastic
    finally:
        sys.path.remove(folder)
    found: list[dict[str, Any]] = elastic.lines(quick=True)
    return found
