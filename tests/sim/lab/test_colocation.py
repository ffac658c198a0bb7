from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.placement import Demand, Placement
from steward.decide.scheduling.colocation import COLOCATION_POLICIES
from steward.decide.scheduling.colocation.commons_packed import CommonsPacked
from steward.decide.scheduling.colocation.gandiva_slicing import GandivaSlicing
from steward.decide.scheduling.colocation.lucid import Lucid
from steward.model.machines import MachineChange, Machines, machines_of
from steward.model.replay import Replay
from steward.model.throughput import ThroughputTable, throughputs_of
from steward.model.trace import Trace, trace_of
from steward.sim.lab.colocation import replay_colocation
from steward.sim.lab.colocation.gpu_pools import PairDemands
from steward.sim.lab.colocation.interference import interference_of
from steward.sim.lab.colocation.nodes import PlacedPools
from steward.sim.lab.colocation.run_times import MeanRunTimes
from steward.sim.lab.settings import LabSettings
from steward.sim.traces import read_trace
from steward.sim.traces.locate import data_folder
from steward.sim.traces.throughputs import read_throughputs

COUNT, PACKED = LabSettings(), LabSettings(placement="packed")
EAGER = Lucid(few_jobs=0.0, profile_share=0.0)  # shares at any time, and looks at nobody first


def jobs(*rows: tuple[float, float, float], **columns: Any) -> Trace:
    """Return a trace of (submit, duration, GPUs)."""
    submit, duration, gpus = zip(*rows, strict=True)
    return trace_of("tiny", submit_s=submit, duration_s=duration, gpus=gpus, **columns)


def together(speed: float, other: float | None = None) -> ThroughputTable:
    """Return a table in which model `a` runs at this share of its speed beside `a` or `b`."""
    solo = [("gpu", model, gpus, 1.0, True) for model in "ab" for gpus in (1, 2)]
    beside = speed if other is None else other
    pairs = [
        ("gpu", (one, gpus), (two, gpus), speed, beside)
        for one, two in ("aa", "ab", "bb")
        for gpus in (1, 2)
    ]
    return throughputs_of("pairs", solo=solo, pairs=pairs, reference="gpu")


def done_s(replay: Replay) -> list[float]:
    spans = replay.segments
    work = (spans.stop_s - spans.start_s) * spans.speed
    return np.bincount(spans.job, work, minlength=len(replay.trace)).tolist()


def most_held(replay: Replay, *, by_node: bool) -> float:
    """Return the largest part of a node, or of all GPUs, that was ever held."""
    spans, machines = replay.segments, replay.machines
    parts = []
    for t_s in np.unique(spans.start_s):
        now = (spans.start_s <= t_s) & (spans.stop_s > t_s)
        if by_node:
            one = now & (spans.nodes <= 1)
            held = np.bincount(spans.node[one], spans.gpus[one], minlength=len(machines))
            parts.append(float((held / machines.gpus).max()))
        parts.append(float(spans.gpus[now].sum() / machines.total_gpus))
    return max(parts, default=0.0)


traces = st.lists(
    st.tuples(
        st.sampled_from([0.0, 30.0, 60.0, 100.0, 4000.0]),
        st.sampled_from([0.0, 50.0, 80.0, 400.0, 3000.0]),
        st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 4.0]),
    ),
    min_size=1,
    max_size=14,
).map(lambda rows: jobs(*rows))


