import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from steward.model.cluster import GIB
from steward.sim.program import Kind, Order
from steward.sim.scenario import Scenario, demo
from steward.sim.workload import (
    DURATION_LEVELS,
    DURATION_QUANTILES_S,
    GPU_SHARES,
    HOUR_PROFILE,
    Workload,
    durations_s,
    mean_gpu_seconds,
)

DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
ENDLESS = replace(demo(), longest_job_s=1e9, gpus_per_node=16, nodes=64)


def orders(count: int, *, seed: int = 0, scenario: Scenario = ENDLESS) -> list[Order]:
    workload = Workload(scenario, seed=seed, begin_s=0.0)
    return [workload.following() for _ in range(count)]


MANY = orders(20_000)


def test_the_same_seed_gives_the_same_orders_and_another_seed_others() -> None:
    once, again, other = orders(300), orders(300), orders(300, seed=1)

    assert once == again
    assert once != other


def test_gpu_counts_have_the_published_shares() -> None:
    gpus = np.array([order.job.shape.gpus for order in MANY])

    shares = {size: float((gpus == size).mean()) for size in GPU_SHARES}

    assert shares == pytest.approx(GPU_SHARES, abs=0.005)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_run_times_lie_on_the_published_quantiles(size: int) -> None:
    levels = np.array(DURATION_LEVELS)

    times = durations_s(size, levels, longest_s=1e9)

    assert times == pytest.approx(DURATION_QUANTILES_S[size])


def test_generated_run_times_follow_the_table() -> None:
    times = [order.duration_s for order in MANY if order.job.shape.gpus == 1]

    quantiles = np.quantile(times, [0.1, 0.25, 0.5, 0.75, 0.9])

    assert quantiles == pytest.approx([62, 122, 1117, 2716, 8512], rel=0.1)


def test_submissions_follow_the_profile_of_the_day() -> None:
    hours = np.array([int(order.job.submit_s // 3600) % 24 for order in MANY])
    days = MANY[-1].job.submit_s / 86400

    profile = np.bincount(hours, minlength=24) / len(hours) * 24

    assert days > 2
    assert np.corrcoef(profile, HOUR_PROFILE)[0, 1] > 0.9


def test_the_offered_load_is_what_the_scenario_says() -> None:
    scenario = replace(demo(), longest_job_s=3600.0, offered_load=1.5)
    made = orders(20_000, scenario=scenario)
    asked = sum(order.duration_s * order.job.shape.gpus for order in made)

    load = asked / made[-1].job.submit_s / scenario.gpus

    assert load == pytest.approx(1.5, rel=0.1)
    assert mean_gpu_seconds(gpus_per_node=8, longest_s=3600.0) == pytest.approx(
        asked / len(made), rel=0.05
    )


def test_jobs_fit_one_node_and_no_job_is_longer_than_the_longest() -> None:
    made = orders(5_000, scenario=demo())

    assert max(order.job.shape.gpus for order in made) == 8
    assert max(order.duration_s for order in made) == demo().longest_job_s


def test_three_of_four_jobs_can_save_themselves_and_most_pairs_fit_on_a_gpu() -> None:
    able = np.mean([order.job.checkpointing.able for order in MANY])
    memory = np.array([order.job.shape.gpu_memory_bytes for order in MANY])
    pairs = memory[:10_000] + memory[10_000:] <= 141 * GIB

    assert able == pytest.approx(0.75, abs=0.05)
    assert 0.6 < pairs.mean() < 0.95


def test_notebooks_and_hung_jobs_hold_gpus_for_half_an_hour_or_more() -> None:
    idlers = [order for order in MANY if order.kind in (Kind.NOTEBOOK, Kind.HUNG)]

    assert len(idlers) > 500
    assert min(order.duration_s for order in idlers) >= 1800


def test_fewer_submit_when_many_of_their_size_wait() -> None:
    workload = Workload(demo(), seed=0, begin_s=0.0)
    singles = [order for order in orders(2_000, scenario=demo()) if order.job.shape.gpus == 1]

    shares = [
        np.mean([workload.submits(order, waiting=waiting) for order in singles])
        for waiting in (0, 93, 500)
    ]

    assert shares[0] == 1.0
    assert shares[1] == pytest.approx(1 / demo().offered_load, abs=0.04)
    assert shares[2] < shares[1]


@pytest.mark.data
def test_the_tables_are_those_of_the_published_trace() -> None:
    jobs = pl.read_csv(DATA / "traces" / "philly" / "jobs.csv.gz")
    gpus, seconds = jobs["num_gpus"].to_numpy(), jobs["duration_s"].to_numpy()
    hours = np.bincount(jobs["submit_s"].to_numpy() // 3600 % 24, minlength=24)
    classes = {1: gpus == 1, 2: gpus == 2, 4: (gpus > 2) & (gpus <= 4)}
    classes |= {8: (gpus > 4) & (gpus <= 8), 16: gpus > 8}

    shares = {size: float(rows.mean()) for size, rows in classes.items()}
    quantiles = {
        size: np.quantile(seconds[rows], DURATION_LEVELS) for size, rows in classes.items()
    }

    assert shares == pytest.approx(GPU_SHARES, abs=1e-4)
    assert hours / hours.mean() == pytest.approx(HOUR_PROFILE, abs=0.01)
    for size, levels in DURATION_QUANTILES_S.items():
        assert quantiles[size] == pytest.approx(levels, rel=0.02)


@pytest.mark.data
def test_the_generator_is_near_the_published_trace() -> None:
    jobs = pl.read_csv(DATA / "traces" / "philly" / "jobs.csv.gz").filter(pl.col("num_gpus") <= 16)
    made = pl.DataFrame(
        {
            "num_gpus": [order.job.shape.gpus for order in MANY],
            "duration_s": [order.duration_s for order in MANY],
        }
    )

    for low, high in ((1, 1), (3, 4), (5, 8)):
        chosen = pl.col("num_gpus").is_between(low, high)
        real, ours = jobs.filter(chosen), made.filter(chosen)
        assert ours.height / made.height == pytest.approx(real.height / jobs.height, abs=0.005)
        for level in (0.25, 0.5, 0.75):
            assert np.log(ours["duration_s"].quantile(level)) == pytest.approx(
                np.log(real["duration_s"].quantile(level)), rel=0.1
            )
