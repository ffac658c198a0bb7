"""What the simulator shows policies beside its columns: caches, counters, rates and roles."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from steward.decide.serving import DISPATCHERS, SCALERS
from steward.decide.serving.fcfs import Fcfs
from steward.errors import StewardError
from steward.model.serving.instance_type import InstanceType, StepTimes
from steward.model.serving.requests import BATCH, RequestTrace, requests_of
from steward.model.serving.token_counters import TokenCounters
from steward.model.serving.view import BATCH_ONLY, LEAVING, SERVING, Dispatch, Scaling, ServingView
from steward.sim.serving.simulate import Fleet, simulate

SMALL = InstanceType(
    name="small",
    model="m",
    step_times=StepTimes(fixed_s=0.01),
    kv_tokens=1024,
    max_sequences=4,
    max_batched_tokens=64,
    start_s=5.0,
    swap_s=2.0,
)


def trace(*rows: tuple[float, int, int], **columns: Any) -> RequestTrace:
    arrival, prompt, output = zip(*rows, strict=True)
    return requests_of(
        "t", arrival_s=arrival, prompt_tokens=prompt, output_tokens=output, **columns
    )


@dataclass
class Watching:
    """First come, first served, and keeps what `look` returns."""

    look: Any
    name: str = "watching"
    seen: list[Any] = field(default_factory=list)

    def dispatch(self, view: ServingView) -> Dispatch:
        self.seen.append(self.look(view))
        return Fcfs().dispatch(view)


@dataclass
class ScaledOnce:
    chosen: Scaling
    name: str = "scaled-once"
    every_s: float = 1.0
    seen: list[ServingView] = field(default_factory=list)
    roles: list[int] = field(default_factory=list)

    def scale(self, view: ServingView) -> Scaling:
        self.seen.append(view)
        self.roles.append(int(view.instances.role[-1]))
        return self.chosen if len(self.seen) == 1 else Scaling()


def test_a_view_shows_which_instance_has_cached_a_prompt() -> None:
    load = trace((0.0, 48, 5), (1.0, 48, 5), prefix=[[0, 1, 2], [0, 1, 3]], prefix_block_tokens=16)
    watching = Watching(look=lambda view: [view.prefixes.cached_tokens(1, row) for row in (0, 1)])

    simulate(load, Fleet(types=(SMALL,), instances=(0, 0)), watching)

    assert watching.seen == [[0, 0], [32, 0]]


def test_a_request_goes_to_where_its_prompt_is_cached() -> None:
    times = StepTimes(fixed_s=0.01, token_s=1e-3)
    kind = replace(SMALL, step_times=times)
    rows = [(0.0, 48, 5), (1.0, 48, 5), (2.0, 48, 5)]
    load = trace(*rows, prefix=[[0, 1, 2], [5, 6, 7], [5, 6, 8]], prefix_block_tokens=16)

    run = simulate(load, Fleet(types=(kind,), instances=(0, 0)), DISPATCHERS["qlm"]())

    assert run.instance[2] == run.instance[1]
    assert run.reused_tokens[2] == 32


def test_tenants_tokens_are_counted_as_the_counters_of_a_gateway_do() -> None:
    load = trace((0.0, 10, 5), (0.0, 20, 3), (9.0, 8, 2), tenant=["a", "b", "c"])
    watching = Watching(look=lambda view: view.served_tokens.tolist())
    counters = TokenCounters(1, 3)
    for tenant, prompt, output in ((0, 10, 5), (1, 20, 3)):
        counters.arrive(0, tenant)
        counters.serve(0, tenant, prompt=prompt, output=output)
        counters.leave(0, tenant)
    counters.arrive(0, 2)

    simulate(load, Fleet(types=(SMALL,), instances=(0,)), watching)

    assert watching.seen[-1] == counters.served.tolist()
    assert watching.seen[-1][0][:2] == [20.0, 26.0]


def test_a_scaler_sees_the_time_between_tokens_and_the_throughput_of_the_last_window() -> None:
    scaler = ScaledOnce(Scaling())

    simulate(trace((0.0, 10, 400)), Fleet(types=(SMALL,), instances=(0,)), Fcfs(), scaler=scaler)

    assert scaler.seen[0].rates is None
    rates = scaler.seen[2].rates
    assert rates is not None
    assert rates.itl_s[0] == pytest.approx(0.01)
    assert rates.tokens_per_s[0] == pytest.approx(100.0, abs=1.01)
    assert rates.tokens_per_s_before[0] == pytest.approx(100.0, abs=1.01)


def test_a_role_can_be_given_to_an_instance_that_starts() -> None:
    load = trace((0.0, 10, 400))
    scaler = ScaledOnce(Scaling(start=(0,), roles=((1, BATCH_ONLY),)))

    simulate(load, Fleet(types=(SMALL,), instances=(0,), places=2), Fcfs(), scaler=scaler)

    assert scaler.roles[1] == BATCH_ONLY
    wrong = ScaledOnce(Scaling(roles=((0, 7),)))
    with pytest.raises(StewardError, match="role 7 for instance 0"):
        simulate(load, Fleet(types=(SMALL,), instances=(0,)), Fcfs(), scaler=wrong)


def test_an_adapter_of_the_loaded_base_is_loaded_faster() -> None:
    base = replace(SMALL, base="b", adapter_s=0.25)
    other = replace(base, name="other", model="n")
    load = trace((0.0, 10, 5), (1.0, 10, 5), model=["m", "n"])

    run = simulate(load, Fleet(types=(base, other), instances=(0,)), Fcfs())

    assert run.finish_s[1] == pytest.approx(1.0 + 0.25 + 0.05)


def test_a_dispatcher_that_evicts_is_called_without_room_and_sees_who_leaves() -> None:
    class EvictOne:
        name = "evict-one"
        evicts = True
        leaving: list[int] = []  # noqa: RUF012 - one instance only

        def dispatch(self, view: ServingView) -> Dispatch:
            state = view.requests.state
            self.leaving.append(int((state == LEAVING).sum()))
            if view.instances.room[0] == 0 and view.instances.state[0] == SERVING:
                return Dispatch(evict=(0,) if state[0] == 3 or state[0] == LEAVING else ())
            order = sorted(view.queue.tolist(), reverse=True)
            return Dispatch(routes=tuple((row, 0) for row in order[: view.instances.room[0]]))

    narrow = replace(SMALL, max_sequences=1)
    load = trace((0.0, 10, 100), (0.505, 10, 10), (0.506, 10, 10))
    policy = EvictOne()

    run = simulate(load, Fleet(types=(narrow,), instances=(0,)), policy)

    assert run.returns.tolist() == [1, 0, 0]
    assert max(policy.leaving) == 1
    assert run.finish_s[2] < run.finish_s[1] < run.finish_s[0]


@pytest.mark.parametrize("name", sorted(SCALERS))
def test_with_each_scaler_all_requests_are_served(name: str) -> None:
    rng = np.random.default_rng(4)
    count = 120
    rows = [*np.sort(rng.random(count // 2)) * 20, *(300 + np.sort(rng.random(count // 2)) * 20)]
    load = trace(*[(float(t_s), 20, 30) for t_s in rows]).with_share(BATCH, rng.random(count) < 0.5)
    fleet = Fleet(types=(SMALL,), instances=(0,), places=4)

    run = simulate(load, fleet, DISPATCHERS["qlm"](), scaler=SCALERS[name]())

    assert np.isfinite(run.finish_s).all()
    assert run.gpu_seconds <= 4 * run.end_s