@pytest.mark.parametrize("placement", ["count", "packed"])
@pytest.mark.parametrize("name", sorted(COLOCATION_POLICIES))
@settings(max_examples=15, deadline=None)
@given(trace=traces, seed=st.integers(0, 3), gpus_per_node=st.sampled_from([4, 8]))
def test_all_work_is_done_once_and_no_gpu_is_held_twice_over(
    name: str, placement: str, trace: Trace, seed: int, gpus_per_node: int
) -> None:
    machines = machines_of(24, gpus_per_node=gpus_per_node)
    policy = COLOCATION_POLICIES[name]()

    replay = replay_colocation(trace, machines, policy, LabSettings(placement=placement, seed=seed))

    spans = replay.segments
    assert not np.isnan(replay.end_s).any()
    assert done_s(replay) == pytest.approx((trace.duration_s + replay.lost_s).tolist(), abs=1e-6)
    assert most_held(replay, by_node=placement != "count") <= 1.0 + 1e-9
    whole = trace.gpus[spans.job]
    assert ((spans.gpus == whole) | (spans.gpus == whole / 2)).all()  # at most two on a GPU
    assert (spans.speed[spans.gpus == whole] == 1.0).all()
    assert (spans.speed > 0.0).all()
    assert (spans.speed <= 1.0).all()
    assert (replay.start_s >= trace.submit_s).all()
    assert (replay.end_s >= replay.start_s + trace.duration_s - 1e-6).all()


@pytest.mark.parametrize("name", sorted(COLOCATION_POLICIES))
def test_the_same_seed_gives_the_same_replay_and_another_one_another(name: str) -> None:
    trace = jobs(*[(10.0 * i, 500.0 + i, 1.0 + i % 2) for i in range(40)])

    one, two, other = (
        replay_colocation(
            trace, machines_of(20), COLOCATION_POLICIES[name](), LabSettings(seed=seed)
        )
        for seed in (1, 1, 2)
    )

    assert np.array_equal(one.end_s, two.end_s)
    assert np.array_equal(one.segments.speed, two.segments.speed)
    goes_by_measurements_only = name == "commons-packed"  # dice make up the rest
    assert np.array_equal(one.end_s, other.end_s) == goes_by_measurements_only


def test_two_jobs_on_one_gpu_run_as_fast_as_was_measured() -> None:
    trace = jobs((0, 900, 1), (0, 1800, 1), model=["a", "b"])

    replay = replay_colocation(
        trace, machines_of(1), GandivaSlicing(), COUNT, throughputs=together(0.9, 0.6)
    )

    # b has done 600 s of its work when a ends, and is alone then
    assert replay.end_s.tolist() == [1000.0, 2200.0]
    assert replay.segments.gpus.tolist() == [0.5, 0.5, 1.0]
    assert replay.segments.speed.tolist() == [0.9, 0.6, 1.0]
    assert replay.notes == ()


def test_ours_packs_two_that_were_measured_to_bear_it_and_nobody_else() -> None:
    bear, strange, slow = (
        replay_colocation(
            jobs((0, 900, 1), (0, 1800, 1), model=["a", model]),
            machines_of(1),
            CommonsPacked(),
            COUNT,
            throughputs=table,
        ).end_s.tolist()
        for model, table in (
            ("b", together(0.9, 0.6)),
            ("c", together(0.9, 0.6)),
            ("b", together(0.6)),
        )
    )

    assert bear == [1000.0, 2200.0]
    assert strange == slow == [900.0, 2700.0]


def test_a_partner_that_is_left_alone_takes_another_one_in() -> None:
    trace = jobs((0, 900, 1), (0, 90, 1), (0, 90, 1), model=["a", "a", "a"])

    replay = replay_colocation(
        trace, machines_of(1), CommonsPacked(), COUNT, throughputs=together(0.9)
    )

    assert replay.end_s.tolist() == pytest.approx([920.0, 100.0, 200.0])


def test_measured_speeds_are_those_of_the_gpus_that_the_partner_holds() -> None:
    solo = [(gpu, model, 1, 1.0, True) for gpu in "xy" for model in "ab"]
    pairs = [("x", ("a", 1), ("b", 1), 0.5, 0.5), ("y", ("a", 1), ("b", 1), 0.9, 0.8)]
    table = throughputs_of("two types", solo=solo, pairs=pairs, reference="x")
    machines = replace(machines_of(2, gpus_per_node=1), type=np.array([0, 1]), types=("x", "y"))
    trace = jobs((0, 100, 1), (0, 100, 1), (0, 100, 1), model=["a", "a", "b"])

    replay = replay_colocation(trace, machines, CommonsPacked(), PACKED, throughputs=table)

    spans = replay.segments
    assert spans.speed[spans.job == 2].tolist()[0] == 0.8
    assert (spans.speed >= 0.8).all()


