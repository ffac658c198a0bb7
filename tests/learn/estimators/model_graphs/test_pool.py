"""The worker's protocol, with small programs in its place: no torch is needed."""

from __future__ import annotations

import sys

import pytest

from steward.errors import StewardError, TemporaryError
from steward.learn.estimators.model_graphs.pool import TraceWorker
from steward.learn.estimators.model_graphs.question import ModelQuestion

_QUESTION = ModelQuestion(model="gpt2", batch=1)


def _worker(program: str, timeout_s: float = 300.0) -> TraceWorker:
    text = f"import sys, json, os\nprint('{{}}', flush=True)\nfor line in sys.stdin:\n {program}"
    return TraceWorker((sys.executable, "-c", text), timeout_s=timeout_s)


def test_a_question_reaches_the_worker_and_its_answer_comes_back() -> None:
    with _worker("print(line, end='', flush=True)") as worker:
        first = worker.ask(_QUESTION, late_zero_grad=True)
        second = worker.ask(_QUESTION)

    assert first == {**_QUESTION.record(), "late_zero_grad": True}
    assert second == _QUESTION.record()


def test_an_error_of_the_worker_keeps_its_three_parts() -> None:
    fault = '{"error": {"problem": "no kernel", "where": "gpt2", "hint": "write one"}}'

    with _worker(f"print('{fault}', flush=True)") as worker, pytest.raises(StewardError) as raised:
        worker.ask(_QUESTION)

    expected = {"problem": "no kernel", "where": "gpt2", "hint": "write one"}
    assert raised.value.as_record() == expected


def test_a_worker_that_dies_is_reported_and_started_again() -> None:
    with _worker("os._exit(3)") as worker:
        for _ in range(2):
            with pytest.raises(StewardError, match="status 3"):
                worker.ask(_QUESTION)


def test_a_worker_that_answers_no_json_is_a_fault() -> None:
    with _worker("print('hm', flush=True)") as worker, pytest.raises(StewardError, match="hm"):
        worker.ask(_QUESTION)


def test_a_worker_that_does_not_answer_is_given_up() -> None:
    with _worker("pass", timeout_s=0.05) as worker, pytest.raises(TemporaryError, match="not end"):
        worker.ask(_QUESTION)
