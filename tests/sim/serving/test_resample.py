"""Other days of a trace: what is kept of it, and what is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.model.serving.requests import BATCH, INTERACTIVE, RequestTrace, requests_of
from steward.sim.serving.resample import grown, of_model, resampled

PREFIX = ((0, 1), (0, 1, 2), (), (3,))


def shared_prompts() -> RequestTrace:
    return requests_of(
        "t",
        arrival_s=[0.0, 1.0, 2.0, 3.0],
        prompt_tokens=[64, 96, 32, 64],
        output_tokens=[1, 2, 3, 4],
        classes=(INTERACTIVE, BATCH),
        deadline_class=[0, 1, 0, 1],
        model=["a", "b", "", "a"],
        prefix=PREFIX,
        prefix_block_tokens=32,
    )


@settings(max_examples=50, deadline=None)
@given(
    gaps=st.lists(st.floats(0.0, 10.0), min_size=2, max_size=60),
    seed=st.integers(0, 1000),
    block_s=st.one_of(st.none(), st.floats(0.1, 100.0)),
)
def test_a_resampled_day_holds_requests_of_the_trace_in_order(
    gaps: list[float], seed: int, block_s: float | None
) -> None:
    count = len(gaps)
    trace = requests_of(
        "t",
        arrival_s=np.cumsum(gaps),
        prompt_tokens=np.arange(count) + 1,
        output_tokens=np.arange(count) + 101,
    )

    day = resampled(trace, seed=seed, block_s=block_s)

    span_s = trace.arrival_s[-1] - trace.arrival_s[0]
    assert (np.diff(day.arrival_s) >= 0).all()
    assert (day.output_tokens - day.prompt_tokens == 100).all()
    assert set(day.prompt_tokens) <= set(trace.prompt_tokens)
    assert len(day) == 0 or day.arrival_s[-1] <= max(span_s, trace.arrival_s[-1]) + 1e-9


def test_the_same_seed_gives_the_same_day_and_another_seed_another() -> None:
    trace = requests_of(
        "t",
        arrival_s=np.linspace(0.0, 100.0, 400),
        prompt_tokens=np.arange(400) + 1,
        output_tokens=np.ones(400),
    )

    first, again, other = (resampled(trace, seed=seed) for seed in (1, 1, 2))

    assert np.array_equal(first.arrival_s, again.arrival_s)
    assert np.array_equal(first.prompt_tokens, again.prompt_tokens)
    assert not np.array_equal(first.prompt_tokens[:100], other.prompt_tokens[:100])
    assert len(first) == pytest.approx(400, rel=0.05)


def test_two_copies_of_a_request_share_no_prompt() -> None:
    trace = shared_prompts()

    days = [resampled(trace, seed=seed, block_s=3.0) for seed in range(20)]
    twice = [resampled(day, seed=9, block_s=1.0) for day in days if len(day)]

    for day in (*days, *twice):
        ids = [
            tuple(day.prefix_ids[day.prefix_start[row] : day.prefix_start[row + 1]].tolist())
            for row in range(len(day))
        ]
        by_output = [
            (int(tokens), each) for tokens, each in zip(day.output_tokens, ids, strict=True) if each
        ]
        assert len(set(by_output)) == len(by_output)
        assert [len(each) for each in ids] == [len(PREFIX[t - 1]) for t in day.output_tokens]


def test_growth_presses_the_same_requests_into_less_time() -> None:
    trace = shared_prompts()

    faster = grown(trace, 2.0)

    assert faster.arrival_s.tolist() == [0.0, 0.5, 1.0, 1.5]
    assert faster.synthetic
    assert grown(trace, 1.0) is trace


def test_a_model_gets_its_own_requests_and_those_that_name_none() -> None:
    trace = shared_prompts()

    assert of_model(trace, "a").output_tokens.tolist() == [1, 3, 4]
    assert of_model(trace, "b").output_tokens.tolist() == [2, 3]
    assert of_model(trace, "a").models == ()


def test_a_model_that_the_trace_never_names_gets_all_requests() -> None:
    assert len(of_model(shared_prompts(), "other")) == 4


def test_a_trace_at_one_instant_stays_as_it_is() -> None:
    trace = requests_of("t", arrival_s=[1.0, 1.0], prompt_tokens=[1, 2], output_tokens=[1, 1])

    assert resampled(trace, seed=3) is trace


@pytest.mark.parametrize("seed", range(30))
def test_no_day_of_a_trace_of_two_requests_is_empty(seed: int) -> None:
    tiny = requests_of("tiny", arrival_s=[0.0, 9.0], prompt_tokens=[8, 8], output_tokens=[2, 2])

    assert len(resampled(tiny, seed=seed)) > 0