def test_a_pair_that_disappoints_takes_turns_after_one_slice() -> None:
    trace = jobs((0, 100, 1), (0, 100, 1), model=["a", "a"])

    replay = replay_colocation(
        trace, machines_of(1), GandivaSlicing(), COUNT, throughputs=together(0.4)
    )

    assert replay.end_s.tolist() == pytest.approx([212.0, 212.0])  # 24 s in 60, then half


def test_two_that_do_not_fit_into_memory_take_turns_at_once() -> None:
    trace = jobs((0, 100, 1), (0, 100, 1), model=["a", "a"])
    none = together(0.0)

    sliced = replay_colocation(trace, machines_of(1), GandivaSlicing(), COUNT, throughputs=none)
    waited = replay_colocation(trace, machines_of(1), EAGER, COUNT, throughputs=none)

    assert sliced.end_s.tolist() == [200.0, 200.0]
    assert waited.end_s.tolist() == [100.0, 200.0]


def test_one_of_a_pair_moves_to_gpus_that_become_free() -> None:
    trace = jobs((0, 1000, 1), (0, 100, 1), (0, 1000, 1), model=["a", "a", "a"])

    replay = replay_colocation(
        trace, machines_of(2), GandivaSlicing(), COUNT, throughputs=together(0.6)
    )

    spans = replay.segments
    moved = np.flatnonzero((spans.gpus == 1.0) & (spans.start_s > 0.0))
    assert replay.notes == ("1 times a running job was moved to other GPUs",)
    assert replay.lost_s.sum() == 1.0
    assert len(moved) == 2
    assert len(set(spans.start_s[moved])) == 1


def test_small_jobs_are_moved_together_when_a_wide_one_finds_no_room() -> None:
    # two on the first node, one on the second; one of the first ends: a GPU is free on each
    trace = jobs((0, 50, 1), (0, 900, 1), (0, 900, 1), (60, 100, 2))

    replay = replay_colocation(trace, machines_of(4, gpus_per_node=2), GandivaSlicing(), PACKED)

    assert replay.start_s[3] == 60.0
    assert replay.end_s[3] == 160.0
    assert replay.lost_s.sum() == 1.0


def test_jobs_that_end_while_they_are_profiled_never_queue_and_others_start_anew() -> None:
    trace = jobs((0, 50, 1), (0, 500, 1), (0, 30, 1))

    replay = replay_colocation(trace, machines_of(40), Lucid(), PACKED)

    # two GPUs are set apart: the third job is profiled when the first is through
    assert replay.end_s.tolist() == [50.0, 580.0, 80.0]
    assert replay.lost_s.tolist() == [0.0, 80.0, 0.0]
    assert replay.preemptions.sum() == 0
    assert "1 jobs had to start anew after they had been looked at" in replay.notes


def test_nothing_is_set_apart_where_a_job_needs_all_gpus() -> None:
    trace = jobs((0, 50, 40), (0, 50, 1))

    replay = replay_colocation(trace, machines_of(40), Lucid(), COUNT)

    assert replay.end_s.max() == 100.0
    assert any("no GPUs are set apart" in note for note in replay.notes)


def test_unprofiled_jobs_take_others_in_once_they_have_run_for_a_while() -> None:
    trace = jobs((0, 1000, 1), (10, 500, 1), model=["a", "a"])

    replay = replay_colocation(trace, machines_of(1), EAGER, COUNT, throughputs=together(0.96))

    assert replay.start_s.tolist() == [0.0, 80.0]  # then the first one's score is known


