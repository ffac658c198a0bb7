from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from factories import job, loan, moment, node, samples, view
from steward.model.cluster import Health
from steward.model.cluster_snapshot import GpuState, cluster_snapshot, fair_shares
from steward.model.event import Observation
from steward.model.identity import GpuId, NodeId
from steward.model.job import JobState
from steward.model.view import TenantColumns


def tenants(weights: list[float], guaranteed: list[int]) -> TenantColumns:
    none = np.zeros(len(weights), dtype=np.int64)
    return TenantColumns(
        ids=np.array([f"t{i}" for i in range(len(weights))], dtype=object),
        weight=np.array(weights),
        guaranteed=np.array(guaranteed, dtype=np.int64),
        held=none,
        borrowed=none,
        waiting=none,
    )


def test_each_gpu_is_in_the_state_that_people_would_name() -> None:
    made = moment(node("n1", 6), jobs=[job("j1", on=[f"n1/gpu{i}" for i in range(4)])])
    made.fold(Observation(health={GpuId("n1/gpu2"): Health.BAD}))
    busy = {"n1/gpu0": 0.9, "n1/gpu1": 0.0, "n1/gpu2": 0.0, "n1/gpu3": None, "n1/gpu4": 0.0}
    rows = {gpu: {"gpu.busy_share": share} for gpu, share in busy.items()}
    made.fold(Observation(frame=samples(50.0, rows)))

    shown = cluster_snapshot(made.view(60.0))

    assert [gpu.state for gpu in shown.gpus] == [
        GpuState.BUSY,
        GpuState.IDLE,
        GpuState.FAILED,
        GpuState.UNKNOWN,
        GpuState.FREE,
        GpuState.UNKNOWN,
    ]
    assert [gpu.idle_s for gpu in shown.gpus] == [None, 10.0, 10.0, None, None, None]
    assert shown.states[GpuState.UNKNOWN] == 2


def test_a_node_that_is_drained_is_marked() -> None:
    made = moment(node("n1", 1), node("n2", 1))
    made.fold(Observation(draining={NodeId("n2"): True}))

    shown = cluster_snapshot(made.view(60.0))

    assert [(each.id, each.draining) for each in shown.nodes] == [("n1", False), ("n2", True)]


def test_a_lent_gpu_names_its_loan_and_whose_work_runs_on_it() -> None:
    jobs = [job("j1", on=["n1/gpu0"]), job("j2", tenant="b", on=["n1/gpu0"])]

    (lent, free) = cluster_snapshot(view(jobs=jobs, loans=[loan("d-7")])).gpus

    assert (lent.state, lent.owner, lent.tenant) == (GpuState.LENT, "j1", "a")
    assert (lent.borrower, lent.borrower_tenant, lent.loan) == ("j2", "b", "d-7")
    assert (free.state, free.owner, free.loan) == (GpuState.FREE, None, None)


def test_who_waits_longest_stands_first_in_the_queue() -> None:
    jobs = [job("late", submit_s=900.0), job("early", submit_s=100.0, user="ada", deadline_s=5.0)]

    queue = cluster_snapshot(view(jobs=jobs, t_s=1000.0)).queue

    assert [(each.id, each.waiting_s) for each in queue] == [("early", 900.0), ("late", 100.0)]
    assert (queue[0].user, queue[0].deadline_s, queue[1].deadline_s) == ("ada", 5.0, None)


def test_jobs_that_run_are_listed_with_or_without_a_gpu() -> None:
    held = job("j1", on=["n1/gpu0"], user="ada")
    bare = replace(job("j2", on=[]), state=JobState.RUNNING, nodes=(NodeId("n2"),))

    running = cluster_snapshot(view(jobs=[held, bare, job("j3")])).running

    assert [(each.id, each.user, each.nodes) for each in running] == [
        ("j1", "ada", ("n1",)),
        ("j2", "", ("n2",)),
    ]


def test_a_world_without_anything_is_shown_as_such() -> None:
    shown = cluster_snapshot(moment().view(0.0))

    assert (shown.queue, [gpu.state for gpu in shown.gpus]) == ((), [GpuState.UNKNOWN] * 2)


def test_a_fair_share_is_the_guarantee_and_the_weights_part_of_the_rest() -> None:
    due = fair_shares(tenants([1.0, 3.0], [4, 0]), 12)

    assert due == [6.0, 6.0]


@given(
    st.lists(st.tuples(st.floats(0.1, 100), st.integers(0, 50)), min_size=1, max_size=8),
    st.integers(0, 200),
)
def test_fair_shares_always_add_up_to_the_cluster(
    given_tenants: list[tuple[float, int]], gpus: int
) -> None:
    weights, guaranteed = zip(*given_tenants, strict=True)

    due = fair_shares(tenants(list(weights), list(guaranteed)), gpus)

    assert np.isclose(sum(due), gpus)
    assert min(due) >= 0
