"""Answers without torch, and scores against measured rows."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.answers import estimate_model
from steward.learn.estimators.model_graphs.pool import TraceWorker
from steward.learn.estimators.model_graphs.question import ModelQuestion
from steward.learn.estimators.model_graphs.scores import read_truth, score

_ROW = {
    "family": "lm",
    "model": "gpt2",
    "mode": "train",
    "batch": "4",
    "size": "",
    "seq": "512",
    "amp": "False",
    "opt": "adamw",
    "grad_ckpt": "False",
    "peak_reserved_bytes": "5450498048",
    "nvml_used_bytes": "6939344896",
    "step_s": "0.0577",
}


def test_the_closed_form_answers_without_torch_and_says_how_to_install_it() -> None:
    found = estimate_model(ModelQuestion(model="gpt2", batch=4), None)

    assert found.tier == "closed form"
    assert found.device_bytes.low < 6939344896 < found.device_bytes.high
    assert "steward[torch]" in found.notes[0]
    assert found.largest_batch is not None
    assert found.largest_batch > 4


def test_a_vision_model_without_torch_is_an_error_that_says_what_to_install() -> None:
    with pytest.raises(StewardError) as fault:
        estimate_model(ModelQuestion(model="resnet50", batch=4), None)

    assert "steward[torch]" in fault.value.hint


def test_where_neither_way_answers_the_fault_of_the_trace_is_told() -> None:
    fault = {"error": {"problem": "no meta kernel", "where": "t5-small", "hint": "write one"}}
    text = "import sys\nprint('{}', flush=True)\nfor line in sys.stdin:\n"
    text += f" print({json.dumps(fault)!r}, flush=True)"
    question = ModelQuestion(model="t5-small", batch=1)

    with (
        TraceWorker((sys.executable, "-c", text)) as worker,
        pytest.raises(StewardError, match="no meta kernel"),
    ):
        estimate_model(question, worker)


def test_time_on_a_gpu_that_was_not_measured_is_unknown() -> None:
    found = estimate_model(ModelQuestion(model="gpt2", batch=4, gpu="a100-40"), None)

    assert found.step_s is None
    assert found.energy_j_per_step is None
    assert any("a100-40" in note for note in found.notes)


@pytest.mark.parametrize(
    "wrong", [{"mode": "eval"}, {"opt": "lion"}, {"batch": 0}, {"seq": -1}, {"size": 0}]
)
def test_a_wrong_question_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(StewardError):
        ModelQuestion(**{"model": "gpt2", "batch": 1, **wrong})  # type: ignore[arg-type]


def test_an_unknown_gpu_lists_the_known_ones() -> None:
    with pytest.raises(StewardError, match="h200"):
        estimate_model(ModelQuestion(model="gpt2", batch=1, gpu="h2000"), None)


def test_rows_that_cannot_be_estimated_are_counted_with_their_reason() -> None:
    rows = [_ROW, {**_ROW, "model": "nonesuch"}, {**_ROW, "step_s": "nan?"}, {**_ROW, "batch": "x"}]

    found = score(rows, None)

    assert found["answered"] == 1
    assert [each["line"] for each in found["not_answered"]] == [3, 4, 5]
    assert found["memory"]["above_q95"] == 0
    assert found["memory"]["mean_error"] == pytest.approx(
        max(found["rows"][0]["device_error"], found["rows"][0]["reserved_error"])
    )


def test_a_file_without_the_columns_names_them(tmp_path: Path) -> None:
    path = tmp_path / "truth.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["model", "batch"], ["gpt2", "4"]])

    with pytest.raises(StewardError, match="nvml_used_bytes"):
        read_truth(path)
