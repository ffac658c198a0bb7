"""What moves a job forward under commons, by hand: its class, a deadline, long waiting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.lab.rigid.by_hand import jobs, nodes, replayed
from steward.model.replay import Replay
from steward.model.trace import Trace

SURE = {"commons.strength": 1e-3}  # believes what few jobs have shown


def on_one_gpu(trace: Trace, **options: Any) -> Replay:
    told = {f"commons.{name}": value for name, value in options.items()}
    return replayed(trace, nodes(1, gpus=1), "commons", policy_options={**SURE, **told})


# -- classes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("class_weight", "starts"), [(2.0, [0, 60, 30]), (1.0, [0, 30, 60])])
def test_a_higher_class_goes_first_among_jobs_with_the_same_past(
    class_weight: float, starts: list[float]
) -> None:
    trace = jobs((0, 30, 1), (1, 30, 1), (2, 30, 1), priority=[0, 0, 7])

    made = on_one_gpu(trace, class_weight=class_weight)

    assert made.start_s.tolist() == starts
    assert not made.preemptions.any()


def test_a_class_is_stopped_for_only_if_it_counts_for_more_than_the_lead_of_who_runs() -> None:
    trace = jobs((0, 50, 1), (10, 30, 1), priority=[0, 1])

    assert on_one_gpu(trace, class_weight=2.0).start_s.tolist() == [0, 50]
    assert on_one_gpu(trace, class_weight=2.5).start_s.tolist() == [0, 10]


# -- deadlines -------------------------------------------------------------------------------------

FROM_S = 5000.0


def five_in_line(deadline_s: float) -> Replay:
    """Replay five jobs that are known to take 100 s; the last comes 10 s late and has a deadline.

    In the memory of commons 100 s are from 85 to 120, so it expects 102 s.
    """
    past = [(100.0 * i, 100, 1) for i in range(50)]
    late = [0.0, 1.0, 2.0, 3.0, 10.0]
    due_s = [np.nan] * 54 + [deadline_s]
    return on_one_gpu(jobs(*past, *[(FROM_S + s, 100, 1) for s in late], deadline_s=due_s))


@pytest.mark.parametrize(
    ("deadline_s", "starts"),
    [
        (np.nan, [0, 100, 200, 300, 400]),
        (1e6, [0, 100, 200, 300, 400]),  # there is time
        (293.0, [0, 100, 200, 400, 300]),  # it is due at 303: from 201 on it may not wait longer
        (292.0, [0, 100, 300, 400, 200]),  # from 200 on
        (191.0, [0, 200, 300, 400, 100]),
        (30.0, [0, 100, 200, 300, 400]),  # it has passed when the first GPU is free
    ],
)
def test_a_job_goes_first_when_its_deadline_nears_until_it_has_passed(
    deadline_s: float, starts: list[float]
) -> None:
    made = five_in_line(deadline_s)

    assert (made.start_s[-5:] - FROM_S).tolist() == starts
    assert not made.preemptions.any()


# -- long waiting ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("old_s", "waited_s"), [(np.inf, 1800), (100.0, 810)])
def test_who_has_waited_very_long_passes_those_that_are_shorter(
    old_s: float, waited_s: float
) -> None:
    past = [(1000.0 * i, 30, 1) for i in range(20)]
    past += [(1000.0 * i + 100, 200, 1) for i in range(20)]
    stream = [(FROM_S * 8 + 30 * i, 30, 1) for i in range(60)]
    users = ["quick"] * 20 + ["slow"] * 20 + ["slow"] + ["quick"] * 60
    trace = jobs(*past, (FROM_S * 8, 200, 1), *stream, user=users)
    mine = 40  # of equal times, the first in the list

    made = on_one_gpu(trace, old_s=old_s)

    # 205 s of expected work count as less than 30 s once it is eight times as old as `old_s`.
    assert trace.duration_s[mine] == 200
    assert made.start_s[mine] - trace.submit_s[mine] == waited_s
    assert not made.preemptions.any()
