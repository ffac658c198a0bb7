"""Where jobs cannot move: what holds for gangs that have waited too long, and for all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.lab.rigid.by_hand import jobs, nodes, replayed, spans
from sim.lab.rigid.laws import assert_lawful, short_of_guarantee
from sim.lab.rigid.small_cases import Row, rows, run, trace_from
from steward.model.trace import Trace

WAIT_S = 50.0
STAYS = {"commons.moves": False, "commons.gang_wait_s": WAIT_S}
LENGTHS_S = st.sampled_from([1, 5, 40, 600, 9000])
NARROW = st.lists(
    st.tuples(st.sampled_from([0, 1, 5, 20]), LENGTHS_S, st.just(1), st.sampled_from("abc")),
    min_size=12,
    max_size=40,
)


@pytest.mark.parametrize("placement", ["count", "packed", "spread", "topology"])
@settings(max_examples=20)
@given(jobs=rows(most_gpus=12, durations_s=LENGTHS_S), checkpoint_s=st.sampled_from([0.0, 10.0]))
def test_no_gpu_is_held_twice_and_every_job_runs_to_its_end(
    placement: str, jobs: Any, checkpoint_s: float
) -> None:
    trace = trace_from(jobs, most_gpus=12)

    made = run(
        trace,
        12,
        "commons",
        placement=placement,
        checkpoint_s=checkpoint_s,
        policy_options=STAYS,
    )

    assert_lawful(made)
    assert not np.isnan(made.end_s).any()
    assert (made.lost_s == made.preemptions * checkpoint_s).all()


@settings(max_examples=30)
@given(jobs=rows(most_gpus=8, durations_s=LENGTHS_S))
def test_nobody_waits_for_what_it_is_guaranteed_because_a_gang_is_overdue(jobs: Any) -> None:
    trace = trace_from(jobs, most_gpus=8)
    quota = dict.fromkeys(trace.tenants, 4.001)

    made = run(trace, 13, "commons", quota=quota, policy_options=STAYS)

    assert short_of_guarantee(made) == []


@settings(max_examples=30)
@given(narrow=NARROW, gang=st.tuples(st.just(0), LENGTHS_S, st.just(4), st.sampled_from("abc")))
def test_a_single_gpu_that_is_guaranteed_is_had_although_a_node_is_cleared(
    narrow: list[Row], gang: Row
) -> None:
    trace = trace_from([gang, *narrow])
    quota = dict.fromkeys(trace.tenants, 4.001)

    made = run(trace, 16, "commons", quota=quota, placement="packed", policy_options=STAYS)

    late = [job for _, job in short_of_guarantee(made, placed=True) if trace.gpus[job] == 1]
    assert late == []


@settings(max_examples=30)
@given(narrow=NARROW, gang=st.tuples(st.just(1), LENGTHS_S, st.just(4), st.just("a")))
def test_a_gang_whose_tenant_is_owed_its_gpus_never_waits_longer_than_told(
    narrow: list[Row], gang: Row
) -> None:
    trace = trace_from([(0, 1, 1, "a"), gang, *narrow])
    quota = {name: 4.001 if name == "a" else 1.001 for name in trace.tenants}

    made = run(trace, 12, "commons", quota=quota, placement="packed", policy_options=STAYS)

    assert made.start_s[1] - trace.submit_s[1] <= WAIT_S


# -- by hand ---------------------------------------------------------------------------------------


def crowded() -> Trace:
    """Return four jobs of a GPU on each of two nodes, and a gang that comes after them."""
    narrow = [(0.0, 50_000.0, 1.0)] * 8
    return jobs(*narrow, (10.0, 90_000.0, 4.0), tenant=["a"] * 8 + ["b"])


def test_without_moves_a_gang_gets_its_node_when_it_has_waited_so_long() -> None:
    quota = {"a": 4.0, "b": 4.0}
    told = {"placement": "packed", "quota": quota, "policy_options": STAYS}

    made = replayed(crowded(), nodes(2), "commons", **told)

    assert made.start_s[8] <= 10.0 + WAIT_S
    assert spans(made, 8)[0][1] - spans(made, 8)[0][0] >= WAIT_S


def test_with_moves_the_wait_does_not_count() -> None:
    told = {"placement": "packed", "quota": {"a": 4.0, "b": 4.0}}

    plain = replayed(crowded(), nodes(2), "commons", **told)
    waits = replayed(
        crowded(), nodes(2), "commons", **told, policy_options={"commons.gang_wait_s": 1.0}
    )

    assert plain.start_s.tolist() == waits.start_s.tolist()
    assert plain.end_s.tolist() == waits.end_s.tolist()
