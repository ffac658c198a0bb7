from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from factories import decision
from steward.model.cluster import Health
from steward.model.event import Observation
from steward.model.frame import check_frame
from steward.model.identity import GpuId
from steward.model.job import JobState
from steward.model.metrics import metric
from steward.ports import Actuator, Collector
from steward.sim.scenario import demo
from steward.sim.world import Truth, World

START_S = 1_800_000_000.0
SMALL = replace(
    demo(), nodes=2, initial_jobs=40, usual_queue=20, groups=demo().groups[3:4], warm_up_s=3600.0
)
BREAKING = replace(SMALL, failures_per_gpu_hour=0.5, repair_s=600.0)


def values(seen: Observation, entity: str, name: str) -> list[float | None]:
    return seen.frame.filter(pl.col("entity") == entity)[name].to_list()


def test_the_world_is_a_collector_and_an_actuator() -> None:
    world = World(SMALL, start_s=START_S)

    collector: Collector = world
    actuator: Actuator = world

    assert (collector.name, collector.vocabulary) == ("simulated", "canonical")
    assert actuator.available().status == "ok"


# -- the first look ------------------------------------------------------------------------------


def test_the_first_look_introduces_the_whole_world_and_later_ones_do_not() -> None:
    world = World(SMALL, start_s=START_S)

    first = world.collect(START_S)
    second = world.collect(START_S + 10)

    states = {job.state for job in first.jobs}
    assert first.cluster is not None
    assert len(first.cluster.gpus) == len(first.health) == 16
    assert first.tenants == tuple(group.tenant for group in SMALL.groups)
    assert states == {JobState.QUEUED, JobState.RUNNING}
    assert first.frame.height == 0
    assert (second.cluster, second.tenants) == (None, None)
    assert len(second.jobs) < len(first.jobs)


def test_after_warming_up_the_cluster_is_full_people_wait_and_some_gpus_are_idle() -> None:
    world = World(demo(), start_s=START_S)

    world.collect(START_S + 3600)

    truth = world.truth()
    assert truth.held_gpu_s / truth.capacity_gpu_s > 0.97
    assert 0.1 < truth.held_idle_gpu_s / truth.held_gpu_s < 0.4
    assert 0.35 < truth.busy_gpu_s / truth.capacity_gpu_s < 0.7
    assert 20 <= truth.queued <= 200
    assert truth.turned_away > 0  # nobody vanishes in silence


# -- samples -------------------------------------------------------------------------------------


def test_samples_come_at_every_multiple_of_the_period_since_the_last_look() -> None:
    world = World(SMALL, start_s=START_S + 3)
    world.collect(START_S + 5)

    seen = world.collect(START_S + 42)
    none = world.collect(START_S + 49.9)

    times = seen.frame["t_s"].unique().sort().to_list()
    assert times == [START_S + 10, START_S + 20, START_S + 30, START_S + 40]
    assert none.frame.height == 0


@pytest.mark.parametrize("every_s", [0.1, 0.3, 7.0, 60.0])
def test_no_instant_is_missed_or_doubled_by_rounding(every_s: float) -> None:
    world = World(replace(SMALL, sample_every_s=every_s), start_s=START_S + 0.3)

    frames = [world.collect(START_S + 0.3 + i * 1.7 * every_s).frame for i in range(1, 40)]

    times = np.concatenate(
        [frame["t_s"].unique().sort().to_numpy() for frame in frames if frame.height]
    )
    steps = np.rint(times / every_s)
    assert np.diff(steps).tolist() == [1.0] * (len(steps) - 1)


def test_the_frame_has_a_row_for_every_gpu_and_every_running_job_in_our_words() -> None:
    world = World(SMALL, start_s=START_S)
    world.collect(START_S)

    frame = check_frame(world.collect(START_S + 10).frame, where="test")

    entities = set(frame["entity"])
    assert {f"n0{n}/gpu{i}" for n in (1, 2) for i in range(8)} <= entities
    assert len([name for name in entities if name.startswith("job:")]) == world.truth().running
    assert [metric(name).name for name in frame.columns[2:]] == frame.columns[2:]
    assert frame["gpu.busy_share"].drop_nulls().is_between(0.0, 1.0).all()


def test_rows_of_gpus_jobs_and_nodes_have_the_metrics_of_their_kind_alone() -> None:
    world = World(SMALL, start_s=START_S)

    frame = world.collect(START_S + 10).frame

    jobs = frame["entity"].str.starts_with("job:")
    nodes = frame["entity"].is_in(["n01", "n02"])
    rows = {"job": jobs, "host": nodes, "gpu": ~jobs & ~nodes, "share": jobs & ~jobs}
    for column in frame.columns[2:]:
        assert frame[column].is_not_null().equals(rows[column.partition(".")[0]]), column


