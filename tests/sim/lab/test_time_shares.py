from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.scheduling.time_shares import TIME_SHARE_POLICIES
from steward.decide.scheduling.time_shares.gandiva import Gandiva
from steward.decide.scheduling.time_shares.isolated import Isolated
from steward.decide.scheduling.time_shares.max_min import MaxMin
from steward.decide.scheduling.time_shares.shockwave import Shockwave
from steward.decide.scheduling.time_shares.themis import Themis
from steward.decide.scheduling.time_shares.typed_fifo import TypedFifo
from steward.model.machines import MachineChange, Machines, machines_of
from steward.model.replay import Replay
from steward.model.throughput import throughputs_of
from steward.model.trace import Trace, trace_of
from steward.sim.lab.time_shares import replay_time_shares
from steward.sim.traces import read_trace
from steward.sim.traces.locate import data_folder
from steward.sim.traces.throughputs import read_throughputs

RATES = throughputs_of(
    "rates",
    solo=[
        ("v100", "lm", 1, 4.0, True),
        ("k80", "lm", 1, 1.0, True),
        ("v100", "gan", 1, 2.0, True),
        ("k80", "gan", 1, 2.0, True),
    ],
    pairs=[
        (kind, (one, 1), (other, 1), 0.9 * rates[one], 0.9 * rates[other])
        for kind, rates in (("v100", {"lm": 4.0, "gan": 2.0}), ("k80", {"lm": 1.0, "gan": 2.0}))
        for one in ("lm", "gan")
        for other in ("lm", "gan")
    ],
    reference="v100",
)


def jobs(*rows: tuple[float, float, float], **columns: Any) -> Trace:
    """Return a trace of (submit, duration, GPUs)."""
    submit, duration, gpus = zip(*rows, strict=True)
    return trace_of("tiny", submit_s=submit, duration_s=duration, gpus=gpus, **columns)


def two_types(v100: int, k80: int) -> Machines:
    plain = machines_of(v100 + k80, gpus_per_node=1)
    return replace(plain, type=np.repeat([0, 1], [v100, k80]), types=("v100", "k80"))


def work_done_s(replay: Replay) -> list[float]:
    spans = replay.segments
    done = (spans.stop_s - spans.start_s) * spans.speed
    return np.bincount(spans.job, weights=done, minlength=len(replay.trace)).tolist()


def most_gpus_held(replay: Replay) -> float:
    spans = replay.segments
    times = np.unique(spans.start_s)
    running = (spans.start_s <= times[:, None]) & (spans.stop_s > times[:, None] + 1e-6)
    return float((running * spans.gpus).sum(axis=1).max())


traces = st.lists(
    st.tuples(
        st.sampled_from([0.0, 100.0, 360.0, 4000.0, 90000.0]),
        st.sampled_from([50.0, 400.0, 3000.0, 20000.0]),
        st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0]),
    ),
    min_size=1,
    max_size=12,
).map(lambda rows: jobs(*rows))


@pytest.mark.parametrize("name", sorted(TIME_SHARE_POLICIES))
@settings(max_examples=3)
@given(trace=traces)
def test_every_job_ends_having_done_exactly_its_work_on_gpus_that_exist(
    name: str, trace: Trace
) -> None:
    replay = replay_time_shares(trace, machines_of(4, gpus_per_node=2), TIME_SHARE_POLICIES[name]())

    assert not np.isnan(replay.end_s).any()
    assert work_done_s(replay) == pytest.approx(trace.duration_s.tolist())
    assert most_gpus_held(replay) <= 4.0 + 1e-9
    assert (replay.start_s >= trace.submit_s).all()
    assert (replay.end_s >= replay.start_s + trace.duration_s - 1e-6).all()


def test_the_same_seed_gives_the_same_replay() -> None:
    trace = jobs(*[(10.0 * i, 2000.0 + i, 1.0) for i in range(9)], model=["lm"] * 9)
    machines = two_types(1, 2)

    first, second = (
        replay_time_shares(trace, machines, Gandiva(), throughputs=RATES, seed=3) for _ in range(2)
    )

    assert np.array_equal(first.end_s, second.end_s)
    assert np.array_equal(first.segments.start_s, second.segments.start_s)


