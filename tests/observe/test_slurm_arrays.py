"""Arrays of which no further task may start now."""

from __future__ import annotations

from typing import Any

import pytest

from steward.clients.slurm.jobs import SlurmJob, job_from_json
from steward.observe.slurm_arrays import arrays_at_limit


def listed(id_: int, state: str, **changes: Any) -> SlurmJob:
    raw = {"job_id": id_, "job_state": state, "array_job_id": 40, "priority": 7, **changes}
    made = job_from_json(raw)
    assert made is not None
    return made


def waiting(tasks: str = "2-9%2") -> SlurmJob:
    return listed(40, "PENDING", array_task_string=tasks, priority=0, state_reason="JobHeldUser")


@pytest.mark.parametrize(
    ("second", "full"),
    [
        (listed(42, "RUNNING", array_task_id=1), True),
        (listed(42, "PENDING", array_task_id=1), True),  # let go: it is next
        (listed(42, "PENDING", array_task_id=1, priority=0), False),  # held
        (listed(42, "COMPLETED", array_task_id=1), False),
        (listed(42, "RUNNING", array_task_id=1, array_job_id=39), False),  # of another array
    ],
)
def test_no_more_tasks_start_than_may_run_at_once(second: SlurmJob, *, full: bool) -> None:
    first = listed(41, "RUNNING", array_task_id=0)

    assert arrays_at_limit([waiting(), first, second]) == ({"40"} if full else set())


def test_an_array_without_a_limit_is_never_at_it() -> None:
    first = listed(41, "RUNNING", array_task_id=0)

    assert not arrays_at_limit([waiting("2-9"), first])
