"""The closed form: parameters of known models, and configurations that are wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.closed_form import closed_form, transformer
from steward.learn.estimators.model_graphs.configs import known_config, read_config
from steward.learn.estimators.model_graphs.question import ModelQuestion

_PARAMETERS = {
    "gpt2": 124439808,
    "gpt2-medium": 354823168,
    "bert-base": 109514298,
    "llama-160m": 162417408,
    "llama-1b": 886114304,
}


@pytest.mark.parametrize(("name", "parameters"), _PARAMETERS.items())
def test_parameters_of_measured_models_are_within_one_percent(name: str, parameters: int) -> None:
    config = known_config(name)
    assert config is not None

    found = transformer(config, where=name)

    assert found.parameters == pytest.approx(parameters, rel=0.01)


@pytest.mark.parametrize("name", _PARAMETERS)
@pytest.mark.parametrize("mode", ["train", "infer"])
def test_memory_grows_with_the_batch(name: str, mode: str) -> None:
    config = known_config(name)
    assert config is not None
    shape = transformer(config, where=name)
    question = ModelQuestion(model=name, batch=4, mode=mode)

    small = closed_form(shape, question)
    large = closed_form(shape, replace(question, batch=16))

    assert small.weights_bytes < small.allocated_bytes < large.allocated_bytes
    assert small.flops * 3.9 < large.flops


def test_checkpointing_keeps_less() -> None:
    config = known_config("llama-1b")
    assert config is not None
    shape = transformer(config, where="llama-1b")
    question = ModelQuestion(model="llama-1b", batch=8)

    kept = closed_form(shape, question).activations_bytes

    assert closed_form(shape, replace(question, grad_ckpt=True)).activations_bytes < kept / 3


@pytest.mark.parametrize("value", [0, -1, True, "12", 1.5])
def test_a_number_of_layers_that_is_none_is_named(value: object) -> None:
    config = {"model_type": "llama", "num_hidden_layers": value}

    with pytest.raises(StewardError, match="num_hidden_layers"):
        transformer(config, where="config.json")


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(StewardError, match=r"mamba.*no num_hidden_layers.*known types: .*llama"):
        transformer({"model_type": "mamba"}, where="config.json")


@pytest.mark.parametrize("text", ["[1", "[]", "{}", '{"model_type": 3}'])
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)

    with pytest.raises(StewardError) as fault:
        read_config(path)

    assert fault.value.hint
    assert str(path) in fault.value.where


def test_a_folder_with_a_configuration_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))

    assert read_config(tmp_path)["model_type"] == "gpt2"
