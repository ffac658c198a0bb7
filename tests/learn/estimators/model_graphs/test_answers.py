"""Answers without torch, and scores against measured rows."""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.answers import estimate_model
from steward.learn.estimators.model_graphs.pool import TraceWorker
from steward.learn.estimators.model_graphs.question import ModelQuestion
from steward.learn.estimators.model_graphs.scores import question_of, read_truth, score

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


def test_a_gpu_that_nobody_measured_is_answered_from_its_data_sheet_with_wider_limits() -> None:
    known = estimate_model(ModelQuestion(model="gpt2", batch=4), None).step_s
    found = estimate_model(ModelQuestion(model="gpt2", batch=4, gpu="a6000"), None)

    assert known is not None
    assert found.step_s is not None
    assert found.step_s.likely > known.likely
    assert found.step_s.high / found.step_s.low > known.high / known.low
    assert any("data sheet" in note for note in found.notes)


@pytest.mark.parametrize(
    "wrong",
    [{"mode": "eval"}, {"opt": "sgdd"}, {"accumulate": 0}, {"batch": 0}, {"seq": -1}, {"size": 0}],
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
    assert "nonesuch" in found["not_answered"][0]["problem"]
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


def test_rows_measured_in_part_are_scored_in_part() -> None:
    found = score([{**_ROW, "step_s": "", "nvml_used_bytes": "nan"}], None)

    assert found["rows"][0]["time_error"] is None
    assert found["rows"][0]["reserved_error"] is not None
    assert found["time"]["mean_error"] is None
    assert found["memory"]["device_mean_error"] is None


@pytest.mark.parametrize(("column", "value"), [("batch", "-3"), ("batch", "inf"), ("seq", "7.5")])
def test_a_row_with_a_senseless_number_says_which(column: str, value: str) -> None:
    found = score([{**_ROW, column: value}], None)

    assert found["answered"] == 0
    assert column in found["not_answered"][0]["problem"]
    assert value in found["not_answered"][0]["problem"]


def test_a_type_without_a_form_of_its_own_gets_wider_limits_and_says_so(tmp_path: Path) -> None:
    numbers = {"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16}
    config = {"model_type": "newest", "vocab_size": 32000, **numbers, "frobnicate": 3}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))

    found = estimate_model(ModelQuestion(model=str(path), batch=2), None)

    assert found.tier == "general form"
    assert found.device_bytes.high > 2 * found.device_bytes.likely
    assert any("newest" in note for note in found.notes)
    assert any("frobnicate" in note for note in found.notes)


def test_a_model_that_was_built_but_not_traced_is_answered_by_its_parameters() -> None:
    fault = {
        "error": {"problem": "no meta kernel", "where": "m:f", "hint": "write one"},
        "built": {"parameters": 1 << 28, "parameter_tensors": 10, "parameter_bytes": 1 << 30},
    }
    text = "import sys\nprint('{}', flush=True)\nfor line in sys.stdin:\n"
    text += f" print({json.dumps(fault)!r}, flush=True)"

    with TraceWorker((sys.executable, "-c", text)) as worker:
        found = estimate_model(ModelQuestion(model="m:f", batch=1, opt="adamw"), worker)

    assert found.tier == "parameters only"
    assert found.allocated_bytes.likely > 4 << 30
    assert any("no meta kernel" in note for note in found.notes)
    assert any("activations are unknown" in note for note in found.notes)


def test_energy_has_limits_around_what_is_likely() -> None:
    energy = estimate_model(ModelQuestion(model="gpt2", batch=4), None).energy_j_per_step

    assert energy is not None
    assert 0 < energy.low < energy.likely < energy.high


def test_a_closed_form_answers_within_ten_milliseconds() -> None:
    question = ModelQuestion(model="llama-8b", batch=4)
    estimate_model(question, None, find_batch=False)

    started = time.perf_counter()
    for _ in range(10):
        estimate_model(question, None, find_batch=False)

    assert (time.perf_counter() - started) / 10 < 0.01


def test_cells_that_other_programs_write_for_nothing_are_taken_for_empty() -> None:
    row = {"model": "gpt2", "mode": "train", "batch": "8.0", "size": "nan", "seq": "NA"}

    question = question_of(row | {"opt": "None", "gpu": "null"})

    assert (question.batch, question.size, question.seq) == (8, 224, 512)
    assert (question.opt, question.gpu) == ("adamw", "h200")