def test_the_shortest_expected_job_goes_first_once_its_like_have_ended() -> None:
    rows = [(0, 10, 1)] * 3 + [(0, 1000, 1)] * 3 + [(4000, 500, 1), (4001, 900, 1), (4002, 9, 1)]
    users = ["quick"] * 3 + ["slow"] * 3 + ["quick", "slow", "quick"]
    trace = jobs(*rows, user=users)
    alone = Lucid(few_jobs=1e9, profile_share=0.0)

    replay = replay_colocation(trace, machines_of(1), alone, COUNT)

    assert replay.start_s[8] < replay.start_s[7]


def test_predictions_rest_on_jobs_that_have_ended_only() -> None:
    trace = jobs((0, 10, 1), (0, 10, 1), (0, 10, 4), user=["a", "b", "b"])
    past = MeanRunTimes(trace)
    before = past.expected_s(1)

    past.remember(0, 10.0)

    assert before == 3600.0
    assert past.expected_s(0) < past.expected_s(1) < past.expected_s(2) < before


def change(t_s: float, node: int, *, up: bool) -> MachineChange:
    return MachineChange(t_s=t_s, node=node, up=up)


def changing(machines: Machines, *changes: MachineChange) -> Machines:
    return replace(machines, changes=changes)


@pytest.mark.parametrize("placement", ["count", "packed"])
def test_a_node_that_fails_takes_both_jobs_of_a_pair_with_it(placement: str) -> None:
    trace = jobs((0, 5000, 1), (0, 5000, 1), (0, 400, 0), model=["a", "a", "a"])
    machines = changing(machines_of(1), change(3000, 0, up=False), change(4000, 0, up=True))

    replay = replay_colocation(
        trace,
        machines,
        GandivaSlicing(),
        LabSettings(placement=placement, checkpoint_s=7.0),
        throughputs=together(0.8),
    )

    # 2,400 s of work were done, 1,800 of them saved; saving again costs 7
    assert replay.preemptions.tolist() == [1, 1, 0]
    assert replay.lost_s[:2].tolist() == pytest.approx([607.0, 607.0])
    assert done_s(replay) == pytest.approx([5607.0, 5607.0, 400.0])
    gone = (replay.segments.start_s < 4000.0) & (replay.segments.stop_s > 3000.0)
    assert not gone.any()


def test_the_youngest_jobs_go_when_counted_gpus_become_fewer() -> None:
    trace = jobs((0, 5000, 2), (10, 5000, 2))
    machines = changing(machines_of(4, gpus_per_node=2), change(100, 0, up=False))

    replay = replay_colocation(trace, machines, Lucid(few_jobs=1e9), COUNT)

    assert replay.preemptions.tolist() == [0, 1]
    assert replay.start_s.tolist() == [0.0, 10.0]
    assert replay.end_s[0] == 5000.0


def test_jobs_queue_unseen_while_the_profiling_partition_is_down() -> None:
    machines = changing(machines_of(40), change(10, 4, up=False), change(200, 4, up=True))
    trace = jobs((0, 300, 1), (0, 300, 1), (0, 300, 1), (20, 300, 1), (300, 300, 1))

    replay = replay_colocation(trace, machines, Lucid(), PACKED)

    # two were being profiled, one stood in line, one came later; the last is profiled again
    assert replay.preemptions.tolist() == [1, 1, 0, 0, 0]
    assert replay.start_s.tolist() == [0.0, 0.0, 10.0, 20.0, 300.0]
    assert replay.lost_s.tolist() == [10.0, 10.0, 0.0, 0.0, 80.0]


def test_machines_that_never_come_back_leave_jobs_unfinished_with_a_note() -> None:
    machines = changing(machines_of(1), change(10, 0, up=False))

    replay = replay_colocation(jobs((0, 300, 1)), machines, GandivaSlicing(), COUNT)

    assert np.isnan(replay.end_s).all()
    assert any("did not come back" in note for note in replay.notes)


