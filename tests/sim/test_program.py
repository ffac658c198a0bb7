from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.model.job import JobState
from steward.sim.program import JobProgram, Kind, Order, Use, program_of
from steward.sim.scenario import demo
from steward.sim.shapes import measured_shapes
from steward.sim.workload import Workload

START_S = 1000.0
SHAPES = measured_shapes()
WORKLOAD = Workload(demo(), seed=3, begin_s=0.0)
ORDERS = [WORKLOAD.following() for _ in range(3000)]
PROGRAMS = [(order, WORKLOAD.program(order)) for order in ORDERS]


def spells(program: JobProgram, use: Use) -> list[float]:
    return [phase.seconds for phase in program.phases if phase.use is use]


def of_kind(kind: Kind) -> list[tuple[Order, JobProgram]]:
    return [(order, program) for order, program in PROGRAMS if order.kind is kind]


def test_a_program_lasts_as_long_as_its_order_says() -> None:
    lasting = [(o.duration_s, p.total_s) for o, p in PROGRAMS if o.kind is not Kind.HUNG]

    assert all(total == pytest.approx(max(asked, 0.1)) for asked, total in lasting)


def test_the_same_order_has_the_same_program() -> None:
    order, program = PROGRAMS[0]

    assert WORKLOAD.program(order).phases == program.phases


@given(seed=st.integers(0, 2**32), seconds=st.floats(0.01, 1e5), kind=st.sampled_from(Kind))
def test_every_phase_lasts_longer_than_nothing(seed: int, seconds: float, kind: Kind) -> None:
    order = replace(ORDERS[0], kind=kind, duration_s=seconds)

    program = program_of(order, SHAPES, np.random.default_rng(seed))

    assert all(phase.seconds > 0 for phase in program.phases)
    assert program.begins_s[-1] + program.phases[-1].seconds == pytest.approx(program.total_s)


def test_a_hung_job_trains_and_then_idles_until_its_time_limit() -> None:
    hung = of_kind(Kind.HUNG)

    for order, program in hung:
        assert program.phases[-1].use is Use.IDLE
        assert program.begins_s[-1] < order.limit_s < program.total_s
        assert spells(program, Use.WORK)
    assert len(hung) > 20


def test_people_at_notebooks_are_away_for_twenty_minutes_or_so() -> None:
    away = [s for _, program in of_kind(Kind.NOTEBOOK) for s in spells(program, Use.IDLE)[:-1]]

    assert 600 < np.median(away) < 1500
    assert max(away) > 3600


def test_only_notebooks_and_hung_jobs_are_ever_idle() -> None:
    idle = {order.kind for order, program in PROGRAMS if spells(program, Use.IDLE)}

    assert idle == {Kind.NOTEBOOK, Kind.HUNG}


def test_some_legitimate_quiet_phases_last_longer_than_five_minutes() -> None:
    quiet = [s for _, program in of_kind(Kind.TRAINING) for s in spells(program, Use.SETUP)]

    assert 0.02 < np.mean(np.array(quiet) > 300) < 0.3


def test_jobs_that_can_save_do_so_every_so_often() -> None:
    able = [
        (o, p)
        for o, p in of_kind(Kind.TRAINING)
        if o.job.checkpointing.able and o.duration_s > 4000
    ]

    for order, program in able:
        how = order.job.checkpointing
        assert max(spells(program, Use.WORK)) <= how.every_s
        assert spells(program, Use.SAVE)[0] == how.save_s
    assert able


# -- a life on the stage -------------------------------------------------------------------------


def test_a_job_ends_as_its_order_says_when_its_program_is_done(stage: Any) -> None:
    stage.job(("gemm_bound", 95.0), ("compile", 30.0), ends=JobState.CANCELLED)
    world = stage.world()

    seen = world.collect(START_S + 200)

    (job,) = seen.jobs
    assert (job.state, job.end_s) == (JobState.CANCELLED, START_S + 125.0)
    assert [line.state for line in job.history] == [
        JobState.QUEUED,
        JobState.RUNNING,
        JobState.CANCELLED,
    ]


def test_a_job_is_ended_at_its_time_limit(stage: Any) -> None:
    stage.job(("idle_allocated", 1e6), limit_s=250.0)
    world = stage.world()

    seen = world.collect(START_S + 300)

    (job,) = seen.jobs
    assert (job.state, job.end_s) == (JobState.FAILED, START_S + 250.0)
    assert job.history[-1].why == "time limit reached"


def test_idle_is_what_is_held_for_nothing_and_legitimate_quiet_is_not(stage: Any) -> None:
    stage.job(("dataset_load", 400.0), ("idle_allocated", 100.0), ("gemm_bound", 500.0), gpus=2)
    world = stage.world(gpus=2)

    world.collect(START_S + 1000)

    assert world.truth().held_idle_gpu_s == pytest.approx(200.0)
    assert world.truth().held_gpu_s == world.truth().capacity_gpu_s == 2000.0


def test_a_job_that_comes_later_waits_for_a_gpu_and_starts_when_one_is_free(stage: Any) -> None:
    stage.job(("gemm_bound", 100.0))
    stage.job(("gemm_bound", 100.0), at_s=START_S + 30.0)
    world = stage.world()

    seen = world.collect(START_S + 150)

    later = next(job for job in seen.jobs if job.id == "2")
    assert (later.submit_s, later.start_s) == (START_S + 30.0, START_S + 100.0)
    assert world.truth().busy_gpu_s == pytest.approx(150 * 0.998, rel=2e-3)
