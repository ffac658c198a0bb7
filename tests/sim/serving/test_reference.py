"""The compiled simulator agrees with one that takes every step with plain objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving_reference import serve_slowly
from steward.decide.serving import DISPATCHERS
from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType, StepTimes
from steward.model.serving.requests import BATCH, INTERACTIVE, RequestTrace, requests_of
from steward.sim.serving.simulate import Fleet, simulate


@st.composite
def loads(draw: st.DrawFn) -> tuple[RequestTrace, InstanceType]:
    """Requests with random times (ties would hang on the last bit), and a small server."""
    seed = draw(st.integers(0, 2**32 - 1))
    count = draw(st.integers(1, 40))
    block = draw(st.sampled_from([1, 4, 16]))
    capacity = draw(st.integers(4, 60)) * 16
    rng = np.random.default_rng(seed)
    longest = max(2, capacity // draw(st.integers(1, 6)))
    prompt = rng.integers(1, longest, count)
    output = rng.integers(1, draw(st.integers(2, 120)), count)
    prefix_tokens = draw(st.sampled_from([0, 16, 32]))
    prefix = None
    if prefix_tokens:
        prefix = []
        for row in range(count):
            whole = -(-int(prompt[row]) // prefix_tokens)
            family, shared = int(rng.integers(3)), int(rng.integers(0, 5))
            own = [10_000 * (row + 1) + place for place in range(whole)]
            prefix.append([family * 1000 + p if p < shared else own[p] for p in range(whole)])
    trace = requests_of(
        "drawn",
        arrival_s=np.sort(rng.random(count)) * draw(st.sampled_from([0.01, 1.0, 20.0])),
        prompt_tokens=prompt,
        output_tokens=output,
        classes=(INTERACTIVE, BATCH),
        deadline_class=rng.integers(0, 2, count),
        prefix=prefix,
        prefix_block_tokens=prefix_tokens,
    )
    sequences = draw(st.integers(1, 12))
    times = StepTimes(
        fixed_s=0.003 + 0.01 * rng.random(),
        prefill_s=0.001 * rng.random(),
        token_s=1e-5 * rng.random(),
        bend_tokens=draw(st.sampled_from([0.0, 8.0, 100.0])),
        token_beyond_s=1e-4 * rng.random(),
        sequence_s=1e-4 * rng.random(),
        kv_token_s=draw(st.sampled_from([0.0, 1e-6, 1e-4])) * rng.random(),
        attention_s=1e-6 * rng.random(),
    )
    kind = InstanceType(
        name="small",
        model="m",
        step_times=times,
        kv_tokens=capacity,
        block_tokens=block,
        max_sequences=sequences,
        max_batched_tokens=sequences + draw(st.integers(1, 200)),
        max_waiting=draw(st.integers(1, 8)),
        watermark_share=draw(st.sampled_from([0.0, 0.01, 0.2])),
    )
    return trace, kind


def without_evictions(policy: str) -> Any:
    """Return a dispatcher; the slow server knows no evictions."""
    made = DISPATCHERS[policy]
    return made(evicts=False) if "evicts" in made.__slots__ else made()


@given(
    load=loads(),
    instances=st.integers(1, 3),
    policy=st.sampled_from(sorted(DISPATCHERS)),
)
@settings(max_examples=300)
def test_stretches_end_when_single_steps_end(
    load: tuple[RequestTrace, InstanceType], instances: int, policy: str
) -> None:
    trace, kind = load

    slow = serve_slowly(trace, kind, instances, without_evictions(policy))
    fleet = Fleet(types=(kind,), instances=(0,) * instances)
    fast = simulate(trace, fleet, without_evictions(policy))

    assert fast.finish_s == pytest.approx([r.finish_s for r in slow], abs=1e-9, nan_ok=True, rel=0)
    first = [r.first_s for r in slow]
    assert fast.first_token_s == pytest.approx(first, abs=1e-9, nan_ok=True, rel=0)
    assert fast.preemptions.tolist() == [r.preemptions for r in slow]
    assert fast.reused_tokens.tolist() == [r.reused for r in slow]


def test_the_drawn_loads_preempt_and_reuse_prefixes() -> None:
    """Without these, the law above would say little."""
    rng = np.random.default_rng(3)
    trace = requests_of(
        "full",
        arrival_s=np.sort(rng.random(40)),
        prompt_tokens=[64] * 40,
        output_tokens=[60] * 40,
        prefix=[[0, 1, 100 + row, 200 + row] for row in range(40)],
        prefix_block_tokens=16,
    )
    kind = InstanceType(name="small", model="m", step_times=H200_LLAMA_8B.step_times, kv_tokens=512)

    slow = serve_slowly(trace, kind, 1, DISPATCHERS["fcfs"]())
    fast = simulate(trace, Fleet(types=(kind,), instances=(0,)), DISPATCHERS["fcfs"]())

    assert fast.preemptions.sum() > 0
    assert fast.reused_tokens.sum() > 0
    assert fast.finish_s == pytest.approx([r.finish_s for r in slow], abs=1e-9, rel=0)
