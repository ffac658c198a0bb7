"""Waits follow from the work ahead, the backlogs of instances and the order that is assumed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType
from steward.model.serving.requests import INTERACTIVE
from steward.model.serving.view import (
    DRAINING,
    SERVING,
    STARTING,
    InstanceColumns,
    RequestColumns,
    ServingView,
)
from steward.model.serving.waits import expected_waits, positive_part

TYPE_A = replace(H200_LLAMA_8B, name="a", model="a")
TYPE_B = replace(H200_LLAMA_8B, name="b", model="b")


def moment(
    work_s: list[float],
    *,
    work_sd_s: float = 0.0,
    models: list[int] | None = None,
    types: tuple[InstanceType, ...] = (TYPE_A,),
    instances: tuple[int, ...] = (0,),
    states: list[int] | None = None,
    backlog_s: list[float] | None = None,
) -> ServingView:
    """Return a moment in which requests with so much work wait; each needs 1 s to a token."""
    count, places = len(work_s), len(instances)
    zeros = np.zeros(count, np.int64)
    flat, nothing = np.zeros(count), np.full(count, np.nan)
    by_type = np.tile(np.array(work_s), (len(types), 1))
    idle = np.zeros(places, np.int64)
    return ServingView(
        t_s=100.0,
        queue=np.arange(count),
        requests=RequestColumns(
            arrival_s=flat,
            deadline_s=flat,
            prompt_tokens=zeros,
            deadline_class=zeros,
            tenant=zeros,
            model=zeros if models is None else np.array(models),
            state=zeros,
            generated_tokens=zeros,
            instance=zeros,
            sent_s=nothing,
            first_token_s=nothing,
            finish_s=nothing,
        ),
        instances=InstanceColumns(
            type=np.array(instances),
            model=np.array(instances),
            state=np.full(places, SERVING) if states is None else np.array(states),
            running=idle,
            waiting=idle,
            limit=idle,
            room=idle,
            kv_tokens=idle,
            role=idle,
        ),
        types=types,
        models=tuple(each.model for each in types),
        classes=(INTERACTIVE,),
        tenants=(),
        forecasts=ServingForecasts(
            output_tokens=flat,
            output_sd=flat,
            work_s=by_type,
            work_sd_s=np.full_like(by_type, work_sd_s),
            first_token_s=np.ones_like(by_type),
            run_s=by_type,
            bound_share=0.1,
            bound_sds=1.0,
            **(
                {}
                if backlog_s is None
                else {"backlog_s": np.array(backlog_s), "backlog_sd_s": np.zeros(places)}
            ),
        ),
    )


def test_a_request_waits_for_the_work_ahead_of_it_and_for_its_own_prompt() -> None:
    found = expected_waits(moment([2.0, 3.0, 4.0], backlog_s=[5.0]))

    assert found.begin_s.tolist() == [5.0, 7.0, 10.0]
    assert found.mean_s.tolist() == [6.0, 8.0, 11.0]
    assert found.sd_s == pytest.approx([0.5, 0.5, 0.5])  # of the second until the first token
    assert found.upper_s == pytest.approx(found.mean_s * 1.1 + 0.5)


def test_what_fits_into_the_batch_does_not_wait() -> None:
    found = expected_waits(moment([2.0, 2.0, 2.0], backlog_s=[-3.0]))

    assert found.begin_s.tolist() == [0.0, 0.0, 1.0]


def test_requests_begin_where_the_backlog_is_over_first() -> None:
    found = expected_waits(moment([4.0] * 3, instances=(0, 0), backlog_s=[1.0, 3.0]))

    assert found.instance.tolist() == [0, 1, 0]
    assert found.begin_s.tolist() == [1.0, 3.0, 5.0]


def test_another_order_is_what_if() -> None:
    found = expected_waits(moment([1.0, 2.0, 3.0]), np.array([2, 0]))

    assert found.requests.tolist() == [2, 0]
    assert found.begin_s.tolist() == [0.0, 3.0]


def test_a_fixed_instance_is_kept_although_another_is_free() -> None:
    view = moment([4.0] * 2, instances=(0, 0), backlog_s=[9.0, 0.0])

    found = expected_waits(view, assigned=np.array([0, -1]))

    assert found.begin_s.tolist() == [9.0, 0.0]


def test_what_no_instance_serves_waits_for_ever_until_one_is_added() -> None:
    view = moment([1.0, 1.0], models=[0, 1], types=(TYPE_A, TYPE_B), instances=(0,))

    assert expected_waits(view).mean_s.tolist() == [1.0, np.inf]
    assert expected_waits(view).instance.tolist() == [0, -1]
    assert expected_waits(view, added=((1, 30.0),)).mean_s.tolist() == [1.0, 31.0]


def test_instances_that_go_take_nothing_more() -> None:
    draining = moment([1.0], instances=(0, 0), states=[DRAINING, SERVING], backlog_s=[0.0, 5.0])

    assert expected_waits(draining).begin_s.tolist() == [5.0]
    assert expected_waits(draining, without=(1,)).begin_s.tolist() == [np.inf]


def test_without_known_backlogs_a_starting_instance_needs_its_whole_start() -> None:
    found = expected_waits(moment([1.0], states=[STARTING]))

    assert found.begin_s.tolist() == [TYPE_A.start_s]


WORK = st.lists(st.floats(0.0, 50.0), min_size=1, max_size=30)


@given(WORK, st.floats(0.0, 20.0), st.floats(-50.0, 50.0), st.integers(1, 4))
@settings(deadline=None)
def test_bounds_are_never_below_means_and_nothing_is_negative(
    work_s: list[float], sd_s: float, backlog_s: float, instances: int
) -> None:
    view = moment(
        work_s, work_sd_s=sd_s, instances=(0,) * instances, backlog_s=[backlog_s] * instances
    )

    found = expected_waits(view)

    assert np.all(found.begin_s >= 0)
    assert np.all(found.mean_s >= found.begin_s)
    assert np.all(found.upper_s >= found.mean_s)
    assert np.all(found.sd_s >= 0)


@given(WORK, st.floats(0.0, 20.0), st.floats(-50.0, 50.0))
@settings(deadline=None)
def test_on_one_instance_nobody_begins_before_those_ahead(
    work_s: list[float], sd_s: float, backlog_s: float
) -> None:
    found = expected_waits(moment(work_s, work_sd_s=sd_s, backlog_s=[backlog_s]))

    assert np.all(np.diff(found.begin_s) >= -1e-9)


@given(st.permutations(range(6)), st.lists(st.floats(0, 9), min_size=6, max_size=6))
@settings(deadline=None)
def test_the_last_of_a_queue_waits_as_long_whatever_the_order_of_those_ahead(
    ahead: list[int], work_s: list[float]
) -> None:
    view = moment([*work_s, 1.0], work_sd_s=1.0, backlog_s=[2.0])

    found = expected_waits(view, np.array([*ahead, 6]))

    assert found.mean_s[-1] == pytest.approx(expected_waits(view).mean_s[-1])


@given(WORK, st.integers(1, 4))
@settings(deadline=None)
def test_one_more_instance_makes_no_wait_longer(work_s: list[float], instances: int) -> None:
    view = moment(work_s, instances=(0,) * instances, backlog_s=[0.0] * instances)

    more = expected_waits(view, added=((0, 0.0),))

    assert np.all(more.begin_s <= expected_waits(view).begin_s + 1e-9)


def test_the_positive_part_of_a_normal_variable_has_the_known_moments() -> None:
    draw = np.maximum(np.random.default_rng(0).normal(1.0, 2.0, 400_000), 0.0)

    mean, sd = positive_part(1.0, 2.0)

    assert mean == pytest.approx(draw.mean(), rel=0.01)
    assert sd == pytest.approx(draw.std(), rel=0.01)
    assert positive_part(-1.0, 0.0) == (0.0, 0.0)
