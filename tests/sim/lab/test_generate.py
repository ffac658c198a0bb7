"""Made-up traces: like what they were fitted to, labelled, and the same for the same seed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.model.trace import Trace, trace_of
from steward.sim.lab.generate import (
    fair_quota,
    fit,
    generate,
    make,
    model_from,
    tenants_scenario,
    write_csv,
)
from steward.sim.lab.generate.bursts import bursts
from steward.sim.lab.generate.job_families import OUTCOMES
from steward.sim.traces import read_trace

DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
WEEK_S = 7 * 86400.0


def recorded(jobs: int = 4000, *, seed: int = 0) -> Trace:
    """Three weeks of two tenants: busy by day, in bursts; large jobs run longer."""
    rng = np.random.default_rng(seed)
    hours = np.repeat(np.arange(504), np.where(np.arange(504) % 24 < 12, 3, 1))
    start = np.sort(rng.choice(hours, jobs // 4)) * 3600.0 + rng.random(jobs // 4) * 3600
    burst = np.repeat(np.arange(len(start)), 4)
    tenant = rng.choice(["big", "small"], len(start), p=[0.7, 0.3])[burst]
    gpus = rng.choice([1.0, 8.0], len(start), p=[0.9, 0.1])[burst]
    level = rng.normal(6.0, 2.0, len(start))[burst] + rng.normal(0, 0.5, len(burst))
    return trace_of(
        "recorded",
        submit_s=start[burst] + np.tile(np.arange(4.0), len(start)),
        duration_s=np.exp(level + (gpus > 1)),
        gpus=gpus,
        tenant=tenant.tolist(),
    )


RECORDED = recorded()
MODEL = fit(RECORDED)
BUSY = generate(MODEL, jobs=60_000, seed=2, load=4.0)


def same(one: Trace, other: Trace) -> bool:
    columns = ("job_id", "submit_s", "duration_s", "gpus", "tenant", "user", "model")
    return all(np.array_equal(getattr(one, c), getattr(other, c)) for c in columns)


def test_a_model_survives_being_written() -> None:
    assert model_from(MODEL.as_json()) == MODEL
    with pytest.raises(StewardError, match="no trace model"):
        model_from('{"name": "x"}')


def test_the_same_seed_gives_the_same_trace_and_another_another() -> None:
    once, again, other = (generate(MODEL, jobs=500, seed=s) for s in (1, 1, 2))

    assert same(once, again)
    assert not same(once, other)


def test_what_is_made_up_is_labelled() -> None:
    made = generate(MODEL, jobs=50, seed=1)

    assert made.synthetic
    assert "seed 1" in made.origin
    assert tenants_scenario(RECORDED, tenants=4, gpus=64).synthetic


def test_the_mix_the_rate_and_the_run_times_are_those_of_the_trace() -> None:
    made = generate(MODEL, jobs=40_000, seed=3)

    for size in (1.0, 8.0):
        ours, real = made.gpus == size, RECORDED.gpus == size
        assert ours.mean() == pytest.approx(real.mean(), abs=0.02)
        for level in (0.25, 0.5, 0.75):
            assert np.log(np.quantile(made.duration_s[ours], level)) == pytest.approx(
                np.log(np.quantile(RECORDED.duration_s[real], level)), abs=0.35
            )
    per_s = len(made) / made.submit_s[-1]
    assert per_s == pytest.approx(MODEL.jobs_per_s, rel=0.05)
    assert dict(zip(made.tenants, np.bincount(made.tenant) / len(made), strict=True)) == (
        pytest.approx({"big": 0.7, "small": 0.3}, abs=0.05)
    )


def test_days_are_busier_than_nights() -> None:
    made = generate(MODEL, jobs=20_000, seed=4)

    by_day = (made.submit_s // 3600 % 24 < 12).mean()

    assert by_day == pytest.approx(0.75, abs=0.04)


def test_load_makes_jobs_come_faster() -> None:
    calm, busy = (generate(MODEL, jobs=5000, seed=5, load=load) for load in (0.5, 2.0))

    assert calm.submit_s[-1] / busy.submit_s[-1] == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize("tenants", [1, 2, 5])
def test_tenants_can_be_fewer_or_more(tenants: int) -> None:
    made = generate(MODEL, jobs=3000, seed=6, tenants=tenants)

    assert len(made.tenants) == tenants
    assert set(made.tenant.tolist()) == set(range(tenants))


def test_a_trace_without_tenants_gets_one() -> None:
    plain = trace_of("plain", submit_s=[0, 5, 900], duration_s=[1, 2, 3], gpus=[1, 1, 2])

    made = generate(fit(plain), jobs=200, seed=0, tenants=3)

    assert generate(fit(plain), jobs=20, seed=0).tenants == ("all",)
    assert made.tenants == ("all", "all.2", "all.3")


def test_jobs_of_one_family_run_alike_and_belong_to_one_user() -> None:
    made = make(MODEL, jobs=20_000, seed=7)
    trace, logs = made.trace, np.log(made.trace.duration_s)
    counts = np.bincount(made.family)
    mean = np.bincount(made.family, logs) / np.maximum(counts, 1)

    inside = np.sqrt(np.mean((logs - mean[made.family])[counts[made.family] > 5] ** 2))

    assert inside < 0.5 * logs.std()
    pairs = set(zip(made.family.tolist(), trace.user.tolist(), strict=True))
    assert len(pairs) == len(set(made.family.tolist()))
    assert np.bincount(trace.user).max() > 5 * np.median(np.bincount(trace.user))


def test_how_jobs_end_has_the_published_shares_of_jobs_and_of_gpu_time() -> None:
    made = make(MODEL, jobs=60_000, seed=8)
    work = made.trace.gpus * made.trace.duration_s

    jobs = np.bincount(made.outcome, minlength=3) / len(work)
    time = np.bincount(made.outcome, work, minlength=3) / work.sum()

    assert jobs == pytest.approx(OUTCOMES["helios"].of_jobs, abs=0.01)
    assert time == pytest.approx(OUTCOMES["helios"].of_gpu_time, abs=0.06)


def test_cpu_jobs_are_not_fitted_and_too_few_jobs_are_refused() -> None:
    mixed = trace_of("m", submit_s=[0, 1, 2], duration_s=[1, 2, 3], gpus=[0, 1, 2])

    assert fit(mixed).jobs == 2
    with pytest.raises(StewardError, match="1 GPU jobs are too few"):
        fit(mixed.rows(np.array([0, 1])))
    with pytest.raises(StewardError, match="cannot make 0 jobs"):
        generate(MODEL, jobs=0, seed=1)


def test_bursts_are_of_one_tenant_and_size_and_close_in_time() -> None:
    trace = trace_of(
        "b",
        submit_s=[0, 10, 20, 30, 500],
        duration_s=[1] * 5,
        gpus=[1, 1, 2, 1, 1],
        tenant=["a", "b", "a", "a", "a"],
    )

    assert bursts(trace).tolist() == [0, 1, 2, 0, 3]


def test_a_scenario_offers_the_load_and_keeps_jobs_as_they_were() -> None:
    scenario = tenants_scenario(BUSY, tenants=8, gpus=256, seed=1, load=0.9)
    weeks = int(scenario.submit_s[-1] // WEEK_S) + 1

    offered = scenario.gpu_seconds / (256 * WEEK_S * weeks)

    assert offered == pytest.approx(0.9, rel=0.05)
    assert len(scenario.tenants) == 8
    kept = set(zip(BUSY.duration_s.tolist(), BUSY.gpus.tolist(), strict=True))
    assert set(zip(scenario.duration_s.tolist(), scenario.gpus.tolist(), strict=True)) <= kept
    left_out = sum(fault.rows for fault in scenario.faults)
    assert left_out + len(scenario) == len(BUSY)
    assert same(scenario, tenants_scenario(BUSY, tenants=8, gpus=256, seed=1, load=0.9))


def test_a_trace_with_too_little_work_says_so() -> None:
    scenario = tenants_scenario(RECORDED, tenants=8, gpus=4096)

    assert [fault.kept for fault in scenario.faults if "of that load only" in fault.reason] == [
        True
    ]


def test_in_a_scenario_tenants_want_much_in_one_week_and_little_in_another() -> None:
    scenario = tenants_scenario(BUSY, tenants=10, gpus=256, seed=2, load=0.8)
    week = (scenario.submit_s // WEEK_S).astype(int)
    demand = np.zeros((week.max() + 1, 10))
    np.add.at(demand, (week, scenario.tenant), scenario.gpus * scenario.duration_s)

    assert len(demand) > 2
    assert demand.sum(axis=1).std() < 0.1 * demand.sum(axis=1).mean()
    assert (demand.std(axis=0) / demand.mean(axis=0)).mean() > 0.3


def test_large_jobs_belong_to_large_tenants_and_quotas_hold_every_job() -> None:
    sizes = np.tile([1.0, 4.0, 8.0, 16.0], 500)
    trace = trace_of(
        "sizes", submit_s=np.arange(2000) * 600.0, duration_s=np.full(2000, 6e4), gpus=sizes
    )

    scenario = tenants_scenario(trace, tenants=20, gpus=512, seed=0, load=0.3)
    quota = fair_quota(scenario, 512)

    assert set(scenario.tenant[scenario.gpus > 8].tolist()) <= {0, 1}
    assert quota.sum() == 512
    assert (quota[scenario.tenant] >= scenario.gpus).all()


def test_a_quota_that_cannot_hold_the_largest_jobs_is_shared_by_their_size() -> None:
    trace = trace_of(
        "q", submit_s=[0, 0], duration_s=[1, 1], gpus=[8, 24], tenant=["small", "large"]
    )

    assert fair_quota(trace, 16).tolist() == [4.0, 12.0]


def test_scenarios_that_make_no_sense_are_refused() -> None:
    with pytest.raises(StewardError, match="cannot deal to 1 tenants"):
        tenants_scenario(RECORDED, tenants=1)
    huge = trace_of("huge", submit_s=[0], duration_s=[1], gpus=[512])
    with pytest.raises(StewardError, match="no job of it fits"):
        tenants_scenario(huge)


def test_a_written_trace_says_that_it_was_made_up(tmp_path: Path) -> None:
    path = tmp_path / "made.csv"
    made = generate(MODEL, jobs=100, seed=1)

    write_csv(made, path)
    again = read_trace(path)

    assert path.read_text().startswith("# synthetic: recorded-like; made with seed 1")
    assert again.synthetic
    assert same(made, again)
    assert again.faults == ()


def test_a_trace_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="cannot be written"):
        write_csv(RECORDED, tmp_path / "nowhere" / "x.csv")


_WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8).filter(
    lambda word: (
        word == word.strip()
        and word.lower() not in ("-", "?", "nan", "null", "none", "na", "n/a", "unknown", "nil")
        and not any(mark in word for mark in "\r\n")
    )
)
_AMOUNT = st.floats(0, 1e9) | st.just(float("nan"))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    n = draw(st.integers(1, 8))

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=n, max_size=n))

    ids = st.text("abc#,\"' 0", min_size=1, max_size=6).filter(lambda w: w == w.strip())
    return trace_of(
        "t",
        submit_s=column(st.floats(0, 5e8)),
        duration_s=column(st.floats(1e-3, 1e9)),
        gpus=column(st.integers(1, 99) | st.sampled_from([0.25, 0.5])),
        job_id=draw(st.lists(ids, min_size=n, max_size=n, unique=True)),
        tenant=column(_WORDS),
        model=column(_WORDS),
        cpus=column(_AMOUNT),
        deadline_s=column(_AMOUNT),
        priority=column(st.integers(-9, 9)),
        synthetic=draw(st.booleans()),
    )


@settings(max_examples=50)
@given(trace=traces())
def test_a_trace_that_was_written_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, trace: Trace
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.csv"

    write_csv(trace, path)
    again = read_trace(path)

    assert again.faults == ()
    assert again.synthetic == trace.synthetic
    for column in ("submit_s", "duration_s", "gpus", "cpus", "deadline_s", "priority"):
        np.testing.assert_array_equal(getattr(again, column), getattr(trace, column))
    assert again.job_id.tolist() == trace.job_id.tolist()
    for codes, names in (("tenant", "tenants"), ("model", "models")):
        said = [
            [(*getattr(t, names), "")[code] for code in getattr(t, codes)] for t in (trace, again)
        ]
        assert said[0] == said[1]


def test_waits_survive_being_written(tmp_path: Path) -> None:
    trace = trace_of(
        "w", submit_s=[0, 1, 2], duration_s=[1] * 3, gpus=[1] * 3, after=[[2, 0], [2, 1]]
    )

    write_csv(trace, tmp_path / "w.csv")

    assert read_trace(tmp_path / "w.csv").after.tolist() == [[2, 0], [2, 1]]


@pytest.mark.data
def test_a_trace_like_philly_is_like_philly() -> None:
    real = read_trace(DATA / "traces" / "philly")

    made = generate(fit(real), jobs=len(real), seed=1)

    assert made.gpu_seconds == pytest.approx(real.gpu_seconds, rel=0.35)
    assert np.median(made.duration_s) == pytest.approx(np.median(real.duration_s), rel=0.3)
    assert (made.gpus == 1).mean() == pytest.approx((real.gpus == 1).mean(), abs=0.02)
    assert made.submit_s[-1] == pytest.approx(real.submit_s[-1], rel=0.1)


@pytest.mark.data
def test_philly_fills_fifty_tenants() -> None:
    scenario = tenants_scenario(read_trace(DATA / "traces" / "philly"))
    quota = fair_quota(scenario, 512)

    assert len(set(scenario.tenant.tolist())) == 50
    assert scenario.gpu_seconds / (512 * 8 * WEEK_S) == pytest.approx(0.95, abs=0.01)
    assert (quota[scenario.tenant] >= scenario.gpus).all()
