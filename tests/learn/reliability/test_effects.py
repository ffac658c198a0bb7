"""What follows what, what it does to jobs, and how available nodes are."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from steward.learn.reliability import availability, down_counts, job_failures, propagation
from steward.learn.reliability.propagation import ends
from steward.model.faults import (
    Episode,
    FaultKind,
    GpuSighting,
    JobEnd,
    JobSpan,
    NodeSpell,
    inventory_of,
)

HOUR_S, DAY_S = 3600.0, 86_400.0
GPU, OTHER = "0000:06:00", "0000:07:00"


def xid(code: int, t_s: float, *, node: str = "n1", device: str = GPU) -> Episode:
    return Episode(
        id=f"{code} {node} {device} {t_s}", kind=FaultKind.XID, code=code, node=node, device=device,
        t_s=t_s, until_s=t_s, count=1,
    )  # fmt: skip


def scattered(code: int, count: int, *, seed: int, days: float = 30.0) -> list[Episode]:
    rng = np.random.default_rng(seed)
    return [
        xid(code, float(t), node=f"n{rng.integers(4)}", device=(GPU, OTHER)[rng.integers(2)])
        for t in rng.uniform(0, days * DAY_S, count)
    ]


def test_what_follows_within_seconds_is_found_with_its_share() -> None:
    first = scattered(122, 60, seed=0)
    then = [xid(31, each.t_s + 0.1, node=each.node, device=each.device) for each in first[:50]]
    noise = scattered(13, 200, seed=1)

    found = propagation([*first, *then, *noise])

    assert [(x.first, x.then, x.where) for x in found] == [("xid 122", "xid 31", "same-gpu")]
    assert (found[0].count, found[0].of) == (50, 60)
    assert found[0].share.low < 50 / 60 < found[0].share.high
    assert found[0].lift > 100


def test_what_reaches_another_gpu_of_the_node_is_told_apart() -> None:
    first = scattered(74, 40, seed=2)
    other = {GPU: OTHER, OTHER: GPU}
    then = [xid(74, x.t_s + 1, node=x.node, device=other[x.device]) for x in first]

    found = propagation([*first, *then])

    assert [(x.first, x.then, x.where) for x in found] == [("xid 74", "xid 74", "other-gpu")]


def test_what_comes_often_is_no_cause_of_what_comes_often() -> None:
    busy = [*scattered(13, 3000, seed=3, days=1.0), *scattered(31, 3000, seed=4, days=1.0)]

    assert propagation(busy) == []


def test_propagation_of_nothing_or_of_one_moment_is_nothing() -> None:
    assert propagation([]) == []
    assert propagation([xid(13, 5.0), xid(31, nan)]) == []
    assert ends([]) == {}


def test_the_share_that_ends_there_is_counted() -> None:
    found = ends([xid(122, 0.0), xid(31, 1.0), xid(122, 1000.0), xid(13, 9e5)])

    assert found["xid 122"].mid == 0.5
    assert found["xid 31"].mid == 1.0


def job(
    id_: str, start_s: float, end_s: float, end: JobEnd = JobEnd.DONE, **more: object
) -> JobSpan:
    given = {"nodes": ("n1",), "gpus": 2} | more
    return JobSpan(id=id_, start_s=start_s, end_s=end_s, end=end, **given)  # type: ignore[arg-type]


def test_a_job_that_fails_soon_after_a_fault_failed_for_it() -> None:
    jobs = [job(f"j{i}", i * 1000.0, i * 1000.0 + 510, JobEnd.FAILED) for i in range(20)]
    fine = [job(f"k{i}", i * 1000.0, i * 1000.0 + 500, nodes=("n2",)) for i in range(200)]
    faults = [xid(79, i * 1000.0 + 500) for i in range(20)]

    (found,) = job_failures(faults, [*jobs, *fine], now_s=1e6)

    assert (found.exposed, found.failed) == (20, 20)
    assert found.attributable.low > 0.8
    assert found.by_window == {5.0: 0, 10.0: 20, 20.0: 20, 60.0: 20, 300.0: 20, 600.0: 20}
    assert found.lost_gpu_hours == pytest.approx(20 * 2 * 510 / 3600)
    assert found.unexposed_failing.mid == 0.0


def test_faults_that_jobs_survive_are_not_blamed_for_failures() -> None:
    rng = np.random.default_rng(0)
    jobs = [
        job(f"j{i}", i * 1e4, i * 1e4 + 50, JobEnd.FAILED if rng.random() < 0.5 else JobEnd.DONE,
            nodes=(f"n{i % 2}",))
        for i in range(1000)
    ]  # fmt: skip
    faults = [xid(63, i * 1e4 + float(rng.uniform(0, 50)), node="n1") for i in range(1, 1000, 2)]

    (found,) = job_failures(faults, jobs, now_s=1e9)

    assert found.raw.mid > 0.1  # short jobs: chance alone puts failures near
    assert found.attributable.low < 0.03


def test_jobs_without_an_end_are_exposed_and_did_not_fail() -> None:
    (found,) = job_failures([xid(13, 50.0)], [job("j", 0.0, nan, JobEnd.OPEN)], now_s=100.0)

    assert (found.exposed, found.failed, found.by_chance) == (1, 0, 0.0)
    assert found.unexposed_failing.high == 1.0


def test_a_job_on_other_gpus_of_the_node_is_not_exposed() -> None:
    known = inventory_of(
        [
            GpuSighting(node="n1", slot=GPU, serial="a", index=0, t_s=0.0),
            GpuSighting(node="n1", slot=OTHER, serial="b", index=1, t_s=0.0),
        ]
    )
    first = job("first", 0.0, 100.0, indices={"n1": frozenset({0})})
    second = job("second", 0.0, 100.0, indices={"n1": frozenset({1})})
    unknown = job("whole", 0.0, 100.0)

    (found,) = job_failures(
        [xid(13, 50.0, device="a")], [first, second, unknown], now_s=1e3, inventory=known
    )

    assert found.exposed == 2


def test_faults_where_no_job_ran_expose_none() -> None:
    assert job_failures([xid(13, 50.0, node="n9"), xid(13, nan)], [job("j", 0, 9)], now_s=1.0) == []
    assert job_failures([xid(13, 5e5)], [job("j", 0, 9)], now_s=1e6) == []


def test_availability_counts_overlapping_reasons_once() -> None:
    spells = [
        NodeSpell(node="a", from_s=10 * HOUR_S, to_s=12 * HOUR_S),
        NodeSpell(node="a.domain", from_s=11 * HOUR_S, to_s=13 * HOUR_S),
        NodeSpell(node="b", from_s=90 * HOUR_S),
        NodeSpell(node="b", from_s=200 * HOUR_S, to_s=300 * HOUR_S),
    ]

    found = availability(spells, ["a", "b", "c", "d"], (0.0, 100 * HOUR_S))

    assert (found.nodes, found.failures, found.open_spells) == (4, 2, 1)
    assert found.available.mid == pytest.approx(1 - 13 / 400)
    assert found.available.low < found.available.mid < found.available.high
    assert found.mttf_h.mid == pytest.approx(387 / 2)
    assert found.mttr_h.mid == pytest.approx(3.0)
    assert found.mttr_h.high > 10  # of one repair, hardly anything is known
    assert found.worst[0] == ("a", 1, pytest.approx(3.0))


def test_nodes_that_never_left_are_not_believed_perfect() -> None:
    found = availability([], ["a", "b"], (0.0, 100 * HOUR_S))

    assert (found.available.mid, found.failures, found.mttf_h.high) == (1.0, 0, inf)
    assert found.available.low < 1.0
    assert found.mttr_h.high == inf
    assert availability([], [], (0.0, 0.0)).available.low == 0.0


def test_how_many_are_down_together_is_a_step_function() -> None:
    spells = [
        NodeSpell(node="a", from_s=10.0, to_s=30.0),
        NodeSpell(node="b", from_s=20.0, to_s=40.0),
    ]

    times, counts = down_counts(spells, (0.0, 50.0))

    assert times.tolist() == [0, 10, 20, 30, 40, 50]
    assert counts.tolist() == [0, 1, 2, 1, 0]