def test_the_load_of_nodes_is_what_their_jobs_use() -> None:
    world = World(SMALL, start_s=START_S)

    frame = world.collect(START_S + 10).frame

    assert frame["host.load_1m"].drop_nulls().len() == 2
    assert frame["host.load_1m"].sum() == pytest.approx(frame["job.cpu.busy_cores"].sum())


def test_what_an_idle_holder_shows_is_what_was_measured(stage: Any) -> None:
    job = stage.job(("idle_allocated", 1e6), memory_gib=40)
    world = stage.world()

    seen = world.collect(1000.0 + 300)

    gib = np.array(values(seen, "n01/gpu0", "gpu.memory.used_bytes")) / 2**30
    watts = np.array(values(seen, "n01/gpu0", "gpu.power_watts"))
    assert set(values(seen, "n01/gpu0", "gpu.busy_share")) == {0.0}
    assert gib == pytest.approx(40.6, abs=0.1)
    assert watts == pytest.approx(121.2, abs=1.0)
    assert max(values(seen, f"job:{job}", "job.cpu.busy_cores")) < 0.1


def test_a_job_on_many_gpus_works_the_host_for_each_of_them(stage: Any) -> None:
    job = stage.job(("checkpoint", 300.0), ("dataset_load", 300.0), gpus=4)
    world = stage.world(gpus=4)

    seen = world.collect(1000.0 + 600)

    cores = values(seen, f"job:{job}", "job.cpu.busy_cores")
    written = values(seen, f"job:{job}", "job.disk.write_bytes_per_s")
    assert min(cores[30:]) > 4.0
    assert min(written[:30]) > 1e9


def test_adding_up_what_gpus_show_gives_what_was_really_done() -> None:
    world = World(SMALL, start_s=START_S)

    frame = world.collect(START_S + 1200).frame

    shown = float(frame["gpu.busy_share"].sum()) * 10.0
    assert shown == pytest.approx(world.truth().busy_gpu_s, rel=1e-9)


def test_a_shared_gpu_shows_the_use_and_memory_of_both_and_never_more_than_it_has(
    stage: Any,
) -> None:
    owner = stage.job(("train.vit", 1e5), memory_gib=60)
    waits = stage.job(("gemm_bound", 1e5), memory_gib=60)
    world = stage.world()
    world.carry_out(stage.lending(owner, waits), 1000.0)

    seen = world.collect(1000.0 + 300)

    gpu = seen.frame.filter(pl.col("entity") == "n01/gpu0")
    parts = [values(seen, f"n01/gpu0@{job}", "share.busy_share") for job in (owner, waits)]
    memory = [values(seen, f"n01/gpu0@{job}", "share.memory.used_bytes") for job in (owner, waits)]
    assert gpu["gpu.busy_share"].max() <= 1.0
    assert np.sum(parts, axis=0) == pytest.approx(gpu["gpu.busy_share"].to_numpy(), abs=0.02)
    assert gpu["gpu.power_watts"].max() <= 700.0
    assert np.sum(memory, axis=0) + 615 * 2**20 == pytest.approx(
        gpu["gpu.memory.used_bytes"].to_numpy()
    )


def test_a_broken_gpu_says_nothing_and_is_bad_until_it_is_mended() -> None:
    world = World(BREAKING, start_s=START_S)
    health: dict[GpuId, Health] = dict(world.collect(START_S).health)
    silent: set[tuple[str, float]] = set()

    for i in range(1, 200):
        t_s = START_S + 10 * i
        seen = world.collect(t_s)
        health |= seen.health
        spoken = set(seen.frame["entity"])
        for gpu in world._engine.cluster.ids:
            assert (gpu in spoken) == (health[gpu] is Health.GOOD)
            if gpu not in spoken:
                silent.add((gpu, t_s))

    assert len(silent) > 20


def test_one_gpu_fails_at_the_time_that_a_scenario_names() -> None:
    certain = replace(SMALL, failures_per_gpu_hour=0.0, repair_s=60.0, first_failure_s=100.0)
    world = World(certain, start_s=START_S)

    before = world.collect(START_S + 99)
    (failed,) = world.collect(START_S + 100).events
    after = world.collect(START_S + 3000).events

    assert "gpu.failed" not in {event.kind for event in before.events}
    assert failed.kind == "gpu.failed"
    (repaired,) = [event for event in after if event.kind.startswith("gpu.")]
    assert (repaired.kind, repaired.subject) == ("gpu.repaired", failed.subject)


# -- time ----------------------------------------------------------------------------------------


