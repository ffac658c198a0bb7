"""Every dispatcher and every scaler: pure, deterministic, and only what is possible."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.serving import DISPATCHERS, SCALERS
from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.instance_type import InstanceType, StepTimes
from steward.model.serving.requests import BATCH, INTERACTIVE, DeadlineClass
from steward.model.serving.view import (
    ARRIVING,
    DONE,
    DRAINING,
    OFF,
    QUEUED,
    RUNNING,
    SENT,
    SERVING,
    STARTING,
    SWAPPING,
    InstanceColumns,
    InstanceRates,
    RequestColumns,
    ServingView,
)

STANDARD = DeadlineClass(name="standard", rank=2, ttft_s=60.0)


class HalfCached:
    """Every second instance has half of each prompt."""

    def cached_tokens(self, request: int, instance: int) -> int:
        return 50 * (instance % 2) + request % 2


def kind(model: str, **given: Any) -> InstanceType:
    times = StepTimes(fixed_s=0.01, token_s=1e-4, kv_token_s=1e-7)
    return InstanceType(name=model, model=model, step_times=times, kv_tokens=50_000, **given)


def forecasts(rng: np.random.Generator, count: int, instances: int, types: int) -> ServingForecasts:
    work_s = rng.exponential(1.0, (types, count))
    return ServingForecasts(
        output_tokens=rng.exponential(200.0, count) + 1,
        output_sd=rng.exponential(100.0, count),
        work_s=work_s,
        work_sd_s=0.5 * work_s,
        first_token_s=0.1 * work_s,
        run_s=10 * work_s,
        bound_share=0.1,
        bound_sds=1.3,
        backlog_s=rng.normal(2.0, 4.0, instances),
        backlog_sd_s=rng.random(instances),
    )


@st.composite
def moments(draw: st.DrawFn) -> ServingView:
    """Return a moment with requests and instances in all states."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, places = draw(st.integers(0, 60)), draw(st.integers(1, 5))
    models = draw(st.integers(1, 2))
    types = (kind("m"), kind("n"))[:models]
    states = [OFF, STARTING, SERVING, SERVING, SERVING, SWAPPING, DRAINING]
    state = rng.choice(states, places)
    kinds = rng.integers(0, models, places)
    status = rng.choice([ARRIVING, QUEUED, QUEUED, QUEUED, SENT, RUNNING, DONE], count)
    on = np.flatnonzero(np.isin(state, (SERVING, SWAPPING, DRAINING)))
    flying = np.isin(status, (SENT, RUNNING)) & (len(on) > 0)
    status = np.where(np.isin(status, (SENT, RUNNING)) & ~flying, QUEUED, status)
    status = np.where(status == ARRIVING, DONE, status)
    where = rng.choice(on, count) if len(on) else np.full(count, -1)
    arrival_s = np.sort(rng.random(count)) * 90.0
    seen = ServingView(
        t_s=100.0,
        queue=np.flatnonzero(status == QUEUED),
        requests=RequestColumns(
            arrival_s=arrival_s,
            deadline_s=arrival_s + rng.choice([10.0, 60.0, 3600.0], count),
            prompt_tokens=rng.integers(1, 3000, count),
            deadline_class=rng.integers(0, 3, count),
            tenant=rng.integers(-1, 3, count),
            model=rng.integers(0, models, count),
            state=status,
            generated_tokens=np.where(status == QUEUED, 0, rng.integers(1, 300, count)),
            instance=np.where(flying, where, -1),
            sent_s=np.full(count, np.nan),
            first_token_s=np.where(status >= RUNNING, arrival_s + 1, np.nan),
            finish_s=np.where(status == DONE, arrival_s + 5, np.nan),
        ),
        instances=InstanceColumns(
            type=kinds,
            model=kinds.copy(),
            state=state,
            running=rng.integers(0, 9, places),
            waiting=rng.integers(0, 3, places),
            limit=np.full(places, 256),
            room=np.where(state == SERVING, rng.integers(0, 5, places), 0),
            kv_tokens=rng.integers(0, 50_000, places),
            role=rng.integers(0, 3, places),
        ),
        types=types,
        models=tuple(each.model for each in types),
        classes=(INTERACTIVE, STANDARD, BATCH),
        tenants=("a", "b", "c"),
    )
    if draw(st.booleans()):
        seen = replace(seen, forecasts=forecasts(rng, count, places, models))
    if draw(st.booleans()):
        seen = replace(seen, prefixes=HalfCached())
    if draw(st.booleans()):
        seen = replace(seen, served_tokens=rng.exponential(1e4, (3, 3)))
    if draw(st.booleans()):
        rates = InstanceRates(
            window_s=5.0,
            itl_s=np.where(rng.random(places) < 0.3, np.nan, rng.random(places)),
            tokens_per_s=rng.integers(0, 3, places) * 100.0,
            tokens_per_s_before=rng.integers(0, 3, places) * 100.0,
        )
        seen = replace(seen, rates=rates)
    return seen


def columns_of(view: ServingView) -> list[Any]:
    parts = (view.requests, view.instances)
    return [copy.copy(getattr(part, name)) for part in parts for name in part.__slots__]


@pytest.mark.parametrize("name", sorted(DISPATCHERS))
@given(seen=moments())
@settings(max_examples=60, deadline=None)
def test_dispatchers_are_pure_and_want_only_what_is_possible(name: str, seen: ServingView) -> None:
    before = columns_of(seen)

    chosen = DISPATCHERS[name]().dispatch(seen)

    assert chosen == DISPATCHERS[name]().dispatch(seen)
    for was, now in zip(before, columns_of(seen), strict=True):
        assert np.array_equal(was, now, equal_nan=True)
    requests = [request for request, _ in chosen.routes]
    assert len(requests) == len(set(requests))
    assert set(requests) <= set(seen.queue.tolist())
    for row, count in Counter(row for _, row in chosen.routes).items():
        assert count <= seen.instances.room[row]
    for request, row in chosen.routes:
        assert seen.requests.model[request] == seen.instances.model[row]
    assert all(seen.requests.state[row] in (SENT, RUNNING) for row in chosen.evict)
    swapped = {row for row, _ in chosen.swaps}
    for row, code in chosen.swaps:
        assert seen.instances.state[row] == SERVING
        assert 0 <= code < len(seen.types)
    assert not swapped & {row for _, row in chosen.routes}


@pytest.mark.parametrize("name", sorted(SCALERS))
@given(seen=moments())
@settings(max_examples=60, deadline=None)
def test_scalers_are_pure_and_want_only_what_is_possible(name: str, seen: ServingView) -> None:
    before = columns_of(seen)
    off = np.flatnonzero(seen.instances.state == OFF).tolist()

    chosen = SCALERS[name]().scale(seen)

    assert SCALERS[name]().name == name
    assert chosen == SCALERS[name]().scale(seen)
    for was, now in zip(before, columns_of(seen), strict=True):
        assert np.array_equal(was, now, equal_nan=True)
    assert len(chosen.start) <= len(off)
    assert all(0 <= code < len(seen.types) for code in chosen.start)
    assert len(chosen.drain) == len(set(chosen.drain))
    assert all(seen.instances.state[row] not in (OFF, DRAINING) for row in chosen.drain)
    assert all(1 <= limit <= 256 for _, limit in chosen.limits)
    assert {row for row, _ in chosen.roles} <= set(off[: len(chosen.start)])
