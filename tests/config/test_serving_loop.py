"""What scalers are told about the instance types of a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from steward.config.serving_loop import scalable_of
from steward.config.serving_settings import InstanceSettings
from steward.errors import StewardError
from steward.model.serving.instance_type import H200_LLAMA_8B

HEADER = "model,kind,batch,tokens,context,kv_bytes,s\n"


def measured(file: Path, *models: str, step_s: float) -> str:
    """Write a profile in which each step takes `step_s` and a little for each token."""
    rows = "".join(
        f"{model},prefill,1,{tokens},,,{step_s + 1e-5 * tokens}\n"
        f"{model},decode,{tokens // 100},,100,,{step_s + 1e-5 * tokens}\n"
        for model in models
        for tokens in (100, 400, 1600, 6400)
    )
    file.write_text(HEADER + rows, encoding="utf-8")
    return str(file)


def test_a_measured_type_is_as_slow_as_it_was_measured(tmp_path: Path) -> None:
    profile = measured(tmp_path / "steps.csv", "other", "large", step_s=0.3)

    plain = scalable_of("large", InstanceSettings(model="large"))
    slow = scalable_of("large", InstanceSettings(model="large", profile=profile))

    assert plain.type.step_times == H200_LLAMA_8B.step_times
    assert slow.type.step_times.step_s(decode_sequences=1, kv_tokens=100) > 0.2
    assert slow.type.model == "large"


def test_a_profile_of_one_model_counts_under_any_name(tmp_path: Path) -> None:
    profile = measured(tmp_path / "steps.csv", "org/large", step_s=0.3)

    found = scalable_of("large", InstanceSettings(model="large", profile=profile))

    assert found.type.step_times.step_s(decode_sequences=1, kv_tokens=100) > 0.2


def test_a_profile_of_several_other_models_says_which_it_has(tmp_path: Path) -> None:
    profile = measured(tmp_path / "steps.csv", "small", "medium", step_s=0.1)

    with pytest.raises(StewardError, match="measured small, medium, not large"):
        scalable_of("large", InstanceSettings(model="large", profile=profile))
