"""A server in real time does what the simulator says, however often one looks at it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.serving.fcfs import Fcfs
from steward.errors import StewardError
from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType, StepTimes
from steward.model.serving.requests import RequestTrace, requests_of
from steward.sim.serving.live import LiveServer
from steward.sim.serving.simulate import Fleet, simulate

SMALL = InstanceType(
    name="small",
    model="m",
    step_times=StepTimes(fixed_s=0.01, token_s=1e-4, kv_token_s=1e-6, attention_s=1e-7),
    kv_tokens=1024,
    max_sequences=6,
    max_batched_tokens=200,
    max_waiting=10_000,
)


def drive(server: LiveServer, trace: RequestTrace, looks_s: list[float]) -> dict[int, float]:
    """Submit all requests when they arrive, look at other times too; return when each ended."""
    ends_s: dict[int, float] = {}
    rows: dict[int, int] = {}

    def advance(t_s: float) -> None:
        found = server.advance(t_s)
        for row, ended in zip(found.rows.tolist(), found.ended.tolist(), strict=True):
            if ended:
                ends_s[rows.pop(row)] = float(server.state.finish_s[row])

    events = [(t_s, place) for place, t_s in enumerate(trace.arrival_s.tolist())]
    for t_s, place in sorted([*events, *((each, -1) for each in looks_s)]):
        if place >= 0:
            start, end = trace.prefix_start[place : place + 2]
            row = server.submit(
                t_s,
                prompt_tokens=int(trace.prompt_tokens[place]),
                output_tokens=int(trace.output_tokens[place]),
                prefix=trace.prefix_ids[start:end].tolist(),
            )
            rows[row] = place
        advance(t_s)
    while (next_s := server.next_s()) < math.inf:
        advance(next_s)
    return ends_s


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), prefix=st.sampled_from([0, 32]), looks=st.integers(0, 30))
def test_requests_end_when_the_simulator_says(seed: int, prefix: int, looks: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 40))
    prompt = rng.integers(1, 300, count)
    blocks = [[int(rng.integers(3)) * 1000 + each for each in range(n // 32)] for n in prompt]
    trace = requests_of(
        "drawn",
        arrival_s=np.sort(rng.random(count)) * 5,
        prompt_tokens=prompt,
        output_tokens=rng.integers(1, 150, count),
        prefix=blocks if prefix else None,
        prefix_block_tokens=prefix,
    )
    expected = simulate(trace, Fleet(types=(SMALL,), instances=(0,)), Fcfs())

    server = LiveServer(kind=SMALL, places=64, prefix_block_tokens=prefix, most_tokens=1024)
    ends_s = drive(server, trace, (rng.random(looks) * 10).tolist())

    assert [ends_s[each] for each in range(count)] == pytest.approx(
        expected.finish_s.tolist(), abs=1e-9
    )
    assert server.running == server.waiting == 0
    assert not server.full


def test_an_aborted_request_leaves_and_its_place_is_used_again() -> None:
    server = LiveServer(kind=SMALL, places=2, most_tokens=1024)
    first, second = (server.submit(0.0, prompt_tokens=10, output_tokens=900) for _ in range(2))
    server.advance(0.0)

    assert server.full
    server.abort(first, 1.0)
    gone = server.advance(1.1)

    assert gone.rows[gone.ended].tolist() == [first]
    assert server.running == 1
    assert server.submit(1.1, prompt_tokens=10, output_tokens=2) == first
    server.abort(second, 1.1)
    server.abort(first, 1.1)
    assert sorted(server.advance(2.0).rows.tolist()) == [first, second]
    assert (server.running, server.waiting, server.kv_used_share) == (0, 0, 0.0)


def test_a_sleeping_server_makes_no_tokens_and_goes_on_where_it_was() -> None:
    server = LiveServer(kind=SMALL, places=4, most_tokens=1024)
    row = server.submit(0.0, prompt_tokens=10, output_tokens=50)
    server.advance(0.0)
    server.advance(0.2)
    server.sleep(0.2)
    before = int(server.state.generated[row])

    asleep = server.advance(100.0)
    assert len(asleep.rows) == 0
    assert server.next_s() == math.inf
    server.wake()
    server.advance(100.0)
    done = server.advance(200.0)

    assert 0 < before < 50
    assert (done.generated.tolist(), done.ended.tolist()) == ([50], [True])


def test_many_more_requests_than_places_pass_through_one_after_another() -> None:
    server = LiveServer(kind=SMALL, places=3, most_tokens=1024)
    ended = 0
    for turn in range(500):
        for part in range(3):
            keys = [turn * 7 + each for each in range(part)]
            server.submit(turn, prompt_tokens=300, output_tokens=5, prefix=keys)
        server.advance(turn)
        ended += int(server.advance(turn + 0.99).ended.sum())

    assert ended == 1500
    assert server.kv_used_share == 0.0


def test_a_server_with_wrong_limits_is_refused() -> None:
    with pytest.raises(StewardError, match="kv_tokens is 8, less than a block"):
        LiveServer(kind=replace(H200_LLAMA_8B, kv_tokens=8))