@pytest.mark.parametrize("placement", ["count", "packed"])
def test_jobs_that_fit_nowhere_are_named_and_hold_nobody_up(placement: str) -> None:
    trace = jobs(
        (0, 9, 64), (0, 9, 1), (0, 9, 1), (0, 9, 1), gpu_type=["", "", "tpu", ""], after=[(3, 0)]
    )

    replay = replay_colocation(trace, machines_of(8), Lucid(), LabSettings(placement=placement))

    assert np.isnan(replay.end_s).tolist() == [True, False, True, True]
    assert "2 jobs fit on no machine: too many GPUs, or a type not here" in replay.notes
    assert "1 jobs wait for jobs that never ended" in replay.notes


def test_a_job_comes_when_those_it_depends_on_have_ended() -> None:
    trace = jobs((0, 100, 1), (0, 50, 1), (500, 10, 1), after=[(1, 0), (2, 0)])

    replay = replay_colocation(trace, machines_of(8), GandivaSlicing(), COUNT)

    assert replay.start_s.tolist() == [0.0, 100.0, 500.0]


def test_nobody_joins_where_cpus_do_not_suffice_and_cpus_come_back() -> None:
    trace = jobs(
        *[(0, 100, 1)] * 4, cpus=[6.0, 4.0, 6.0, 4.0], memory_bytes=[1.0] * 4, model=["a"] * 4
    )
    machines = replace(machines_of(1), cpus=np.array([10.0]), memory_bytes=np.array([8.0]))

    replay = replay_colocation(trace, machines, GandivaSlicing(), PACKED, throughputs=together(1.0))

    assert replay.start_s.tolist() == [0.0, 0.0, 100.0, 100.0]
    assert replay.end_s.tolist() == [100.0, 100.0, 200.0, 200.0]


def test_jobs_of_other_types_do_not_share() -> None:
    machines = replace(machines_of(2, gpus_per_node=1), type=np.array([0, 1]), types=("x", "y"))
    trace = jobs((0, 100, 1), (0, 100, 1), (1, 100, 1), gpu_type=["x", "y", "y"])

    replay = replay_colocation(
        trace, machines, GandivaSlicing(), LabSettings(type_speed={"y": 0.5})
    )

    assert replay.end_s[0] == 100.0
    assert replay.segments.speed[1] == 0.5
    assert (replay.segments.gpus[replay.segments.job == 0] == 1.0).all()


def test_fractions_of_gpus_are_never_shared_again() -> None:
    trace = jobs(*[(0, 100, 0.5)] * 4)

    replay = replay_colocation(trace, machines_of(1), GandivaSlicing(), PACKED)

    assert replay.segments.gpus.tolist() == [0.5] * 4
    assert replay.end_s.tolist() == [100.0, 100.0, 200.0, 200.0]


def test_gangs_that_are_spread_over_racks_run_slower() -> None:
    far = LabSettings(placement="packed", locality_slowdown=(1.0, 0.5, 0.5, 0.5))

    replay = replay_colocation(jobs((0, 100, 4)), machines_of(4, gpus_per_node=2), EAGER, far)

    assert replay.end_s.tolist() == [200.0]
    assert replay.segments.nodes.tolist() == [2]


@pytest.mark.parametrize("placement", ["spread", "topology"])
def test_every_placement_will_do(placement: str) -> None:
    trace = jobs(*[(i, 100, 1 + i % 3) for i in range(12)])

    replay = replay_colocation(
        trace, machines_of(8), GandivaSlicing(), LabSettings(placement=placement)
    )

    assert most_held(replay, by_node=True) <= 1.0
    assert not np.isnan(replay.end_s).any()


def test_an_empty_trace_is_over_at_once() -> None:
    nothing = trace_of("none", submit_s=[], duration_s=[], gpus=[])

    for name in COLOCATION_POLICIES:
        assert (
            len(
                replay_colocation(
                    nothing, machines_of(8), COLOCATION_POLICIES[name](), PACKED
                ).segments
            )
            == 0
        )


