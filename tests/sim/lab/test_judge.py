"""Measures follow from who ran when; a slow and obvious second opinion agrees with each."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.model.machines import MachineChange, machines_of
from steward.model.replay import Replay
from steward.model.trace import trace_of
from steward.sim.lab.judge import FIGURES, Measures, judge
from steward.sim.lab.judge.measures import LOWER_IS_BETTER
from tiny_replays import first_come, replay_of, small_replay, small_trace, spans


def two_tenants(*rows: tuple[int, float, float, float], gpus: int = 4, **changes: Any) -> Replay:
    """Return what became of three jobs of two tenants that share a cluster equally."""
    trace = trace_of(
        "two",
        submit_s=[0, 0, 10],
        duration_s=[100, 100, 50],
        gpus=[2, 2, 2],
        tenant=["a", "a", "b"],
    )
    return replay_of(trace, machines_of(gpus), spans(*rows), **changes)


# -- by hand -----------------------------------------------------------------------------------


def test_times_of_jobs_are_those_of_the_field() -> None:
    found = judge(two_tenants((0, 0, 100, 2), (1, 0, 100, 2), (2, 100, 150, 2)))

    assert found.jct_mean_s == pytest.approx((100 + 100 + 140) / 3)
    assert found.wait_mean_s == pytest.approx(90 / 3)
    assert found.jct_p50_s == 100
    assert found.makespan_s == 150
    assert found.utilisation == pytest.approx(500 / 600)
    assert found.utilisation_arrivals == 1.0
    assert found.queue_mean == pytest.approx(90 / 150)
    assert found.queue_max == 1
    assert found.goodput == pytest.approx(500 / 150)
    assert (found.jobs, found.finished, found.unfinished) == (3, 3, 0)


def test_a_tenant_that_waits_below_its_guarantee_is_short() -> None:
    found = judge(two_tenants((0, 0, 100, 2), (1, 0, 100, 2), (2, 100, 150, 2)))

    a, b = found.tenants
    assert found.fairness_compliance == 0.0
    assert b.short_share == 1.0
    assert b.shortfall_gpus == pytest.approx(2 * 90 / 150)
    assert (a.short_share, a.shortfall_gpus) == (0.0, 0.0)
    assert b.waiting_gpus == pytest.approx(2 * 90 / 150)
    assert a.held_gpus == pytest.approx(400 / 150)


def test_a_tenant_that_has_its_guarantee_and_waits_for_more_is_served() -> None:
    seen = two_tenants((0, 0, 100, 2), (1, 60, 160, 2), (2, 10, 60, 2))

    found = judge(seen)

    # Until b comes, a could have had everything; afterwards both have what is theirs.
    assert found.fairness_compliance == 1.0
    assert found.share_compliance == pytest.approx(1 - 10 / 60)


def test_gpus_that_a_waiting_job_could_use_are_fragments() -> None:
    found = judge(two_tenants((0, 0, 100, 2), (1, 60, 160, 2), (2, 10, 60, 2)))

    assert found.fragmentation == pytest.approx(10 * 0.5 / 160)


def test_saving_and_restoring_is_held_but_not_busy() -> None:
    seen = two_tenants((0, 0, 120, 2), (1, 0, 100, 2), (2, 120, 170, 2))
    found = judge(replace(seen, lost_s=np.array([20.0, 0, 0])))

    assert found.lost_gpu_h == pytest.approx(40 / 3600)
    assert found.utilisation == pytest.approx(540 / 680)
    assert found.utilisation_busy == pytest.approx(500 / 680)
    assert found.utilisation_effective == pytest.approx(500 / 680)


def test_jobs_that_share_gpus_do_not_use_more_than_there_is() -> None:
    found = judge(two_tenants((0, 0, 100, 2), (1, 0, 100, 2), (2, 10, 60, 2)))

    assert found.utilisation == 1.0
    assert found.gpu_h == pytest.approx(400 / 3600)


def test_unfinished_jobs_are_counted_and_wait_to_the_end() -> None:
    found = judge(two_tenants((0, 0, 100, 2), (1, 0, 100, 2)))

    assert (found.unfinished, found.finished) == (1, 2)
    assert found.jct_mean_s == 100
    assert found.queue_mean == pytest.approx(0.9)


def test_deadlines_are_met_missed_or_not_there() -> None:
    trace = small_trace(4, deadline_s=[1e9, 1.0, np.nan, 1e9])
    no_end = replace(replay := first_come(trace, machines_of(8)), end_s=replay.end_s.copy())
    no_end.end_s[3] = np.nan

    assert judge(replay).deadlines_met_share == pytest.approx(2 / 3)
    assert judge(no_end).deadlines_met_share == pytest.approx(1 / 3)
    assert np.isnan(judge(small_replay(4)).deadlines_met_share)


def test_a_job_waits_only_from_when_what_it_depends_on_has_ended() -> None:
    trace = trace_of("chain", submit_s=[0, 0], duration_s=[100, 10], gpus=[4, 4], after=[[1, 0]])

    found = judge(replay_of(trace, machines_of(4), spans((0, 0, 100, 4), (1, 100, 110, 4))))

    assert found.queue_max == 0
    assert found.jct_mean_s == pytest.approx(105)


def test_machines_that_go_take_their_cost_and_power_with_them() -> None:
    seen = small_replay(4, gpus=16)
    at_s = judge(seen).makespan_s / 2
    half = replace(seen.machines, changes=(MachineChange(t_s=at_s, node=1, up=False),))
    before = judge(seen)

    found = judge(replace(seen, machines=half))

    start = seen.trace.submit_s[0]
    part = (at_s - start) / before.makespan_s
    assert found.cost == pytest.approx(before.cost * (0.5 + 0.5 * part))
    assert found.timeline.capacity_gpus[-1] == 8
    assert found.energy_kwh < before.energy_kwh


def test_energy_counts_idle_power_and_what_work_adds() -> None:
    found = judge(two_tenants((0, 0, 100, 2), (1, 0, 100, 2), (2, 100, 150, 2)))

    joules = 4 * 150 * 60 + 500 * 240
    assert found.energy_kwh == pytest.approx(joules / 3.6e6)
    assert found.co2_kg == pytest.approx(joules / 3.6e6 * 0.4)
    assert found.cost == pytest.approx(4 * 150 / 3600 * 2.0)


def test_rho_compares_with_an_equal_part_of_the_cluster() -> None:
    trace = trace_of("pair", submit_s=[0, 0], duration_s=[100, 100], gpus=[4, 4])

    found = judge(replay_of(trace, machines_of(4), spans((0, 0, 100, 4), (1, 100, 200, 4))))

    # The first had company all its life: alone on two GPUs it takes 200 s. The second for half.
    assert found.rho_max == pytest.approx(200 / 150)
    assert found.rho_unfair_share == 0.5


def test_a_trace_without_tenants_has_the_whole_cluster_as_its_guarantee() -> None:
    trace = small_trace(30, tenants=0)

    found = judge(first_come(trace, machines_of(8)))

    assert [row.tenant for row in found.tenants] == [""]
    assert found.tenants[0].quota_gpus == 8
    assert 0.0 < found.fairness_compliance < 1.0


def test_an_empty_replay_has_no_figures_and_no_fault() -> None:
    found = judge(first_come(trace_of("none", submit_s=[], duration_s=[], gpus=[]), machines_of(8)))

    assert found.jobs == 0
    assert np.isnan(found.jct_mean_s)
    assert found.fairness_compliance == 1.0


def test_every_figure_says_which_way_is_better_or_is_neutral() -> None:
    neutral = {"jobs", "finished", "gpu_h", "decisions"}

    assert set(LOWER_IS_BETTER) == set(FIGURES) - neutral


# -- a second opinion --------------------------------------------------------------------------


def obvious(replay: Replay) -> dict[str, float]:
    """Compute measures from the state between any two events, one by one."""
    trace, segments, machines = replay.trace, replay.segments, replay.machines
    begin, end = float(trace.submit_s[0]), float(np.nanmax(replay.end_s))
    cuts = {begin, end, *trace.submit_s, *segments.start_s, *segments.stop_s}
    cuts |= {each.t_s for each in machines.changes}
    times = sorted(each for each in cuts if begin <= each <= end)
    tenants = range(len(trace.tenants))
    total = dict.fromkeys(("there", "used", "queue", "fragment", "demand", "short", "less"), 0.0)
    for now, later in pairwise(times):
        mid, dt = (now + later) / 2, later - now
        up = machines.up.copy()
        for change in machines.changes:
            if change.t_s <= now:
                up[change.node] = change.up
        there = float(machines.gpus[up].sum())
        runs = (segments.start_s <= mid) & (segments.stop_s > mid)
        held = [
            float(segments.gpus[runs & (trace.tenant[segments.job] == i)].sum()) for i in tenants
        ]
        waits = [
            job
            for job in range(len(trace))
            if trace.submit_s[job] <= mid < replay.end_s[job] and job not in segments.job[runs]
        ]
        asks = [[float(trace.gpus[j]) for j in waits if trace.tenant[j] == i] for i in tenants]
        used = min(there, sum(held))
        total["there"] += there * dt
        total["used"] += used * dt
        total["queue"] += len(waits) * dt
        free = there - used
        if any(trace.gpus[j] <= free + 1e-6 for j in waits):
            total["fragment"] += free / there * dt
        guarantee, target = targets(held, asks, list(replay.quota), there)
        for i in tenants:
            if asks[i]:
                total["demand"] += dt
                total["short"] += dt * lacks(guarantee[i], held[i], asks[i])
                total["less"] += dt * lacks(target[i], held[i], asks[i])
    return total


def targets(
    held: list[float], asks: list[list[float]], quota: list[float], there: float
) -> tuple[list[float], list[float]]:
    demand = [a + sum(b) for a, b in zip(held, asks, strict=True)]
    shrink = min(1.0, there / sum(quota))
    guarantee = [min(d, q * shrink) for d, q in zip(demand, quota, strict=True)]
    # Pour the rest out in small drops, always to whoever has least for its weight.
    level_low, level_high = 0.0, 1e9
    rest = there - sum(guarantee)
    for _ in range(200):
        level = (level_low + level_high) / 2
        poured = sum(
            min(d - g, level * q) for d, g, q in zip(demand, guarantee, quota, strict=True)
        )
        level_low, level_high = (level, level_high) if poured < rest else (level_low, level)
    more = [min(d - g, level_low * q) for d, g, q in zip(demand, guarantee, quota, strict=True)]
    return guarantee, [g + m for g, m in zip(guarantee, more, strict=True)]


def lacks(target: float, held: float, asks: list[float]) -> bool:
    return held < 0.95 * target - 1e-6 and min(asks) <= target - held + 1e-5


@st.composite
def replays(draw: st.DrawFn) -> Replay:
    """Return replays in which anything may have been run in any order, and machines may go."""
    jobs = draw(st.integers(2, 12))
    trace = trace_of(
        "drawn",
        submit_s=draw(st.lists(st.integers(0, 60), min_size=jobs, max_size=jobs)),
        duration_s=draw(st.lists(st.integers(1, 40), min_size=jobs, max_size=jobs)),
        gpus=draw(
            st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0, 8.0]), min_size=jobs, max_size=jobs)
        ),
        tenant=[
            "a",
            "b",
            *draw(st.lists(st.sampled_from("abc"), min_size=jobs - 2, max_size=jobs - 2)),
        ],
    )
    rows = []
    for job in range(jobs):
        now = float(trace.submit_s[job]) + draw(st.integers(0, 50))
        parts = draw(st.integers(1, 3))
        for _ in range(parts):
            length = float(trace.duration_s[job]) / parts
            rows.append((job, now, now + length, float(trace.gpus[job])))
            now += length + draw(st.integers(0, 20))
    changes = tuple(
        MachineChange(t_s=float(draw(st.integers(1, 100))), node=1, up=up)
        for up in draw(st.sampled_from([(), (False,), (False, True)]))
    )
    quota = draw(
        st.lists(st.integers(1, 9), min_size=len(trace.tenants), max_size=len(trace.tenants))
    )
    ordered = tuple(sorted(changes, key=lambda each: each.t_s))
    machines = replace(machines_of(16, gpus_per_node=8), changes=ordered)
    return replay_of(trace, machines, spans(*rows), quota=np.array(quota, np.float64))


@given(replay=replays())
@settings(max_examples=80)
def test_measures_agree_with_the_obvious_way(replay: Replay) -> None:
    found, slow = judge(replay), obvious(replay)

    length_s = found.makespan_s
    assert found.utilisation == pytest.approx(slow["used"] / slow["there"], abs=1e-9)
    assert found.queue_mean == pytest.approx(slow["queue"] / length_s, abs=1e-9)
    assert found.fragmentation == pytest.approx(slow["fragment"] / length_s, abs=1e-9)
    demand = slow["demand"]
    short = slow["short"] / demand if demand else 0.0
    less = slow["less"] / demand if demand else 0.0
    assert found.fairness_compliance == pytest.approx(1 - short, abs=1e-6)
    assert found.share_compliance == pytest.approx(1 - less, abs=1e-6)


@given(replay=replays())
@settings(max_examples=40)
def test_measures_keep_within_their_meaning(replay: Replay) -> None:
    found = judge(replay)

    shares = [
        name for name in FIGURES if "utilisation" in name or name.endswith(("share", "compliance"))
    ]
    for name in [*shares, "fragmentation"]:
        value = getattr(found, name)
        assert np.isnan(value) or -1e-9 <= value <= 1 + 1e-9 or name == "utilisation_effective"
    line = found.timeline
    assert (line.queue_min <= line.queue_mean + 1e-9).all()
    assert (line.queue_mean <= line.queue_max + 1e-9).all()
    assert found.jct_p50_s <= found.jct_p99_s
    assert found.wait_mean_s <= found.jct_mean_s


@given(seed=st.integers(0, 50), shift=st.permutations(range(6)))
@settings(max_examples=20)
def test_the_order_of_segments_changes_nothing(seed: int, shift: list[int]) -> None:
    replay = small_replay(6, seed=seed)
    table = replay.segments
    mixed = type(table)(
        **{name: getattr(table, name)[np.array(shift)] for name in table.__dataclass_fields__}
    )

    assert same(judge(replay), judge(replace(replay, segments=mixed)))


def same(one: Measures, other: Measures) -> bool:
    return np.allclose(list(one.figures().values()), list(other.figures().values()), equal_nan=True)