def test_two_jobs_on_one_gpu_take_turns_round_by_round() -> None:
    replay = replay_time_shares(jobs((0, 720, 1), (0, 720, 1)), machines_of(1), MaxMin())

    spans = replay.segments
    assert sorted(replay.end_s.tolist()) == [1080.0, 1440.0]
    assert spans.job.tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
    assert replay.preemptions.sum() == 2


def test_a_round_ends_early_when_everybody_in_it_is_done() -> None:
    replay = replay_time_shares(jobs((0, 100, 1), (0, 100, 1)), machines_of(1), MaxMin())

    assert sorted(replay.end_s.tolist()) == [100.0, 200.0]


def test_shares_are_not_recomputed_for_each_arrival() -> None:
    late = jobs((100, 40000, 1), (200, 40000, 1), (300, 40000, 1), (500, 40000, 1))

    replay = replay_time_shares(late, machines_of(8), Isolated())

    assert replay.start_s.tolist() == [100.0, 2260.0, 2260.0, 2260.0]


def test_a_fast_type_shortens_the_job_and_a_slow_one_stretches_it() -> None:
    trace = jobs((0, 3600, 1), model=["lm"])

    fast = replay_time_shares(trace, two_types(1, 0 + 1), MaxMin(), throughputs=RATES)
    slow_only = replace(machines_of(1, gpus_per_node=1), types=("k80",))
    slow = replay_time_shares(trace, slow_only, MaxMin(), throughputs=RATES)

    assert fast.end_s.tolist() == [3600.0]
    assert slow.end_s.tolist() == [4 * 3600.0]
    assert slow.segments.speed.tolist() == [0.25]


def test_a_pair_runs_both_jobs_at_their_measured_rates_on_half_the_gpus_each() -> None:
    trace = jobs((0, 3600, 1), (0, 3600, 1), (0, 3600, 1), model=["lm", "gan", "lm"])
    one = replace(machines_of(1), types=("v100",))

    replay = replay_time_shares(
        trace, one, MaxMin(packed=True, fills_idle=False), throughputs=RATES
    )

    assert 0.9 in replay.segments.speed.round(6).tolist()
    assert 0.5 in replay.segments.gpus.tolist()
    assert replay.end_s.max() < 3 * 3600.0


def test_coming_back_costs_the_time_to_restore() -> None:
    trace = jobs((0, 720, 1), (0, 720, 1), checkpoint_s=[60.0, 60.0])

    replay = replay_time_shares(trace, machines_of(1), MaxMin())

    assert replay.lost_s.sum() > 0.0
    assert replay.lost_s.tolist() == (replay.preemptions * 60.0).tolist()
    assert replay.end_s.max() == pytest.approx(1440.0 + replay.lost_s.sum())


def test_a_restore_longer_than_a_round_still_ends() -> None:
    trace = jobs((0, 720, 1), (0, 720, 1), checkpoint_s=[500.0, 500.0])

    replay = replay_time_shares(trace, machines_of(1), Themis(lease_s=1200.0))

    assert not np.isnan(replay.end_s).any()


def test_jobs_that_fit_nowhere_are_named_and_the_rest_runs() -> None:
    trace = jobs((0, 100, 8), (0, 100, 1), (0, 100, 1), gpu_type=["", "v100|k80", "h200"])

    replay = replay_time_shares(trace, two_types(2, 2), MaxMin())

    assert np.isnan(replay.end_s).tolist() == [True, False, True]
    assert replay.notes == ("2 jobs fit on no machine: too many GPUs, or a type not here",)


def test_a_job_waits_for_the_one_it_comes_after() -> None:
    trace = jobs((0, 1000, 1), (0, 100, 1), (0, 300, 0), (0, 50, 1), after=[(1, 0), (3, 2)])

    replay = replay_time_shares(trace, machines_of(8), Isolated())

    assert replay.start_s[1] >= replay.end_s[0]
    assert replay.end_s[2] == 300.0
    assert replay.start_s[3] >= 300.0


