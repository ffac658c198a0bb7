"""What can happen to jobs and machines, by hand."""

from __future__ import annotations

from dataclasses import replace as changed

import numpy as np
import pytest

from sim.lab.rigid.by_hand import down, jobs, nodes, replayed, up
from sim.lab.rigid.slow_reference import Levels, slow_replay
from sim.lab.rigid.small_cases import run
from steward.model.trace import trace_of


@pytest.mark.parametrize("placement", ["count", "packed"])
def test_a_job_loses_what_it_had_not_saved_when_its_node_fails(placement: str) -> None:
    machines = nodes(1, down(100), up(150))
    told = {"placement": placement, "saves_every_s": 30.0, "checkpoint_s": 5.0}

    made = replayed(jobs((0, 200, 4)), machines, **told)

    assert made.preemptions.tolist() == [1]
    assert made.lost_s.tolist() == [10 + 5]  # since the save at 90, and one restore
    assert made.end_s.tolist() == [150 + 200 - 100 + 15]


def test_a_job_that_never_saves_starts_again_from_nothing() -> None:
    made = replayed(jobs((0, 200, 4)), nodes(1, down(100), up(150)), saves_every_s=0.0)

    assert made.end_s.tolist() == [350]


def test_where_gpus_are_only_counted_the_youngest_is_interrupted() -> None:
    made = replayed(jobs((0, 200, 4), (1, 200, 4)), nodes(2, down(100), up(150)))

    assert made.preemptions.tolist() == [0, 1]


def test_where_jobs_have_places_those_on_the_node_are_interrupted() -> None:
    machines = nodes(2, down(100, node=0), up(150, node=0))

    made = replayed(jobs((0, 200, 4), (1, 200, 4)), machines, placement="packed")

    assert made.preemptions.tolist() == [1, 0]
    assert made.segments.node.tolist() == [0, 1, 0]


def test_a_job_waits_for_machines_that_are_yet_to_come() -> None:
    machines = nodes(2, up(50, node=1), up=np.array([True, False]))

    made = replayed(jobs((0, 10, 8), (0, 10, 2)), machines, "fit-first", placement="packed")

    assert made.start_s.tolist() == [50, 0]


def test_machines_that_never_come_back_leave_jobs_unfinished_and_say_so() -> None:
    made = replayed(jobs((0, 100, 8), (0, 10, 2)), nodes(2, down(50, node=1)), "fit-first")

    assert np.isnan(made.end_s).tolist() == [True, False]
    assert made.notes == ("1 jobs never ran to their end: they fit nowhere",)


def test_a_job_larger_than_the_cluster_keeps_only_fifo_waiting() -> None:
    trace = jobs((0, 100, 9), (0, 10, 2))

    assert np.isnan(replayed(trace, nodes(2), "fifo").end_s).all()
    assert replayed(trace, nodes(2), "fit-first").end_s.tolist()[1] == 10


@pytest.mark.parametrize("submit_s", [0, 5, 7, 30])
@pytest.mark.parametrize("policy", ["fifo", "srtf", "commons"])
def test_a_job_comes_when_those_before_it_have_ended(policy: str, submit_s: float) -> None:
    trace = jobs((0, 5, 1), (0, 7, 1), (submit_s, 10, 1), after=[(2, 0), (2, 1)])

    made = replayed(trace, nodes(1), policy)

    assert made.start_s[np.argmax(trace.duration_s)] == max(7, submit_s)


def test_a_chain_whose_link_never_runs_waits_for_ever() -> None:
    trace = jobs((0, 5, 9), (0, 5, 1), (0, 5, 1), after=[(1, 0), (2, 1)])

    assert np.isnan(replayed(trace, nodes(1)).start_s).all()


@pytest.mark.parametrize("placement", ["count", "packed", "spread", "fgd"])
def test_fractions_share_a_gpu_and_no_more_than_it_has(placement: str) -> None:
    trace = jobs(*[(0, 10, 0.25)] * 4, (1, 10, 0.5), (2, 10, 1))

    made = replayed(trace, nodes(1, gpus=1), placement=placement)

    assert made.start_s.tolist() == [0, 0, 0, 0, 10, 20]


def test_a_job_without_gpus_runs_beside_those_with_some() -> None:
    made = replayed(jobs((0, 100, 3), (1, 10, 0), (2, 10, 1)), nodes(1), placement="packed")

    assert made.start_s.tolist() == [0, 1, 2]


