"""Why a job waited: the three kinds of time, the quota, and who ran meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.model.machines import MachineChange, machines_of
from steward.model.replay import Replay
from steward.model.trace import trace_of
from steward.sim.lab.explain import WaitExplanation, row_of, why_waited
from tiny_replays import replay_of, small_replay, small_trace, spans


def three(*rows: tuple[int, float, float, float], nodes: Any = None, **changes: Any) -> Replay:
    """Return what became of jobs that ask for 2, 4 and 1 of 4 GPUs, in two nodes of two."""
    trace = trace_of(
        "three",
        submit_s=[0, 10, 20],
        duration_s=[100, 50, 30],
        gpus=[2, 4, 1],
        tenant=["a", "b", "a"],
        **changes,
    )
    table = spans(*rows)
    if nodes is not None:
        table = replace(table, node=np.array(nodes), nodes=np.ones(len(nodes), np.int64))
    return replay_of(trace, machines_of(4, gpus_per_node=2), table)


def told(explanation: WaitExplanation) -> str:
    return "\n".join(explanation.lines())


def test_a_job_that_found_no_room_is_told_who_had_it() -> None:
    found = why_waited(three((0, 0, 100, 2), (2, 20, 50, 1), (1, 100, 150, 4)), 1)

    (wait,) = found.waits
    assert (wait.from_s, wait.to_s, wait.after) == (10, 100, "submission")
    assert (wait.full_s, wait.scattered_s, wait.kept_s) == (90, 0, 0)
    assert [(each.name, each.gpu_h) for each in wait.tenants] == [
        ("a", pytest.approx((2 * 90 + 30) / 3600))
    ]
    assert [each.name for each in wait.holders] == ["0", "2"]
    assert (wait.overtook_jobs, [each.name for each in wait.overtook]) == (1, ["2"])
    assert wait.tenant_held_gpus == 0
    assert "90 s of that" not in told(found)
    assert "1.5 min: too few GPUs were free (it asks for 4)" in told(found)
    assert "tenant b held 0 of 2 guaranteed GPUs: this job would have gone beyond" in told(found)
    assert "1 job submitted later ran meanwhile" in told(found)


def test_room_that_a_policy_kept_is_called_that() -> None:
    found = why_waited(three((0, 0, 100, 2), (1, 100, 150, 4), (2, 150, 180, 1)), 2)

    (wait,) = found.waits
    assert (wait.kept_s, wait.full_s) == (80, 50)
    assert wait.inside_quota_s == 50  # while `a` held its two GPUs, one more was beyond its quota
    assert wait.queued_before == 1
    assert "1 GPUs were free, and the policy kept them for others" in told(found)


def test_free_gpus_that_lie_apart_are_fragments() -> None:
    trace = trace_of("apart", submit_s=[0, 0, 5], duration_s=[50, 50, 10], gpus=[1, 1, 2])
    table = spans((0, 0, 50, 1), (1, 0, 50, 1), (2, 50, 60, 2))
    placed = replace(table, node=np.array([0, 1, 0]), nodes=np.ones(3, np.int64))

    found = why_waited(replay_of(trace, machines_of(4, gpus_per_node=2), placed), 2)

    (wait,) = found.waits
    assert (wait.scattered_s, wait.kept_s, wait.full_s) == (45, 0, 0)
    assert wait.most_free_gpus == 2
    assert "2 GPUs were free, but on no node together" in told(found)


def test_every_wait_after_a_preemption_is_told() -> None:
    found = why_waited(three((1, 10, 30, 4), (0, 30, 130, 2), (2, 30, 60, 1), (1, 130, 160, 4)), 1)

    assert [wait.after for wait in found.waits] == ["preemption"]
    assert "after it was preempted" in told(found)


def test_a_job_that_did_not_wait_has_nothing_to_tell() -> None:
    found = why_waited(three((0, 0, 100, 2), (2, 20, 50, 1), (1, 100, 150, 4)), 0)

    assert found.waits == ()
    assert "it did not wait, and ended after 1.67 min" in told(found)


def test_a_job_that_never_ran_waits_to_the_end() -> None:
    found = why_waited(three((0, 0, 100, 2), (2, 20, 50, 1)), 1)

    (wait,) = found.waits
    assert (wait.from_s, wait.to_s) == (10, 100)
    assert "it did not finish" in told(found)


def test_a_job_larger_than_the_cluster_is_told_so() -> None:
    trace = trace_of("huge", submit_s=[0, 0], duration_s=[9, 9], gpus=[64, 1])

    found = why_waited(replay_of(trace, machines_of(8), spans((1, 0, 9, 1))), 0)

    assert "it can never run: the cluster has 8 GPUs" in told(found)


def test_time_that_others_had_to_end_first_is_no_waiting() -> None:
    replay = three((0, 0, 100, 2), (1, 120, 170, 4), (2, 20, 50, 1), after=[[1, 0]])

    found = why_waited(replay, 1)

    (wait,) = found.waits
    assert (wait.from_s, wait.after) == (100, "dependencies")
    assert "jobs that it depends on kept it back 1.5 min" in told(found)


def test_machines_that_were_gone_had_no_room() -> None:
    replay = three((0, 0, 100, 2), (1, 100, 150, 4), (2, 150, 180, 1))
    gone = replace(
        replay.machines,
        changes=(
            MachineChange(t_s=15.0, node=1, up=False),
            MachineChange(t_s=60.0, node=1, up=True),
        ),
    )

    (wait,) = why_waited(replace(replay, machines=gone), 2).waits

    assert (wait.full_s, wait.kept_s) == (40 + 50, 40)


@given(seed=st.integers(0, 30), job=st.integers(0, 39))
@settings(max_examples=40)
def test_the_kinds_of_time_add_up_to_the_wait(seed: int, job: int) -> None:
    replay = small_replay(40, seed=seed)

    found = why_waited(replay, job)

    waited = replay.end_s[job] - replay.trace.submit_s[job] - replay.trace.duration_s[job]
    assert sum(wait.length_s for wait in found.waits) == pytest.approx(waited)
    for wait in found.waits:
        parts = wait.full_s + wait.scattered_s + wait.kept_s
        assert parts == pytest.approx(wait.length_s)
        assert wait.inside_quota_s <= wait.length_s + 1e-6
        held = sum(each.gpu_h for each in wait.tenants) * 3600
        assert held <= 8 * wait.length_s + 1e-6


def test_a_job_is_found_by_its_id_or_the_nearest_is_named() -> None:
    trace = small_trace(3, job_id=["alpha", "beta", "gamma"])

    assert row_of(trace, "beta") == 1
    with pytest.raises(StewardError, match="no job 'bta' in the trace; ids look like: alpha") as no:
        row_of(trace, "bta")
    assert no.value.hint == "did you mean 'beta'?"


def test_the_record_has_the_words_too() -> None:
    found = why_waited(three((0, 0, 100, 2), (2, 20, 50, 1), (1, 100, 150, 4)), 1)

    record = found.as_record()

    assert record["says"] == list(found.lines())
    assert record["waits"][0]["full_s"] == 90