def test_jobs_that_wait_for_each_other_are_named() -> None:
    trace = jobs((0, 100, 1), (0, 100, 1), (0, 100, 1), after=[(0, 1), (1, 0)])

    replay = replay_time_shares(trace, machines_of(8), Isolated())

    assert np.isnan(replay.end_s).tolist() == [True, True, False]
    assert replay.notes == ("2 jobs wait for jobs that never ended",)


def test_jobs_go_on_elsewhere_when_a_node_leaves_and_wait_until_it_is_back() -> None:
    changes = (
        MachineChange(t_s=300.0, node=0, up=False),
        MachineChange(t_s=5000.0, node=0, up=True),
    )
    machines = replace(machines_of(4, gpus_per_node=2), changes=changes)
    trace = jobs((0, 1000, 4), (0, 1000, 1))

    replay = replay_time_shares(trace, machines, TypedFifo())
    wide = replay.segments.job == 0

    assert not np.isnan(replay.end_s).any()
    assert work_done_s(replay) == pytest.approx([1000.0, 1000.0])
    assert (
        (replay.segments.stop_s[wide] <= 360.0) | (replay.segments.start_s[wide] >= 5000.0)
    ).all()


def test_wide_jobs_stay_on_one_node_where_one_has_room() -> None:
    trace = jobs((0, 720, 2), (0, 720, 1), (0, 720, 1))

    spans = replay_time_shares(trace, machines_of(4, gpus_per_node=2), Isolated()).segments

    assert spans.nodes.tolist() == [1, 1, 1]
    assert spans.node[spans.job == 1].tolist() == spans.node[spans.job == 2].tolist()


def test_a_plan_is_followed_and_idle_gpus_are_filled() -> None:
    trace = jobs((0, 4000, 1), (0, 4000, 1), (0, 4000, 1))

    replay = replay_time_shares(trace, machines_of(2), Shockwave(), round_s=120.0)

    assert replay.end_s.max() < 7000.0  # 6000 s if the last were not alone at the end
    assert most_gpus_held(replay) == 2.0


def test_jobs_that_the_table_does_not_know_run_at_speed_one() -> None:
    trace = jobs((0, 100, 1), (0, 100, 1), model=["lm", ""])

    replay = replay_time_shares(trace, two_types(1, 1), Gandiva(), throughputs=RATES)

    assert replay.notes == ("1 jobs are not in rates: they run at speed 1 on every type",)
    assert replay.end_s[1] == 100.0


def test_a_type_that_the_table_does_not_know_is_as_fast_as_the_reference() -> None:
    trace = jobs((0, 100, 1), model=["lm"])

    replay = replay_time_shares(trace, machines_of(1), MaxMin(), throughputs=RATES)

    assert replay.end_s.tolist() == [100.0]


def test_steps_longer_than_a_round_are_made_one_by_one() -> None:
    slow = throughputs_of("slow", solo=[("v100", "huge", 1, 0.001, True)])
    one = replace(machines_of(1), types=("v100",))

    replay = replay_time_shares(jobs((0, 2000, 1), model=["huge"]), one, MaxMin(), throughputs=slow)

    assert replay.end_s.tolist() == [2000.0]


@pytest.mark.data
@pytest.mark.parametrize(
    ("policy", "jct_s", "makespan_s"),
    [
        (TypedFifo(), 19526.854, 72319.858),
        (MaxMin(aware=False), 19989.255, 77141.282),
        (MaxMin(), 14622.820, 63944.529),
        (MaxMin(water_filling=True), 14377.630, 64592.200),
    ],
)
def test_results_agree_with_gavels_own_simulator(
    policy: MaxMin | TypedFifo, jct_s: float, makespan_s: float
) -> None:
    table = read_throughputs(data_folder() / "gavel")
    plain = machines_of(48, gpus_per_node=1)
    kinds = replace(plain, type=np.repeat([0, 1, 2], [8, 16, 24]), types=("v100", "p100", "k80"))

    replay = replay_time_shares(
        read_trace("gavel/max_min_fairness"), kinds, policy, throughputs=table
    )

    assert float((replay.end_s - replay.trace.submit_s).mean()) == pytest.approx(jct_s, rel=0.02)
    assert float(replay.end_s.max()) == pytest.approx(makespan_s, rel=0.02)
