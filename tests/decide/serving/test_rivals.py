"""The rules of others, and the rarer paths of ours, in moments made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from serving_moments import kind, view
from steward.decide.serving.cheapest_place import cheapest, sent_so_far
from steward.decide.serving.chiron import Chiron
from steward.decide.serving.demand import demand_of
from steward.decide.serving.evictions import evictions
from steward.decide.serving.model_swaps import rebalanced
from steward.decide.serving.qlm import Qlm
from steward.decide.serving.scaling.chiron import ChironScaler
from steward.decide.serving.scaling.kpa import Kpa
from steward.decide.serving.scaling.local_limits import back_pressure
from steward.decide.serving.scaling.qps import Qps
from steward.decide.serving.scaling.replicas import pools
from steward.decide.serving.scaling.wva import Wva
from steward.model.serving.view import (
    LEAVING,
    OFF,
    RUNNING,
    SERVING,
    SWAPPING,
    InstanceRates,
    ServingView,
)


class SecondHasAll:
    def cached_tokens(self, request: int, instance: int) -> int:
        return 100 * instance


def with_requests(seen: ServingView, **columns: object) -> ServingView:
    return replace(seen, requests=replace(seen.requests, **columns))


def test_a_cached_prompt_outweighs_a_few_requests_more() -> None:
    seen = view(queue=[0], room=[1, 1], running=[0, 1], types=(kind(),))
    times = replace(seen.types[0].step_times, token_s=1e-3)
    seen = replace(seen, types=(replace(seen.types[0], step_times=times),))

    assert cheapest(seen, 0, [0, 1], sent_so_far(seen)) == 0
    cached = replace(seen, prefixes=SecondHasAll())
    shorter = with_requests(cached, prompt_tokens=np.full(10, 2000))
    longer = replace(shorter, prefixes=type("All", (), {"cached_tokens": lambda *a: 2000 * a[2]})())
    assert cheapest(longer, 0, [0, 1], sent_so_far(longer)) == 1


def test_nothing_more_is_evicted_while_somebody_leaves() -> None:
    seen = view(queue=[0], room=[0], ranks=[0, 1, 1] + [0] * 7, running=[256])
    flying = with_requests(
        seen,
        state=np.array([1, RUNNING, RUNNING] + [1] * 7),
        instance=np.array([-1, 0, 0] + [-1] * 7),
        arrival_s=np.full(10, 99.0),
    )
    leaving = with_requests(flying, state=np.array([1, RUNNING, LEAVING] + [1] * 7))

    assert Chiron().dispatch(flying).evict == (1,)
    assert Chiron().dispatch(leaving).evict == ()
    assert evictions(flying, demand_of(flying, flying.queue)) == ()  # no wait is known


def test_an_idle_instance_loads_what_has_none_before_demand_is_looked_at() -> None:
    types = (kind("m"), kind("n"))
    seen = view(queue=[0], room=[1, 0], types=types, models=[1] * 10, state=[SERVING, OFF])

    assert rebalanced(seen, demand_of(seen, seen.queue)) == ((0, 1),)
    assert Qlm().dispatch(seen).swaps == ((0, 1),)  # all are late: demand decides


def test_no_instance_is_given_away_that_is_needed() -> None:
    types = (kind("m"), kind("n"))
    seen = view(
        queue=list(range(10)),
        room=[1, 0],
        types=types,
        type=[0, 1],
        model=[0, 1],
        models=[0] * 5 + [1] * 5,
        running=[9, 9],
    )
    fresh = with_requests(seen, arrival_s=np.full(10, 99.0), prompt_tokens=np.full(10, 10_000_000))
    slow = tuple(replace(each, step_times=replace(each.step_times, token_s=1e-5)) for each in types)

    fresh = replace(fresh, types=slow)
    assert rebalanced(fresh, demand_of(fresh, fresh.queue)) == ()


def test_chiron_keeps_the_number_of_instances_near_its_middle() -> None:
    seen = view(queue=[], room=[1, 1, 1])
    one_of_three = with_requests(
        seen, state=np.array([RUNNING] + [4] * 9), instance=np.array([0] + [-1] * 9)
    )
    idle = with_requests(seen, instance=np.full(10, -1))

    assert ChironScaler().scale(one_of_three).drain == ()
    assert len(ChironScaler().scale(idle).drain) == 2


def test_knative_panics_when_a_burst_wants_twice_of_what_there_is() -> None:
    seen = view(queue=[], room=[1] + [0] * 4, state=[SERVING] + [OFF] * 4)
    burst = with_requests(seen, arrival_s=np.full(10, 95.0))
    earlier = with_requests(seen, finish_s=np.full(10, 30.0))

    assert len(Kpa(target=4.0).scale(burst).start) == 2
    assert Kpa(target=4.0).scale(earlier).start == ()


def test_back_pressure_is_the_larger_of_latency_and_lost_throughput() -> None:
    seen = view(queue=[], room=[1], running=[256])
    there = with_requests(seen, instance=np.zeros(10, np.int64))
    rates = InstanceRates(
        window_s=5.0,
        itl_s=np.array([0.1]),
        tokens_per_s=np.array([100.0]),
        tokens_per_s_before=np.array([150.0]),
    )

    assert back_pressure(replace(there, rates=rates), 0) == pytest.approx(1.5)
    less = replace(rates, tokens_per_s_before=np.array([10.0]))
    assert back_pressure(replace(there, rates=less), 0) == pytest.approx(0.5)
    assert back_pressure(there, 0) is None


def test_skyserve_waits_before_it_adds_and_longer_before_it_takes() -> None:
    rule = Qps(target_qps=0.01, window_s=20.0, up_s=20.0, down_s=60.0)
    few = view(queue=[], room=[1, 0, 0, 0, 0], state=[SERVING] + [OFF] * 4)
    busy = with_requests(few, arrival_s=np.sort(np.linspace(45.0, 99.0, 10)))
    many = with_requests(view(queue=[], room=[1] * 5), arrival_s=np.full(10, 5.0))

    assert len(rule.scale(busy).start) == 4
    assert len(rule.scale(many).drain) == 4


def test_an_instance_that_swaps_counts_for_its_next_model() -> None:
    types = (kind("m"), kind("n"))
    seen = view(queue=[], room=[0], types=types, type=[0], model=[1], state=[SWAPPING])

    assert [(len(pool), pool.type) for pool in pools(seen)] == [(0, 0), (1, 1)]


def test_wva_adds_one_when_saturated_and_takes_one_when_the_others_suffice() -> None:
    full = view(queue=[], room=[0, 0], state=[SERVING, OFF], kv_tokens=[500_000, 0])
    empty = view(queue=[], room=[1, 1])
    alone = view(queue=[], room=[1])

    assert Wva().scale(full).start == (0,)
    assert len(Wva().scale(empty).drain) == 1
    assert Wva(fewest=0).scale(alone).drain == ()
