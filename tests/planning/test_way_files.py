"""Ways from a file of JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.planning.way_files import read_ways

WAY = {"gpu_model": "A100", "gpus": 2, "run_s": {"low": 1, "mid": 2, "high": 3}, "batch": 16}


def written(folder: Path, value: object) -> Path:
    path = folder / "ways.json"
    path.write_text(json.dumps(value))
    return path


def test_ways_are_read_with_what_is_left_out_unknown(tmp_path: Path) -> None:
    (found,) = read_ways(written(tmp_path, [WAY]))

    assert (found.gpu_model, found.gpus, found.batch) == ("A100", 2, 16)
    assert found.run_s.mid == 2.0
    assert found.most_nodes is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "no way in it"),
        ([{"gpus": 1}], "run_s: Field required"),
        ([WAY | {"colour": "red"}], "colour: Extra inputs"),
        ([WAY | {"run_s": {"low": 3, "mid": 2, "high": 1}}], "not ordered"),
        ([WAY | {"gpu_model": ""}], "it has 2 GPUs of model ''"),
        ({"ways": []}, "the file"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, value: object, problem: str) -> None:
    with pytest.raises(StewardError, match=problem):
        read_ways(written(tmp_path, value))


def test_a_file_that_is_not_there_or_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xff not json")

    with pytest.raises(StewardError, match="cannot be read"):
        read_ways(tmp_path / "nothing")
    with pytest.raises(StewardError, match="the file"):
        read_ways(tmp_path / "text")
