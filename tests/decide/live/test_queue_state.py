"""What of a view the kernels get to see, and what becomes of their answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decide.live.queues import believing_jobs, queue, running, starts, stopped, stops, waiting
from factories import H200, gpu_row, job, loan, moment, node, samples, view
from steward.decide.scheduling import POLICIES
from steward.decide.scheduling.ordered.fifo import Fifo
from steward.decide.scheduling.ordered.fit_first import FitFirst
from steward.decide.scheduling.ordered.las import Las
from steward.decide.scheduling.ordered.srtf import Srtf
from steward.decide.scheduling.ordered.tiresias import Tiresias
from steward.model.actions import Preempt, Start
from steward.model.cluster import GIB, Health
from steward.model.event import Observation
from steward.model.identity import GpuId, JobId
from steward.model.job import Checkpointing, JobShape
from steward.model.moment import Moment
from steward.model.view import ClusterView

GPU, OTHER = "n1/gpu0", "n1/gpu1"
RANKED = [name for name in POLICIES if name not in ("give-back", "lend-idle")]


def told(made: Moment, *gpus: str) -> ClusterView:
    made.fold(Observation(frame=samples(1000.0, {gpu: gpu_row(0.0) for gpu in gpus})))
    return made.view(1000.0)


@pytest.mark.parametrize(
    ("health", "used"),
    [
        (Health.GOOD, [GPU]),
        (Health.WORN, [GPU]),
        (Health.BAD, [OTHER]),
        (Health.UNKNOWN, [OTHER]),
    ],
)
def test_a_gpu_that_is_broken_or_unknown_is_not_there(health: Health, used: list[str]) -> None:
    made = moment(node("n1", 2), jobs=[waiting("j1")])
    told(made, OTHER)
    made.fold(Observation(health={GpuId(GPU): health, GpuId(OTHER): Health.GOOD}))

    (decision,) = Fifo().decide(made.view(1000.0))

    assert list(decision.action.gpus) == used


def test_what_is_reserved_is_left_alone() -> None:
    made = moment(node("n1", 2), jobs=[waiting("j1"), waiting("j2", since_s=1.0)])
    told(made, GPU, OTHER)
    made.reserve([f"gpu:{GPU}", "job:j1"])

    (decision,) = FitFirst().decide(made.view(1000.0))

    assert decision.action == Start(job=JobId("j2"), gpus=(GpuId(OTHER),))


def test_a_running_job_that_must_not_be_stopped_goes_on() -> None:
    new = waiting("new", since_s=3990.0)
    stubborn = queue(1, running("old", 0, checkpointing=Checkpointing()), new, t_s=4000.0)
    spoken = moment(node("n1", 1), jobs=[running("old", 0), new])
    spoken.fold(Observation(frame=samples(4000.0, {GPU: gpu_row(0.5)})))
    spoken.reserve(["job:old"])
    broken = moment(node("n1", 1), jobs=[running("old", 0), new])
    broken.fold(Observation(health={GpuId(GPU): Health.BAD}))

    assert stops(Las().decide(queue(1, running("old", 0), new, t_s=4000.0))) == ["old"]
    for seen in (stubborn, spoken.view(4000.0), broken.view(4000.0)):
        assert Las().decide(seen) == ()


def test_loans_are_left_alone() -> None:
    jobs = [running("j1", 0), running("j2", 0), waiting("j3", since_s=3990.0)]

    assert Las().decide(view(node("n1", 1), jobs=jobs, loans=[loan()], t_s=4000.0)) == ()


def test_jobs_that_ask_for_no_gpu_are_started_by_their_engine() -> None:
    assert Fifo().decide(queue(1, waiting("j1", 0))) == ()


def test_nothing_can_be_decided_where_there_is_nothing() -> None:
    assert Fifo().decide(Moment().view(0.0)) == ()
    assert Fifo().decide(queue(1)) == ()


def test_a_job_goes_to_a_model_that_it_may_use_and_that_has_the_memory() -> None:
    small = replace(H200, name="a10", memory_bytes=24 * GIB)
    jobs = [
        job("picky", shape=JobShape(gpus=1, gpu_models=("h200",))),
        job("large", shape=JobShape(gpus=1, gpu_memory_bytes=40 * GIB), submit_s=1.0),
        job("any", shape=JobShape(gpus=1), submit_s=2.0),
    ]
    seen = view(node("n1", 1, small), node("n2", 2), jobs=jobs)

    made = Fifo().decide(seen)

    where = {each.action.job: each.action.gpus[0] for each in made}
    assert where == {"picky": "n2/gpu0", "large": "n2/gpu1", "any": "n1/gpu0"}


def test_gangs_stay_on_one_node_where_one_can_hold_them() -> None:
    jobs = [running("j1", 0, 1, 2), waiting("wide", 2), waiting("narrow", since_s=1.0)]
    seen = view(node("n1", 4), node("n2", 4), jobs=jobs)

    made = FitFirst().decide(seen)

    gpus = {each.action.job: each.action.gpus for each in made}
    assert gpus == {"wide": ("n2/gpu0", "n2/gpu1"), "narrow": ("n1/gpu3",)}


def test_a_gang_without_room_in_one_place_keeps_nobody_else_from_starting() -> None:
    jobs = [
        running("j1", 0),
        job("j2", on=["n2/gpu0"]),
        waiting("wide", 2),
        waiting("narrow", since_s=1.0),
    ]
    seen = view(node("n1", 2), node("n2", 2), jobs=jobs)

    assert starts(FitFirst().decide(seen)) == ["narrow"]
    assert starts(Fifo().decide(seen)) == []


def test_free_gpus_are_taken_before_those_that_somebody_has_to_free() -> None:
    jobs = (running("old", 0, 1), waiting("new", 2, since_s=3990.0))

    made = Las().decide(queue(3, *jobs, t_s=4000.0))

    assert made[0].action == Preempt(job=JobId("old"), gpus=(GpuId(GPU), GpuId(OTHER)))
    assert made[1].action == Start(job=JobId("new"), gpus=(GpuId("n1/gpu2"), GpuId(GPU)))
    assert made[1].after == (made[0].id,)


def test_nobody_is_stopped_for_a_job_that_does_not_fit_anyway() -> None:
    jobs = (running("old", 0), waiting("wide", 3, since_s=3990.0))

    assert Las().decide(queue(2, *jobs, t_s=4000.0)) == ()


def test_a_start_promises_its_gpu_time_and_a_stop_says_what_it_costs() -> None:
    jobs = (running("old", 0, 1), waiting("new", 2, since_s=3990.0))
    seen = queue(2, *jobs, t_s=4000.0)

    stop, start = Las().decide(seen)
    short = Srtf().decide(believing_jobs(seen, left_s={"old": 9000.0, "new": 60.0}))[1]

    assert stop.expects.mid == -100.0  # 20 s to save and 30 s to restore, on two GPUs
    assert start.expects.mid == 1200.0
    assert short.expects.mid == 120.0
    assert "saving and restoring costs it 50 s" in stop.because


def test_who_was_stopped_last_goes_on_first_among_equals() -> None:
    jobs = (
        waiting("fresh", since_s=10.0),
        stopped("before", ran=[(100.0, 200.0)], since_s=20.0),
        stopped("last", ran=[(100.0, 300.0)], since_s=30.0),
    )

    assert starts(Tiresias().decide(queue(3, *jobs))) == ["last", "before", "fresh"]


def test_who_fell_a_level_when_it_was_stopped_stands_behind_those_that_were_there() -> None:
    jobs = (
        stopped("fell", ran=[(0.0, 3250.0)]),
        stopped("there", ran=[(0.0, 3300.0)], since_s=1.0),
    )

    assert starts(Tiresias().decide(queue(2, *jobs, t_s=4000.0))) == ["there", "fell"]


def test_among_jobs_submitted_at_once_who_was_heard_of_first_goes_first() -> None:
    made = moment(node("n1", 1), jobs=[waiting("gone"), waiting("zeta")])
    made.fold(Observation(jobs=(replace(waiting("gone"), state=_cancelled()),)))
    made.fold(Observation(jobs=(waiting("alpha"),)))  # has the row that was free

    assert starts(Fifo().decide(told(made, GPU))) == ["zeta"]


def _cancelled() -> object:
    from steward.model.job import JobState

    return JobState.CANCELLED


shapes = st.lists(
    st.tuples(st.integers(1, 5), st.sampled_from("abx"), st.booleans()), min_size=1, max_size=12
)


@settings(max_examples=25)
@given(shapes=shapes, name=st.sampled_from(RANKED))
def test_no_gpu_is_given_twice_and_all_that_runs_fits(
    shapes: list[tuple[int, str, bool]], name: str
) -> None:
    free, jobs = [0, 1, 2, 3, 4, 5], []
    for i, (gpus, tenant, runs) in enumerate(shapes):
        if runs and gpus <= len(free):
            held, free = free[:gpus], free[gpus:]
            jobs.append(running(f"j{i}", *held, tenant=tenant, since_s=-5000.0 * i))
        else:
            jobs.append(waiting(f"j{i}", gpus, tenant=tenant, since_s=float(i)))
    seen = queue(6, *jobs)

    made = POLICIES[name]().decide(seen)

    held_by = {each.id: {*each.gpus} for each in jobs}
    for each in made:
        assert isinstance(each.action, Start | Preempt)
        if isinstance(each.action, Preempt):
            assert held_by.pop(each.action.job) == {*each.action.gpus}
        else:
            assert not any({*each.action.gpus} & held for held in held_by.values())
            assert len(each.action.gpus) == len({*each.action.gpus})
            held_by[each.action.job] = {*each.action.gpus}
            assert len(each.action.gpus) == seen.details[each.action.job].shape.gpus
    assert len({each.id for each in made}) == len(made)
    assert np.isfinite([each.expects.mid for each in made]).all()