def test_cpus_and_memory_limit_what_a_node_holds() -> None:
    machines = nodes(1, cpus=np.array([96.0]), memory_bytes=np.array([100.0]))
    by_cpu = jobs((0, 10, 1), (0, 10, 1), cpus=[64.0, 64.0])
    by_memory = jobs((0, 10, 1), (0, 10, 1), memory_bytes=[60.0, 60.0])

    for trace in (by_cpu, by_memory):
        assert replayed(trace, machines, placement="packed").start_s.tolist() == [0, 10]


TWO_TYPES = {"type": np.array([0, 1]), "types": ("old", "new")}


@pytest.mark.parametrize("placement", ["count", "packed"])
def test_a_job_runs_on_a_type_that_it_names_at_the_speed_of_that_type(placement: str) -> None:
    trace = jobs((0, 100, 4), (0, 100, 4), (0, 100, 1), gpu_type=["new", "old|newer", "new"])

    made = replayed(
        trace, nodes(2, **TWO_TYPES), placement=placement, type_speed={"new": 4.0, "old": 1.0}
    )

    assert made.start_s.tolist() == [0, 0, 25]
    assert made.end_s.tolist() == [25, 100, 50]


def test_a_job_that_names_a_type_that_is_not_here_never_runs() -> None:
    trace = jobs((0, 100, 1), (0, 100, 1), gpu_type=["", "other"])

    made = replayed(trace, nodes(2, **TWO_TYPES), "fit-first", placement="packed")

    assert np.isnan(made.end_s).tolist() == [False, True]


@pytest.mark.parametrize("placement", ["count", "packed", "spread"])
def test_a_gang_stays_on_one_type(placement: str) -> None:
    types = {"type": np.array([1, 0, 0]), "types": ("old", "new")}
    trace = jobs((0, 10, 8), (0, 10, 4), gpu_type=["", "new"])

    made = replayed(trace, nodes(3, **types), placement=placement, type_speed={"new": 2.0})

    assert made.end_s.tolist() == [10, 5]


@pytest.mark.parametrize(("gpus", "end_s"), [(4, 100), (8, 150), (16, 200), (20, 300)])
def test_jobs_that_span_nodes_racks_and_switches_take_longer(gpus: int, end_s: float) -> None:
    plain = nodes(5)
    far = changed(plain, rack=np.array([0, 0, 1, 1, 2]), switch=np.array([0, 0, 0, 0, 1]))

    made = replayed(
        jobs((0, 100, gpus)), far, placement="packed", locality_slowdown=(1.0, 1.5, 2.0, 3.0)
    )

    assert made.end_s.tolist() == pytest.approx([end_s])


def test_what_a_stop_costs_is_what_the_trace_says_or_else_the_settings() -> None:
    trace = jobs((0, 100, 2), (0, 100, 2), (10, 5, 4), checkpoint_s=[np.nan, 7.0, np.nan])

    made = replayed(trace, nodes(1), "srtf", checkpoint_s=3.0)

    assert made.lost_s.tolist() == [3, 7, 0]
    assert made.end_s.tolist() == [108, 112, 15]


def test_an_oracle_can_be_made_to_err() -> None:
    trace = jobs(*[(0, 100 + i, 4) for i in range(20)])

    exact, wrong, other = (
        replayed(trace, nodes(1), "sjf", forecast_error=error, seed=seed)
        for error, seed in ((0.0, 0), (1.0, 0), (1.0, 1))
    )

    assert (np.diff(exact.start_s) > 0).all()
    assert not (np.diff(wrong.start_s) > 0).all()
    assert wrong.start_s.tolist() != other.start_s.tolist()


def test_ten_thousand_stops_are_written_down() -> None:
    trace = jobs((0, 9000, 1), (0, 9000, 1), (0, 9000, 1))
    options = {"tiresias.thresholds_gpu_s": (4,), "tiresias.promote": 1.0}

    made = run(trace, 1, "tiresias", policy_options=options)

    expected = slow_replay(trace, 1, Levels((4,), by_gpus=True, promote=1))
    assert made.preemptions.sum() > 3000
    assert made.preemptions.tolist() == [job.stops for job in expected]
    assert made.end_s.tolist() == [job.end_s for job in expected]
    assert len(made.segments) == made.preemptions.sum() + 3


def test_nothing_becomes_of_nothing() -> None:
    empty = trace_of("empty", submit_s=[], duration_s=[], gpus=[])

    made = replayed(empty, nodes(2), "commons", placement="fgd")

    assert (len(made.segments), made.decisions, made.notes) == (0, 0, ())
