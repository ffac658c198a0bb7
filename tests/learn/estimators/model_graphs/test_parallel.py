"""A model over several GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorded_traces import recorded_trace
from steward.errors import StewardError
from steward.learn.estimators.model_graphs.answers import estimate_model
from steward.learn.estimators.model_graphs.parallel import RankNeeds, rank_needs
from steward.learn.estimators.model_graphs.question import (
    SHARDINGS,
    ModelQuestion,
    ParallelPlan,
)

_ASKED = ModelQuestion(model="gpt2", batch=4, amp=True)


def _needs(question: ModelQuestion = _ASKED, **plan: Any) -> RankNeeds:
    return rank_needs(recorded_trace("gpt2_b4_train"), question, ParallelPlan(**plan), 450e9)


def test_each_stage_of_zero_takes_less_of_a_rank() -> None:
    taken = [_needs(data=8, sharding=stage).allocated_bytes for stage in SHARDINGS]

    assert taken == sorted(taken, reverse=True)
    assert taken[0] > taken[-1] * 1.4


def test_fsdp_shards_weights_gradients_and_both_states() -> None:
    parameters = recorded_trace("gpt2_b4_train")["parameter_bytes"]

    gone = (
        _needs(data=2, sharding="none").allocated_bytes
        - _needs(data=10**6, sharding="fsdp").allocated_bytes
    )

    assert 3 * parameters < gone < 5 * parameters


@given(st.integers(2, 64), st.sampled_from(SHARDINGS))
def test_more_copies_never_take_more_of_a_rank(copies: int, sharding: str) -> None:
    fewer, more = _needs(data=copies, sharding=sharding), _needs(data=2 * copies, sharding=sharding)

    assert more.allocated_bytes <= fewer.allocated_bytes + 1
    assert more.communication_s >= fewer.communication_s


def test_tensors_and_stages_divide_the_work_and_cost_messages() -> None:
    one = _needs(data=2)
    four = _needs(data=2, tensor=2, stages=2)

    assert four.time_share == one.time_share / 4
    assert four.allocated_bytes < one.allocated_bytes
    assert four.context_bytes > one.context_bytes


def test_more_passes_shorten_the_wait_of_a_pipeline() -> None:
    few = _needs(replace(_ASKED, accumulate=2), stages=4)
    many = _needs(replace(_ASKED, accumulate=32), stages=4)

    assert few.bubble_share == pytest.approx(3 / 5)
    assert many.bubble_share < 0.1


def test_a_slower_link_costs_time() -> None:
    assert _needs(data=4, link_bytes_s=1e9).communication_s > _needs(data=4).communication_s


def test_an_answer_over_several_gpus_says_that_it_was_counted() -> None:
    question = ModelQuestion(model="llama-8b", batch=1)

    one = estimate_model(question, None)
    eight = estimate_model(question, None, plan=ParallelPlan(data=8, sharding="fsdp"))

    assert eight.gpus == 8
    assert eight.device_bytes.likely < one.device_bytes.likely
    assert eight.communication_s > 0
    assert any("counted, not measured" in note for note in eight.notes)


@pytest.mark.parametrize(
    "wrong",
    [{"data": 0}, {"sharding": "zero9"}, {"sharding": "zero3"}, {"link_bytes_s": -1.0}],
)
def test_a_senseless_plan_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(StewardError):
        ParallelPlan(**wrong)
