"""Many batches at once."""

from __future__ import annotations

import time

import numpy as np
import pytest

from steward.learn.estimators.model_graphs.answers import estimate_model
from steward.learn.estimators.model_graphs.batch_table import batch_table
from steward.learn.estimators.model_graphs.configs import NAMED
from steward.learn.estimators.model_graphs.question import ModelQuestion


@pytest.mark.parametrize("batch", [1, 4, 32])
@pytest.mark.parametrize("mode", ["train", "infer"])
def test_a_table_says_what_single_answers_say(batch: int, mode: str) -> None:
    question = ModelQuestion(model="llama-1b", batch=batch, seq=1024, mode=mode)

    table = batch_table(NAMED["llama-1b"], question, [batch])
    one = estimate_model(question, None, find_batch=False)

    assert one.step_s is not None
    assert table.allocated_bytes[0] == one.allocated_bytes.likely
    assert table.step_s[0] == pytest.approx(one.step_s.likely, rel=0.05)


def test_more_is_never_less() -> None:
    table = batch_table(NAMED["gpt2"], ModelQuestion(model="gpt2", batch=1), range(1, 200))

    assert (np.diff(table.allocated_bytes) >= 0).all()
    assert (np.diff(table.step_s) >= 0).all()


def test_ten_thousand_batches_are_answered_within_a_second() -> None:
    question = ModelQuestion(model="llama-8b", batch=1)
    batch_table(NAMED["llama-8b"], question, [1])

    started = time.process_time()
    table = batch_table(NAMED["llama-8b"], question, [1 + n % 64 for n in range(10_000)])

    assert len(table.step_s) == 10_000
    assert time.process_time() - started < 1