def test_an_earlier_time_returns_nothing_and_changes_nothing() -> None:
    world, twin = World(SMALL, start_s=START_S), World(SMALL, start_s=START_S)
    world.collect(START_S + 100)
    twin.collect(START_S + 100)

    back = world.collect(START_S + 50)

    assert same(back, Observation())
    assert same(world.collect(START_S + 200), twin.collect(START_S + 200))
    assert world.truth() == twin.truth()


def test_looking_before_the_world_began_does_not_use_up_the_introduction() -> None:
    world = World(SMALL, start_s=START_S)

    before = world.collect(START_S - 100)
    after = world.collect(START_S)

    assert before.cluster is None
    assert after.cluster is not None


def same(one: Observation, other: Observation) -> bool:
    alike = one.frame.equals(other.frame) and one.other.equals(other.other)
    return alike and replace(one, frame=other.frame, other=other.other) == other


def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_world() -> None:
    worlds = [World(BREAKING, seed=seed, start_s=START_S) for seed in (5, 5, 6)]

    once, again, other = (world.collect(START_S + 1800) for world in worlds)

    assert same(once, again)
    assert repr(once.jobs) == repr(again.jobs)
    assert not once.frame.equals(other.frame)


def test_how_time_is_cut_into_looks_changes_nothing() -> None:
    whole, pieces = World(BREAKING, start_s=START_S), World(BREAKING, start_s=START_S)
    at_once = whole.collect(START_S + 3600)

    cuts = np.random.default_rng(1).uniform(0, 3600, 150)
    looks = [pieces.collect(START_S + t) for t in (*np.sort(cuts), 3600.0)]

    frame = pl.concat([look.frame for look in looks if look.frame.height])
    jobs = {job.id: job for look in looks for job in look.jobs}
    assert frame.equals(at_once.frame)
    assert all(jobs[job.id] == job for job in at_once.jobs)
    assert [event for look in looks for event in look.events] == list(at_once.events)
    assert close(whole.truth(), pieces.truth())


def close(one: Truth, other: Truth) -> bool:
    pairs = [(getattr(one, name), getattr(other, name)) for name in Truth.__dataclass_fields__]
    return all(a == pytest.approx(b, abs=1e-6) for a, b in pairs)


def test_asking_for_the_truth_between_samples_changes_nothing() -> None:
    asked, left_alone = World(SMALL, start_s=START_S), World(SMALL, start_s=START_S)
    left_alone.collect(START_S + 600)

    for i in range(1, 601):
        asked.collect(START_S + i)
        asked.truth()

    assert close(asked.truth(), left_alone.truth())


# -- memory and speed ----------------------------------------------------------------------------


def test_ended_jobs_are_reported_once_and_then_forgotten() -> None:
    world = World(SMALL, start_s=START_S)
    world.collect(START_S)
    ended: list[str] = []

    for i in range(1, 121):
        ended += [job.id for job in world.collect(START_S + 60 * i).jobs if job.state.ended]

    truth, engine = world.truth(), world._engine
    assert len(ended) == len(set(ended)) > 20
    assert not {int(id_) for id_ in ended} & set(engine.lives)
    assert len(engine.lives) == truth.queued + truth.running
    assert not engine._changed
    assert len(engine._queue) < 5 * len(engine.lives)  # what was planned for them is void soon


def test_two_worlds_with_one_seed_get_the_same_submissions_with_and_without_loans() -> None:
    alone, lending = World(SMALL, seed=2, start_s=START_S), World(SMALL, seed=2, start_s=START_S)
    alone.collect(START_S)
    lending.collect(START_S)
    lives = lending._engine.lives.values()
    owner = next(life for life in lives if life.running and life.peak_bytes < 60 * 2**30)
    waits = next(life for life in lives if not life.running and life.peak_bytes < 60 * 2**30)
    gpus = owner.job.gpus[: waits.job.shape.gpus]
    loan = decision(gpus=gpus, owner=owner.id, borrower=waits.id)

    lending.carry_out(loan, START_S)

    one, other = alone.collect(START_S + 1800), lending.collect(START_S + 1800)
    submitted = [
        {job.id: (job.submit_s, job.shape, job.user) for job in seen.jobs if job.submit_s > START_S}
        for seen in (one, other)
    ]
    common = submitted[0].keys() & submitted[1].keys()
    assert common
    assert {id_: submitted[0][id_] for id_ in common} == {id_: submitted[1][id_] for id_ in common}


def test_an_hour_that_nobody_looked_at_is_sampled_all_the_same() -> None:
    world = World(demo(), start_s=START_S)

    seen = world.collect(START_S + 3600)

    assert seen.frame["t_s"].n_unique() == 360
