"""What holds for every policy of the rigid engine, on every placement."""

from __future__ import annotations

from dataclasses import replace as changed
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.lab.rigid.laws import (
    as_bytes,
    assert_lawful,
    held_by_tenant,
    moments,
    short_of_guarantee,
)
from sim.lab.rigid.small_cases import TENANTS, rows, run, trace_from
from steward.model.machines import MachineChange, Machines, machines_of
from steward.model.replay import Replay
from steward.model.trace import Trace, trace_of
from steward.sim.lab.run import FAMILIES, replay
from steward.sim.lab.settings import LabSettings

POLICIES = (*FAMILIES["one order"], *FAMILIES["tenants"])
STOPPING = ("srtf", "srsf", "las", "tiresias", "gittins", "kueue", "commons")
PLACEMENTS = ("count", "packed", "spread", "topology", "fgd")
PLACED = st.sampled_from(PLACEMENTS)


def all_finish(made: Replay) -> bool:
    return not np.isnan(made.end_s).any()


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=25)
@given(
    jobs=rows(most_gpus=12, durations_s=st.sampled_from([1, 5, 20, 100, 5000])),
    placement=PLACED,
    checkpoint_s=st.sampled_from([0.0, 10.0]),
)
def test_gangs_run_to_their_end_and_no_law_is_broken(
    policy: str, jobs: Any, placement: str, checkpoint_s: float
) -> None:
    trace = trace_from(jobs, most_gpus=12)

    made = run(trace, 12, policy, placement=placement, checkpoint_s=checkpoint_s)

    assert_lawful(made)
    assert (made.lost_s == made.preemptions * checkpoint_s).all()
    assert policy in STOPPING or not made.preemptions.any()
    if policy == "static-quota":
        mine = LabSettings().entitlement_of(trace, made.machines)[trace.tenant]
        assert (np.isnan(made.end_s) == (trace.gpus > np.floor(mine * 1000 + 1e-6) / 1000)).all()
    else:
        assert all_finish(made)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=10)
@given(jobs=rows(most_gpus=8), placement=PLACED, seed=st.integers(0, 3))
def test_the_same_seed_gives_the_same_bytes(
    policy: str, jobs: Any, placement: str, seed: int
) -> None:
    trace = trace_from(jobs, most_gpus=8)
    told = {"placement": placement, "seed": seed, "forecast_error": 0.5}

    assert as_bytes(run(trace, 8, policy, **told)) == as_bytes(run(trace, 8, policy, **told))


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=10)
@given(jobs=rows(gaps_s=(1, 3, 20), most_gpus=8), placement=PLACED, data=st.data())
def test_the_order_of_the_file_does_not_matter_where_no_two_jobs_come_at_once(
    policy: str, jobs: Any, placement: str, data: st.DataObject
) -> None:
    first = [(1, 1, 1, tenant) for tenant in TENANTS]  # so that all are known in the same order
    sorted_rows = trace_from([*first, *jobs], most_gpus=8)
    order = [0, 1, 2, *(3 + i for i in data.draw(st.permutations(range(len(jobs)))))]
    mixed = trace_of(
        "small",
        submit_s=sorted_rows.submit_s[order],
        duration_s=sorted_rows.duration_s[order],
        gpus=sorted_rows.gpus[order],
        tenant=[TENANTS[code] for code in sorted_rows.tenant[order]],
    )

    made = (run(trace, 8, policy, placement=placement) for trace in (sorted_rows, mixed))

    assert as_bytes(next(made)) == as_bytes(next(made))


QUOTAS = st.fixed_dictionaries({name: st.integers(0, 6) for name in TENANTS})


@pytest.mark.parametrize("placement", PLACEMENTS)
@settings(max_examples=12)
@given(jobs=rows(most_gpus=6), quota=QUOTAS)
def test_nobody_ever_holds_more_than_its_static_quota(
    placement: str, jobs: Any, quota: dict[str, int]
) -> None:
    trace = trace_from(jobs)
    told = {name: quota[name] for name in trace.tenants}

    made = run(trace, max(1, sum(quota.values())), "static-quota", quota=told, placement=placement)

    limits = np.array([*told.values(), 0.0])
    assert all((held_by_tenant(made, t_s) <= limits).all() for t_s in moments(made))
    assert_lawful(made)