def test_a_search_that_fails_does_not_spoil_what_was_found_before() -> None:
    wants = PairDemands(
        of_job=[0, 1],
        need=[2000, 6000],
        want=[Demand(2, 0, 0.0, 0.0, 1), Demand(6, 0, 0.0, 0.0, 1)],
    )
    places = PlacedPools(
        machines_of(8, gpus_per_node=4),
        wants,
        np.zeros(2, np.int64),
        placement=Placement.PACKED,
        slowdown=(1.0,) * 4,
        keeps_sizes_together=False,
    )
    places.hold(0)
    places.hold_on(0, 1)

    assert places.fits(0)
    assert not places.fits(1)
    assert places.hold(0).rows.tolist() == [0]


def test_made_up_speeds_are_told_and_keep_their_means() -> None:
    trace = jobs(*[(0, 1, 1)] * 300)

    speeds = interference_of(trace, machines_of(8), COUNT, None)

    assert "made up" in speeds.notes[0]
    job = int(np.argmin(speeds.shared_speed))
    beside = [speeds.beside(job, other, 0) for other in range(300)]
    assert np.mean(beside) == pytest.approx(speeds.shared_speed[job])
    assert min(speeds.shared_speed) >= 0.7
    assert 60 <= sum(speed > 0.95 for speed in speeds.shared_speed) <= 140


def test_jobs_of_one_model_bear_sharing_alike() -> None:
    trace = jobs(*[(0, 1, 1)] * 4, model=["a", "b", "a", ""])

    speeds = interference_of(trace, machines_of(8), COUNT, None).shared_speed

    assert speeds[0] == speeds[2] != speeds[1]


def test_what_was_measured_is_not_made_up() -> None:
    trace = jobs((0, 1, 1), (0, 1, 1), (0, 1, 1), model=["a", "b", "c"])

    speeds = interference_of(trace, machines_of(8), COUNT, together(0.9, 0.8))

    assert speeds.beside(0, 1, 0) == 0.9
    assert speeds.beside(1, 0, 0) == 0.8
    assert 0.05 <= speeds.beside(0, 2, 0) <= 1.0
    assert any("1 jobs are beside others" in note for note in speeds.notes)


@pytest.mark.data
def test_pairs_of_real_models_run_exactly_as_fast_as_in_the_measured_table() -> None:
    trace = read_trace("gavel/max_min_fairness")
    table = read_throughputs(data_folder() / "gavel")
    machines = machines_of(16, gpu_type="v100")

    replay = replay_colocation(
        trace, machines, GandivaSlicing(trial_s=1e9), COUNT, throughputs=table
    )

    speeds = interference_of(trace, machines, COUNT, table)
    known = {round(value, 9) for row in speeds.measured[0] for value in row} | {0.5, 1.0}
    assert {round(value, 9) for value in replay.segments.speed.tolist()} <= known
    assert (replay.segments.speed < 1.0).any()


@pytest.mark.data
def test_packing_real_models_by_their_measured_speeds_ends_them_sooner() -> None:
    trace = read_trace("gavel/max_min_fairness")
    table = read_throughputs(data_folder() / "gavel")
    machines = machines_of(16, gpu_type="v100")

    packed, alone = (
        replay_colocation(trace, machines, CommonsPacked(packs=packs), COUNT, throughputs=table)
        for packs in (True, False)
    )

    assert (packed.end_s - trace.submit_s).mean() < (alone.end_s - trace.submit_s).mean()
    assert (alone.segments.speed == 1.0).all()
    assert np.allclose(done_s(packed), trace.duration_s)
    assert (packed.segments.speed < 1.0).any()


@pytest.mark.data
def test_a_whole_virtual_cluster_is_replayed_without_losing_work() -> None:
    trace = read_trace("philly/103959")

    for name in COLOCATION_POLICIES:
        replay = replay_colocation(trace, machines_of(24), COLOCATION_POLICIES[name](), PACKED)

        assert np.allclose(done_s(replay), trace.duration_s + replay.lost_s)
        assert most_held(replay, by_node=True) <= 1.0 + 1e-9
