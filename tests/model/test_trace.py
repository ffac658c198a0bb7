from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.model.machines import machines_of
from steward.model.replay import Segments
from steward.model.trace import RowFault, trace_of


def small(**columns: Any) -> Any:
    """Return five jobs, not in the order in which they come."""
    values = {
        "submit_s": [30.0, 10.0, 20.0, 10.0, 40.0],
        "duration_s": [3.0, 1.0, 2.0, 1.5, 4.0],
        "gpus": [8, 1, 2, 0.25, 0],
        "job_id": ["c", "a", "b", "a2", "d"],
    }
    return trace_of("small", **{**values, **columns})


def test_rows_come_in_the_order_of_submission_and_ties_in_that_of_the_file() -> None:
    trace = small()

    assert trace.job_id.tolist() == ["a", "a2", "b", "c", "d"]
    assert trace.submit_s.tolist() == [10, 10, 20, 30, 40]
    assert trace.duration_s.tolist() == [1, 1.5, 2, 3, 4]
    assert len(trace) == 5


def test_what_was_not_given_is_none_or_unknown() -> None:
    trace = small(job_id=range(5))

    assert trace.job_id.tolist() == ["1", "3", "2", "0", "4"]
    assert (trace.tenant == -1).all()
    assert trace.tenants == trace.users == trace.models == trace.gpu_types == ()
    for column in (trace.cpus, trace.memory_bytes, trace.batch, trace.deadline_s):
        assert np.isnan(column).all()
    assert trace.priority.tolist() == [0] * 5
    assert trace.after.shape == (0, 2)
    assert (trace.origin, trace.synthetic, trace.faults) == ("", False, ())


def test_names_become_codes_and_no_name_is_minus_one() -> None:
    trace = small(user=["x", "y", "", "x", "z"], synthetic=True, origin="made up")

    names = [trace.users[code] if code >= 0 else "" for code in trace.user]
    assert names == ["y", "x", "", "x", "z"]
    assert sorted(trace.users) == ["x", "y", "z"]
    assert trace.synthetic


def test_dependencies_follow_their_jobs_when_rows_are_sorted() -> None:
    trace = small(after=[(0, 1), (4, 2)])  # c after a, d after b

    pairs = [(trace.job_id[job], trace.job_id[before]) for job, before in trace.after]
    assert pairs == [("c", "a"), ("d", "b")]


def test_a_part_begins_at_time_zero_and_keeps_the_dependencies_inside_it() -> None:
    trace = small(after=[(0, 1), (4, 2), (4, 0)], cpus=[1.0, 2.0, 3.0, 4.0, 5.0])

    part = trace.rows(np.array([2, 3, 4]), name="end")

    assert (part.name, part.job_id.tolist()) == ("end", ["b", "c", "d"])
    assert part.submit_s.tolist() == [0, 10, 20]
    assert part.cpus.tolist() == [3, 1, 5]
    assert sorted(map(tuple, part.after.tolist())) == [(2, 0), (2, 1)]


def test_a_mask_keeps_the_rows_that_it_says_and_the_name() -> None:
    trace = small()

    part = trace.rows(trace.gpus >= 1)

    assert (part.name, part.job_id.tolist()) == ("small", ["a", "b", "c"])


def test_a_part_with_nothing_in_it_is_a_trace() -> None:
    part = small(after=[(0, 1)]).rows(np.zeros(5, np.bool_))

    assert len(part) == len(part.after) == 0


def test_one_tenants_jobs_begin_with_its_own_first() -> None:
    trace = small(tenant=["t", "s", "t", "s", "t"])

    mine = trace.of_tenant("t")

    assert (mine.name, mine.job_id.tolist()) == ("small/t", ["b", "c", "d"])
    assert mine.submit_s[0] == 0


def test_all_the_work_is_gpu_time() -> None:
    assert small().gpu_seconds == 1 + 0.375 + 4 + 24 + 0


def test_a_trace_without_jobs_has_no_dependencies_either() -> None:
    empty = trace_of("none", submit_s=[], duration_s=[], gpus=[], tenant=[])

    assert (len(empty), empty.gpu_seconds, empty.tenants) == (0, 0.0, ())


def test_a_column_that_no_trace_has_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="no such columns: \\['colour'\\]"):
        small(colour=["red"] * 5)


def test_faults_are_kept_with_the_trace() -> None:
    fault = RowFault(reason="negative duration", rows=2, examples=("line 7: -3",))

    assert small(faults=(fault,)).faults == (fault,)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["", "p", "q"])), max_size=20))
def test_sorting_changes_no_row(jobs: list[tuple[int, str]]) -> None:
    rows = list(range(len(jobs)))
    trace = trace_of(
        "any",
        submit_s=[float(submit_s) for submit_s, _ in jobs],
        duration_s=[float(row) for row in rows],
        gpus=[1.0] * len(jobs),
        tenant=[tenant for _, tenant in jobs],
        job_id=rows,
    )

    for row in range(len(trace)):
        submit_s, tenant = jobs[int(trace.job_id[row])]
        assert trace.submit_s[row] == submit_s
        assert trace.duration_s[row] == int(trace.job_id[row])
        assert (trace.tenants[trace.tenant[row]] if trace.tenant[row] >= 0 else "") == tenant


def test_a_plain_cluster_puts_what_is_left_over_on_its_last_node() -> None:
    machines = machines_of(20, gpus_per_node=8, gpu_type="H100")

    assert machines.gpus.tolist() == [8, 8, 4]
    assert (len(machines), machines.total_gpus, machines.types) == (3, 20, ("H100",))
    assert machines.up.all()
    assert machines.changes == ()


def test_nodes_stand_in_racks_and_racks_below_switches() -> None:
    machines = machines_of(12, gpus_per_node=1, nodes_per_rack=2, racks_per_switch=3)

    assert machines.rack.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert machines.switch.tolist() == [0] * 6 + [1] * 6


def test_only_machines_that_are_there_count() -> None:
    machines = machines_of(16, gpus_per_node=8)
    machines.up[0] = False

    assert machines.total_gpus == 8


def test_segments_are_as_many_as_they_have_rows() -> None:
    column = np.zeros(3)
    whole = np.zeros(3, np.int64)

    spans = Segments(
        job=whole, start_s=column, stop_s=column, gpus=column, node=whole, nodes=whole, speed=column
    )

    assert len(spans) == 3