@pytest.mark.parametrize("checkpoint_s", [0.0, 20.0])
@settings(max_examples=30)
@given(
    jobs=rows(durations_s=st.sampled_from([1, 5, 40, 600, 9000])),
    quota=st.one_of(st.none(), QUOTAS),
)
def test_under_commons_nobody_waits_for_what_it_is_guaranteed(
    checkpoint_s: float, jobs: Any, quota: dict[str, int] | None
) -> None:
    trace = trace_from(jobs, most_gpus=8)
    told = quota and {name: quota[name] + 0.001 for name in trace.tenants}
    gpus = max(8, sum(quota.values()) + 1) if quota else 8

    made = run(trace, gpus, "commons", quota=told, checkpoint_s=checkpoint_s)

    assert short_of_guarantee(made) == []
    assert all_finish(made)


def broken(machines: Machines, *spells: tuple[float, float, int]) -> Machines:
    """Return machines of which nodes go away from when to when."""
    changes = [
        MachineChange(t_s=t_s, node=node, up=up)
        for down_s, up_s, node in spells
        for t_s, up in ((down_s, False), (up_s, True))
    ]
    return changed(machines, changes=tuple(changes))


SPELLS = st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(0, 2))


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=15)
@given(
    jobs=rows(most_gpus=12),
    placement=PLACED,
    spells=st.lists(SPELLS, max_size=3, unique_by=lambda spell: spell[2]),
)
def test_nothing_runs_on_a_node_that_is_down_and_all_is_made_up_for(
    policy: str, jobs: Any, placement: str, spells: list[tuple[int, int, int]]
) -> None:
    trace = trace_from(jobs, most_gpus=12)
    ways = [(float(t_s), float(t_s + long_s), node) for t_s, long_s, node in spells]
    machines = broken(machines_of(12, gpus_per_node=4), *ways)
    quota = dict.fromkeys(trace.tenants, 12.0)

    made = replay(trace, machines, policy, LabSettings(placement=placement, quota=quota))

    assert_lawful(made)
    assert all_finish(made)
    assert (made.lost_s[made.preemptions == 0] == 0).all()


@st.composite
def mixed_traces(draw: st.DrawFn) -> Trace:
    """Draw traces with everything in them: fractions, jobs without GPU, types, chains, prices."""
    jobs = draw(rows(most_gpus=4))
    n = len(jobs)
    sizes = draw(st.lists(st.sampled_from([0, 0.25, 0.5, 1, 2, 4]), min_size=n, max_size=n))
    kind = st.sampled_from(["A", "B", "A|B", ""])
    kinds = draw(st.lists(kind, min_size=n, max_size=n))
    pairs = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=5))
    prices = draw(st.lists(st.sampled_from([0.0, 3.0, np.nan]), min_size=n, max_size=n))
    trace = trace_from(
        jobs,
        gpu_type=kinds,
        after=[(max(pair), min(pair)) for pair in pairs if pair[0] != pair[1]] or np.empty((0, 2)),
        checkpoint_s=prices,
        cpus=[2.0] * n,
    )
    return changed(trace, gpus=np.array(sizes, np.float64))


def two_types() -> Machines:
    """Return a node of type A and two of type B, with as many CPUs as the jobs can ask for."""
    plain = machines_of(12, gpus_per_node=4)
    types = {"type": np.array([0, 1, 1]), "types": ("A", "B")}
    return changed(plain, **types, cpus=np.full(3, 70.0))


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=15)
@given(trace=mixed_traces(), placement=PLACED)
def test_whatever_a_job_asks_for_it_runs_to_its_end_where_it_may(
    policy: str, trace: Trace, placement: str
) -> None:
    quota = dict.fromkeys(trace.tenants, 12.0)
    told = LabSettings(
        placement=placement, quota=quota, checkpoint_s=7.0, type_speed={"A": 1.0, "B": 2.0}
    )

    made = replay(trace, two_types(), policy, told)

    assert_lawful(made)
    assert all_finish(made)
    price_s = np.where(np.isnan(trace.checkpoint_s), 7.0, trace.checkpoint_s)
    assert np.allclose(made.lost_s, made.preemptions * price_s)
    for job, speed in zip(made.segments.job, made.segments.speed, strict=True):
        names = trace.gpu_types[trace.gpu_type[job]] if trace.gpu_type[job] >= 0 else "A|B"
        assert {1.0: "A", 2.0: "B"}[speed] in names.split("|")
