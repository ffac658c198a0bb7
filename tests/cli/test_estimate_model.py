"""`steward estimate model`, `score` and `calibrate`."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from told import steward

_ROW = {
    "family": "lm",
    "model": "gpt2",
    "mode": "train",
    "batch": "4",
    "seq": "512",
    "amp": "False",
    "opt": "adamw",
    "peak_reserved_bytes": "5450498048",
    "nvml_used_bytes": "6939344896",
    "step_s": "0.0577",
}


def _file(folder: Path, *rows: dict[str, str]) -> Path:
    path = folder / "truth.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, _ROW)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_model_is_answered_as_json_with_limits_and_reasons(tmp_path: Path) -> None:
    answer = steward("estimate", "model", "gpt2", "--batch", 4, "--data", tmp_path, "--json")

    found = answer.json
    for name in ("allocated_bytes", "reserved_bytes", "device_bytes", "step_s"):
        assert found[name]["low"] < found[name]["likely"] < found[name]["high"]
        assert found[name]["because"]
    assert found["energy_j_per_step"]["high"] > found["energy_j_per_step"]["low"]
    assert found["fits"] is True


def test_a_table_for_people_says_how_many_gpus(tmp_path: Path) -> None:
    options = ("--dp", 4, "--shard", "fsdp", "--accumulate", 8, "--opt", "adamw_8bit")

    answer = steward("estimate", "model", "llama-8b", "--batch", 1, *options, "--data", tmp_path)

    assert answer.code == 0
    assert "reserved, GiB" in answer.out
    assert "each of 4 h200" in answer.err


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--gpu", "h2000"), "h200"),
        (("--opt", "adamq"), "adamw"),
        (("--shard", "zero7", "--dp", 2), "zero3"),
        (("--shard", "zero3"), "--dp"),
        (("--link-gbs", 0, "--dp", 2), "GB/s"),
        (("--mode", "infer", "--accumulate", 2), "--accumulate"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_possible(
    tmp_path: Path, options: tuple[object, ...], word: str
) -> None:
    answer = steward("estimate", "model", "gpt2", "--batch", 4, *options, "--data", tmp_path)

    assert answer.code == 2
    assert word in answer.err


def test_rows_of_unknown_models_are_reported_beside_the_scores(tmp_path: Path) -> None:
    file = _file(tmp_path, _ROW, {**_ROW, "model": "nonesuch_v9", "family": "new"})

    answer = steward("estimate", "score", file, "--data", tmp_path, "--json")

    found = answer.json
    assert answer.code == 0
    assert found["answered"] == 1
    assert found["not_answered"][0]["model"] == "nonesuch_v9"
    assert 0 <= found["memory"]["mean_error"] < 1
    assert found["memory"]["above_q95"] == 0
    assert found["time"]["mean_error"] > 0


def test_a_calibrated_gpu_is_used_by_its_name(tmp_path: Path) -> None:
    runs = [{**_ROW, "batch": str(batch), "step_s": str(0.4 * batch)} for batch in (4, 8, 16)]

    fitted = steward(
        *("estimate", "calibrate", _file(tmp_path, *runs), "--gpu", "lab-a", "--like", "a100-40"),
        *("--data", tmp_path, "--json"),
    )
    model = ("estimate", "model", "gpt2", "--batch", 8, "--data", tmp_path, "--json")
    own = steward(*model, "--gpu", "lab-a").json["step_s"]
    plain = steward(*model, "--gpu", "a100-40").json["step_s"]

    assert fitted.json["runs"] == 3
    assert fitted.json["slower"]["compute"] > 1
    assert own["likely"] > 1.5 * plain["likely"]
    assert own["high"] / own["low"] < plain["high"] / plain["low"]


def test_runs_in_a_file_refine_one_answer(tmp_path: Path) -> None:
    file = _file(tmp_path, *[{**_ROW, "step_s": "0.9"}] * 3)
    model = ("estimate", "model", "gpt2", "--batch", 4, "--gpu", "t4", "--data", tmp_path, "--json")

    plain, refined = steward(*model).json, steward(*model, "--measured", file).json

    reach = [each["step_s"]["high"] / each["step_s"]["low"] for each in (plain, refined)]
    assert reach[1] < reach[0]
    assert any("3 measured runs" in note for note in refined["notes"])


def test_a_file_of_another_gpu_or_without_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("model,mode,batch,step_s,gpu\ngpt2,train,4,0.1,v100\n")
    empty = tmp_path / "empty.csv"
    empty.write_text("")

    other = steward("estimate", "calibrate", path, "--gpu", "t4", "--data", tmp_path)
    nothing = steward("estimate", "calibrate", empty, "--gpu", "t4", "--data", tmp_path)

    assert (other.code, nothing.code) == (2, 2)
    assert "no row is of the GPU t4" in other.err
    assert "missing columns or no rows" in nothing.err
