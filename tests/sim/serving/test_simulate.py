"""Servers that fail, swap, start and go away, and policies that go wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.serving import DISPATCHERS
from steward.decide.serving.fcfs import Fcfs
from steward.errors import StewardError
from steward.model.serving.instance_type import InstanceType, StepTimes
from steward.model.serving.requests import BATCH, RequestTrace, requests_of
from steward.model.serving.view import RUNNING, SERVING, Dispatch, Scaling, ServingView
from steward.sim.serving.simulate import Failure, Fleet, draw_failures, simulate

STEP_S = 0.01
SMALL = InstanceType(
    name="small",
    model="m",
    step_times=StepTimes(fixed_s=STEP_S),
    kv_tokens=1024,
    max_sequences=4,
    max_batched_tokens=64,
    start_s=5.0,
    swap_s=2.0,
)


def trace(*rows: tuple[float, int, int], **columns: object) -> RequestTrace:
    arrival, prompt, output = zip(*rows, strict=True)
    return requests_of(
        "t", arrival_s=arrival, prompt_tokens=prompt, output_tokens=output, **columns
    )


def fleet(*types: InstanceType, **given: object) -> Fleet:
    chosen = types or (SMALL,)
    return Fleet(types=chosen, **{"instances": (0,), **given})


@dataclass(frozen=True, kw_only=True)
class Scripted:
    """Sends first come, first served, and at a given call does something more."""

    at: dict[int, Dispatch]
    name: str = "scripted"

    def dispatch(self, view: ServingView) -> Dispatch:
        rows = view.queue.tolist()
        usual = Fcfs().dispatch(view)
        more = next((d for row, d in self.at.items() if row in rows), None)
        return usual if more is None else replace(more, routes=(*more.routes, *usual.routes))


@dataclass(frozen=True, kw_only=True)
class ScriptedScaler:
    at: dict[float, Scaling]
    every_s: float = 1.0
    name: str = "scripted-scaler"

    def scale(self, view: ServingView) -> Scaling:
        return self.at.get(view.t_s, Scaling())


def test_a_request_takes_one_step_per_chunk_of_its_prompt_and_per_token() -> None:
    run = simulate(trace((1.0, 100, 5)), fleet(), Fcfs())

    assert run.first_token_s == pytest.approx([1.0 + 2 * STEP_S])  # 64 and 36 tokens
    assert run.finish_s == pytest.approx([1.0 + 6 * STEP_S])
    assert run.itl_s == pytest.approx([STEP_S])
    assert run.steps == 6
    assert run.gpu_seconds == pytest.approx(1.06)


def test_what_arrives_during_a_step_joins_the_next_one() -> None:
    run = simulate(trace((0.0, 10, 100), (0.505, 10, 1)), fleet(), Fcfs())

    assert run.finish_s[1] == pytest.approx(0.52)


def test_a_request_longer_than_the_kv_cache_is_refused_and_misses_its_deadline() -> None:
    run = simulate(trace((0.0, 2000, 5), (0.0, 10, 5)), fleet(), Fcfs())

    assert np.isnan(run.finish_s[0])
    assert run.attainment() == {"interactive": 0.5}
    assert run.as_record()["finished"] == 1


def test_a_failed_instance_starts_again_and_its_requests_go_on_with_their_tokens() -> None:
    failing = fleet(failures=(Failure(t_s=0.505, instance=0, down_s=1.0),))

    run = simulate(trace((0.0, 10, 100)), failing, Fcfs())

    assert run.returns.tolist() == [1]
    assert run.first_token_s == pytest.approx([STEP_S])
    # 50 tokens were made; those and the prompt (60) are one chunk, which makes another token
    assert run.finish_s == pytest.approx([0.505 + 1.0 + 5.0 + 50 * STEP_S])


def test_requests_of_a_failed_instance_go_to_another_one() -> None:
    two = fleet(instances=(0, 0), failures=(Failure(t_s=0.505, instance=0),))

    run = simulate(trace((0.0, 10, 100)), two, Fcfs())

    assert run.finish_s == pytest.approx([0.505 + 50 * STEP_S])
    assert run.instance.tolist() == [1]


def test_an_evicted_request_waits_again_and_goes_on_later() -> None:
    load = trace((0.0, 10, 100), (0.505, 10, 10))
    policy = Scripted(at={1: Dispatch(evict=(0,))})

    run = simulate(load, fleet(), policy)

    # out at 0.51 with 51 tokens, back at once: 61 tokens in one chunk with the other's 10 tokens
    assert run.returns.tolist() == [1, 0]
    assert run.finish_s == pytest.approx([1.0, 0.61], abs=0.02)
    assert run.finish_s[0] > 1.0 - 1e-9


def test_a_waiting_request_is_evicted_at_once() -> None:
    class EvictTheWaiting:
        name = "evict-waiting"

        def dispatch(self, view: ServingView) -> Dispatch:
            sent = view.requests.instance.tolist()
            if 2 in view.queue and sent[1] == 0:
                return Dispatch(evict=(1,), routes=((2, 0),))
            return Dispatch(routes=Fcfs().dispatch(view).routes[:1])

    slots = replace(SMALL, max_sequences=3, kv_tokens=128)
    load = trace((0.0, 100, 20), (0.012, 100, 20), (0.013, 20, 2))

    run = simulate(load, fleet(slots), EvictTheWaiting())

    assert run.returns.tolist() == [0, 1, 0]
    assert run.finish_s[2] < run.finish_s[1]


def test_an_instance_without_work_loads_the_model_that_is_waited_for() -> None:
    other = replace(SMALL, name="other", model="n")
    load = trace((0.0, 10, 5), (1.0, 10, 5), model=["m", "n"])

    run = simulate(load, fleet(SMALL, other), Fcfs())

    assert run.finish_s == pytest.approx([0.05, 1.0 + 2.0 + 0.05])


def test_a_busy_instance_swaps_when_it_has_ended_what_it_has() -> None:
    other = replace(SMALL, name="other", model="n")
    load = trace((0.0, 10, 100), (0.5, 10, 5), model=["m", "n"])

    class SwapAtOnce:
        name = "swap-at-once"

        def dispatch(self, view: ServingView) -> Dispatch:
            swaps = ((0, 1),) if 1 in view.queue and view.instances.state[0] == SERVING else ()
            if view.instances.model[0] == 1:
                swaps = ()
            loaded = view.requests.model[view.queue] == view.instances.model[0]
            routes = tuple((row, 0) for row in view.queue[loaded].tolist())
            return Dispatch(routes=routes, swaps=swaps)

    run = simulate(load, fleet(SMALL, other), SwapAtOnce())

    assert run.finish_s == pytest.approx([1.0, 1.0 + 2.0 + 0.05])


def test_a_scaler_starts_instances_which_serve_after_their_start_time() -> None:
    load = trace(*[(0.0, 10, 1000)] * 1, *[(0.1, 10, 100)] * 8)
    narrow = replace(SMALL, max_sequences=1)
    scaler = ScriptedScaler(at={1.0: Scaling(start=(0,))})

    run = simulate(load, fleet(narrow, places=2), Fcfs(), scaler=scaler)

    assert run.sent_s[1] == pytest.approx(1.0 + 5.0)
    assert run.gpu_seconds == pytest.approx(run.end_s + run.end_s - 1.0)


def test_a_drained_instance_ends_its_work_and_costs_no_more() -> None:
    load = trace((0.0, 10, 300), (0.0, 10, 300), (5.0, 10, 100))
    scaler = ScriptedScaler(at={1.0: Scaling(drain=(1,))})

    run = simulate(load, fleet(instances=(0, 0)), Fcfs(), scaler=scaler)

    assert run.instance.tolist() == [0, 1, 0]
    assert run.gpu_seconds == pytest.approx(run.end_s + 3.0)


def test_limits_hold_requests_back() -> None:
    load = trace((0.0, 10, 100), (1.5, 10, 100), (1.5, 10, 100))
    scaler = ScriptedScaler(at={1.0: Scaling(limits=((0, 1),))})

    run = simulate(load, fleet(), Fcfs(), scaler=scaler)

    assert run.finish_s[2] > run.finish_s[1] + 0.9


def test_a_scaler_that_never_serves_anybody_comes_to_an_end() -> None:
    other = replace(SMALL, name="other", model="n")
    load = trace((0.0, 10, 5), model=["n"])

    class Idle:
        name = "idle"

        def dispatch(self, view: ServingView) -> Dispatch:
            return Dispatch()

    run = simulate(load, fleet(SMALL, other), Idle(), scaler=ScriptedScaler(at={}))

    assert np.isnan(run.finish_s).all()
    assert run.attainment() == {"interactive": 0.0}
    assert run.as_record()["ttft_s"]["p50"] is None


@pytest.mark.parametrize(
    ("dispatch", "words"),
    [
        (Dispatch(routes=((0, 7),)), "request 0 on instance 7"),
        (Dispatch(routes=((5, 0),)), "request 5 on instance 0"),
        (Dispatch(evict=(0,)), "request 0"),
        (Dispatch(swaps=((0, 9),)), "instance 0 swapped to type 9"),
    ],
)
def test_a_policy_that_wants_the_impossible_is_named(dispatch: Dispatch, words: str) -> None:
    class Wrong:
        name = "wrong"

        def dispatch(self, view: ServingView) -> Dispatch:
            return dispatch

    with pytest.raises(StewardError, match=words) as caught:
        simulate(trace((0.0, 10, 5)), fleet(), Wrong())

    assert caught.value.where == "policy wrong"


@pytest.mark.parametrize("wrong", [Scaling(drain=(3,)), Scaling(limits=((3, 1),))])
def test_a_scaler_that_wants_the_impossible_is_named(wrong: Scaling) -> None:
    with pytest.raises(StewardError, match="instance 3"):
        simulate(trace((0.0, 10, 5)), fleet(), Fcfs(), scaler=ScriptedScaler(at={0.0: wrong}))


def test_all_that_is_wrong_with_the_instances_is_said_at_once() -> None:
    bad = replace(SMALL, kv_tokens=1, max_batched_tokens=2)
    load = trace((0.0, 10, 5), model=["x"], prefix=[[1]], prefix_block_tokens=24)

    with pytest.raises(StewardError) as caught:
        simulate(load, fleet(bad, instances=()), Fcfs())

    for words in ("kv_tokens", "max_batched_tokens", "serves x", "24", "no instances"):
        assert words in str(caught.value)
    with pytest.raises(StewardError, match="no requests"):
        simulate(trace((0.0, 1, 1)).head(0), fleet(), Fcfs())


def test_views_cannot_be_written_to() -> None:
    class Writer:
        name = "writer"

        def dispatch(self, view: ServingView) -> Dispatch:
            with pytest.raises(ValueError, match="read-only"):
                view.queue[0] = 7
            with pytest.raises(ValueError, match="read-only"):
                view.instances.room[0] = 7
            return Fcfs().dispatch(view)

    simulate(trace((0.0, 10, 5)), fleet(), Writer())


def test_failures_are_drawn_by_seed() -> None:
    first = draw_failures(seed=1, mtbf_s=50.0, until_s=500.0, instances=3)

    assert first == draw_failures(seed=1, mtbf_s=50.0, until_s=500.0, instances=3)
    assert first != draw_failures(seed=2, mtbf_s=50.0, until_s=500.0, instances=3)
    assert 10 < len(first) < 60


@dataclass(frozen=True, kw_only=True)
class Restless:
    """Evicts, swaps and scales by what it sees: everything at once."""

    name: str = "restless"
    evicts_until_s: float  # one that always evicts would never let anybody end
    every_s: float = 0.37

    def dispatch(self, view: ServingView) -> Dispatch:
        usual = Fcfs().dispatch(view)
        running = np.flatnonzero(view.requests.state == RUNNING)
        if view.t_s > self.evicts_until_s:
            return usual
        young = [int(r) for r in running if view.requests.deadline_class[r] == 1]
        chosen = [r for r in young[-1:] if view.requests.generated_tokens[r] in (1, 2, 3)]
        return replace(usual, evict=tuple(chosen))

    def scale(self, view: ServingView) -> Scaling:
        serving = np.flatnonzero(view.instances.state == SERVING)
        limits = tuple((int(row), 1 + len(view.queue) % 4) for row in serving)
        start = (len(view.queue) % len(view.types),) if len(view.queue) > 3 else ()
        drain = (int(serving[-1]),) if len(serving) > 2 and not len(view.queue) else ()
        return Scaling(start=start, drain=drain, limits=limits)


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 60), spread=st.sampled_from([0.3, 5.0]))
@settings(max_examples=100)
def test_with_everything_on_stretches_change_nothing_and_nothing_is_lost(
    seed: int, count: int, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    # two instances whose steps ended together would be told apart by the last bit of their times
    times = StepTimes(fixed_s=0.0097, token_s=1.3e-5, kv_token_s=1.1e-6 * (1 + rng.random()))
    kind = replace(SMALL, step_times=times, kv_tokens=400, start_s=0.51, swap_s=0.23)
    quick = replace(times, fixed_s=0.0071)
    kinds = (kind, replace(kind, name="other", model="n", step_times=quick))
    load = requests_of(
        "drawn",
        arrival_s=np.sort(rng.random(count)) * spread,
        prompt_tokens=rng.integers(1, 200, count),
        output_tokens=rng.integers(1, 60, count),
        model=[("m", "n")[each] for each in rng.integers(0, 2, count)],
    ).with_share(BATCH, rng.random(count) < 0.5)
    failures = tuple(
        Failure(t_s=float(t), instance=int(i), down_s=0.1)
        for t, i in zip(rng.random(3) * spread, rng.integers(0, 3, 3), strict=True)
    )
    restless = Restless(evicts_until_s=spread)
    servers = Fleet(types=kinds, instances=(0, 1), places=4, failures=failures)

    fast, slow = (
        simulate(load, servers, restless, scaler=restless, every_step=each)
        for each in (False, True)
    )

    assert fast.finish_s == pytest.approx(slow.finish_s, abs=1e-9, rel=0, nan_ok=True)
    assert fast.returns.tolist() == slow.returns.tolist()
    assert np.isfinite(fast.finish_s).all()
    assert (fast.first_token_s >= load.arrival_s).all()
    assert (fast.finish_s >= fast.first_token_s).all()


@pytest.mark.parametrize("policy", sorted(DISPATCHERS))
def test_the_same_input_gives_the_same_answer(policy: str) -> None:
    rng = np.random.default_rng(5)
    load = trace(*zip(np.sort(rng.random(200)), rng.integers(1, 90, 200), [20] * 200, strict=True))

    first, again = (
        simulate(load, fleet(instances=(0, 0)), DISPATCHERS[policy]()) for _ in range(2)
    )

    assert first.finish_s.tolist() == again.finish_s.tolist()
    assert first.calls == again.calls
