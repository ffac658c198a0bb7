from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from factories import job, view
from steward.decide.scheduling.save_before_limit import SaveBeforeLimit
from steward.model.actions import Save, Tell
from steward.model.forecast import RUN_LEFT_S, About, ForecastColumn
from steward.model.identity import JobId
from steward.model.job import Checkpointing
from steward.model.view import ClusterView

GPU = "n1/gpu0"
POLICY = SaveBeforeLimit(margin_s=60.0)


def limited(limit_s: float | None, **changes: Any) -> ClusterView:
    """Return a moment, 1000 s after a job with this limit began; it saves within 20 s."""
    return view(
        jobs=[job("j1", **{"on": [GPU], "time_limit_s": limit_s, "user": "ann", **changes})]
    )


def believed(seen: ClusterView, low_s: float, high_s: float) -> ClusterView:
    low, high = np.full(len(seen.jobs), low_s), np.full(len(seen.jobs), high_s)
    column = ForecastColumn(
        about=About.JOBS, quantity=RUN_LEFT_S, low=low, mid=(low + high) / 2, high=high, basis="x"
    )
    return seen.with_forecasts((column,))


def test_a_job_is_asked_to_save_while_there_is_time_for_that_and_a_margin() -> None:
    (made,) = POLICY.decide(limited(1080.0))

    assert made.action == Save(job=JobId("j1"))
    assert made.because == "the time limit of job j1 ends it in 80 s, and a save may take 20 s"
    assert (made.tenant, made.subject) == ("a", "job:j1")
    assert POLICY.decide(limited(1081.0)) == ()


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(limited(None), id="without a limit"),
        pytest.param(limited(1010.0, start_s=None), id="began nobody knows when"),
        pytest.param(limited(1010.0, checkpointing=Checkpointing()), id="cannot save"),
        pytest.param(limited(1000.0), id="over already"),
        pytest.param(limited(60.0, start_s=980.0), id="a short one, before half of its time"),
        pytest.param(view(jobs=[job("j1", time_limit_s=10.0)]), id="waits"),
    ],
)
def test_who_is_not_asked_to_save(seen: ClusterView) -> None:
    assert POLICY.decide(seen) == ()


def test_it_is_asked_once_for_each_run_and_limit() -> None:
    (first,) = POLICY.decide(limited(1070.0))
    (later,) = POLICY.decide(view(jobs=list(limited(1070.0).details.values()), t_s=1005.0))
    (extended,) = POLICY.decide(limited(1080.0))
    (again,) = POLICY.decide(limited(1060.0, start_s=10.0))

    assert later.id == first.id
    assert len({first.id, extended.id, again.id}) == 3


def test_an_owner_whose_job_needs_longer_is_told_early_and_how_to_extend_it() -> None:
    (made,) = POLICY.decide(believed(limited(8200.0), 7201.0, 36_000.0))

    assert isinstance(made.action, Tell)
    assert (made.action.to, made.action.about, made.action.job) == ("ann", "job:j1", "j1")
    assert "ends it in 2 h, and jobs like it run for 2 to 10 h more" in made.action.text
    assert "steward jobs extend j1 --time +MINUTES" in made.action.text
    assert [each.quantity for each in made.forecasts] == [RUN_LEFT_S]


def test_who_may_be_done_within_the_limit_or_of_whom_nothing_is_known_is_not_told() -> None:
    assert POLICY.decide(believed(limited(8200.0), 7200.0, 36_000.0)) == ()
    assert POLICY.decide(believed(limited(8200.0), np.nan, np.nan)) == ()
    assert POLICY.decide(believed(limited(900.0), 10.0, 20.0)) == ()


def test_a_job_near_its_end_that_needs_longer_saves_and_its_owner_is_told() -> None:
    made = POLICY.decide(believed(limited(1070.0, user=""), 600.0, 900.0))

    assert [each.action.type for each in made] == ["save", "tell"]
    assert isinstance(made[1].action, Tell)
    assert made[1].action.to == "a"  # nobody knows its user: the tenant
