from __future__ import annotations

import numpy as np
import pytest

from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType, StepTimes
from steward.model.serving.requests import (
    BATCH,
    INTERACTIVE,
    DeadlineClass,
    RequestTrace,
    merged,
    requests_of,
)
from steward.model.serving.view import InstanceColumns


def trace(**given: object) -> RequestTrace:
    columns = {"arrival_s": [2.0, 1.0], "prompt_tokens": [20, 10], "output_tokens": [4, 3]}
    return requests_of("t", **{**columns, **given})


def test_rows_are_sorted_by_arrival_with_all_their_columns() -> None:
    found = trace(tenant=["a", "b"], model=["", "m"], prefix=[[7, 8], [9]], prefix_block_tokens=16)

    assert found.arrival_s.tolist() == [1.0, 2.0]
    assert found.prompt_tokens.tolist() == [10, 20]
    assert [found.tenants[code] for code in found.tenant] == ["b", "a"]
    assert found.model.tolist() == [0, -1]
    assert found.prefix_start.tolist() == [0, 1, 3]
    assert found.prefix_ids.tolist() == [2, 0, 1]


def test_the_first_deadline_is_the_nearest_promise() -> None:
    both = DeadlineClass(name="both", rank=2, ttft_s=5.0, completion_s=3.0)
    none = DeadlineClass(name="none", rank=3)

    found = trace(classes=(both, none), deadline_class=[1, 0])

    assert found.deadline_s.tolist() == [4.0, float("inf")]
    assert (INTERACTIVE.urgent_s, BATCH.urgent_s) == (10.0, 3600.0)


def test_a_trace_can_be_cut_and_stretched() -> None:
    found = trace()

    assert len(found.head(1)) == 1
    assert found.at_rate(4.0).arrival_s.tolist() == [0.5, 1.0]
    assert found.head(1).at_rate(4.0).arrival_s.tolist() == [1.0]
    assert found.head(0).at_rate(4.0).arrival_s.tolist() == []
    assert found.at_rate(4.0).synthetic


def test_classes_are_given_to_all_or_to_some() -> None:
    some = trace().with_share(BATCH, np.array([False, True]))
    again = some.with_share(BATCH, np.array([True, False]))

    assert [some.classes[code].name for code in some.deadline_class] == ["interactive", "batch"]
    assert again.classes == some.classes
    assert again.deadline_class.tolist() == [1, 1]
    assert trace().in_class(BATCH).classes == (BATCH,)


def test_merging_keeps_names_and_parts_prefixes() -> None:
    one = trace(tenant=["a", ""], prefix=[[1], [1, 2]], prefix_block_tokens=16)
    two = trace(tenant=["b", "a"], prefix=[[1], []], prefix_block_tokens=16).in_class(BATCH)

    both = merged([one, two])

    assert len(both) == 4
    assert {each.name for each in both.classes} == {"interactive", "batch"}
    assert set(both.tenants) == {"a", "b"}
    lists = [
        set(both.prefix_ids[both.prefix_start[r] : both.prefix_start[r + 1]]) for r in range(4)
    ]
    assert [len(each) for each in lists] == [2, 0, 1, 1]
    assert lists[0] & lists[2]
    assert not lists[3] & (lists[0] | lists[2])
    assert merged([one]) is one
    assert merged([trace(), trace()]).prefix_block_tokens == 0


def test_a_step_is_flat_up_to_the_bend_and_linear_beyond() -> None:
    times = StepTimes(
        fixed_s=1.0, prefill_s=0.5, bend_tokens=100, token_beyond_s=0.01, sequence_s=0.1
    )

    assert times.step_s(decode_sequences=2) == pytest.approx(1.2)
    assert times.step_s(prefill_tokens=100) == pytest.approx(1.5)
    assert times.step_s(prefill_tokens=300) == pytest.approx(3.5)
    assert StepTimes(fixed_s=0, kv_token_s=2, attention_s=3).step_s(
        kv_tokens=10, attention_pairs=5
    ) == pytest.approx(35)
    assert len(times.coefficients()) == 8


def test_scaled_times_are_those_of_steps_that_all_take_longer() -> None:
    times = StepTimes(
        fixed_s=0.01,
        prefill_s=0.02,
        token_s=0.1,
        bend_tokens=8,
        token_beyond_s=0.2,
        sequence_s=0.3,
        kv_token_s=0.4,
        attention_s=0.5,
    )

    step = {"prefill_tokens": 9.0, "decode_sequences": 3.0, "kv_tokens": 7.0}

    assert times.scaled(3.0).step_s(**step) == pytest.approx(3.0 * times.step_s(**step))
    assert times.scaled(1.0) == times


def test_all_faults_of_an_instance_type_are_said() -> None:
    bad = InstanceType(
        name="x",
        model="m",
        step_times=StepTimes(fixed_s=1),
        gpus=0,
        kv_tokens=3,
        max_batched_tokens=5,
        watermark_share=1.0,
    )

    assert H200_LLAMA_8B.faults() == ()
    words = ("gpus", "kv_tokens", "max_batched_tokens", "watermark_share")
    assert all(word in fault for word, fault in zip(words, bad.faults(), strict=True))


def test_columns_count_their_rows() -> None:
    zeros = np.zeros(3, np.int64)
    names = InstanceColumns.__slots__

    assert len(InstanceColumns(**dict.fromkeys(names, zeros))) == 3
