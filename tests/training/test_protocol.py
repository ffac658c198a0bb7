from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from steward.training.protocol import (
    ANSWER,
    REQUEST,
    SaveAnswer,
    SaveRequest,
    TrainingError,
    read_json,
    read_request,
    write_json,
)


def test_a_request_is_read_as_it_was_written(tmp_path: Path) -> None:
    request = SaveRequest(id="d-1", do="save-and-stop", deadline_s=12.5, reason="lent")

    request.write(tmp_path)

    assert read_request(tmp_path / REQUEST) == request
    assert request.stop


def test_an_answer_names_its_request_and_what_it_cost(tmp_path: Path) -> None:
    SaveAnswer(id="d-1", result="saved", step=7, bytes=100, seconds=0.5).write(tmp_path)

    record = read_json(tmp_path / ANSWER)

    assert (record["id"], record["result"], record["step"]) == ("d-1", "saved", 7)
    assert (record["bytes"], record["seconds"], record["why"]) == (100, 0.5, "")


def test_all_faults_of_a_request_are_in_one_message(tmp_path: Path) -> None:
    (tmp_path / REQUEST).write_text(json.dumps({"do": "sav", "deadline_s": "soon"}))

    with pytest.raises(TrainingError) as caught:
        read_request(tmp_path / REQUEST)

    text = str(caught.value)
    assert "`id` is None, not a text" in text
    assert "`do` is 'sav', not one of save, save-and-stop" in text
    assert "`deadline_s` is 'soon', not a Unix time" in text
    assert "hint: " in text


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b"null"])
def test_a_file_that_is_no_json_object_is_refused_with_its_path(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "request.json"
    path.write_bytes(content)

    with pytest.raises(TrainingError) as caught:
        read_json(path)

    assert caught.value.where == str(path)


def test_a_request_without_a_deadline_is_never_late() -> None:
    assert not SaveRequest(id="a", do="save").is_late()
    assert SaveRequest(id="a", do="save", deadline_s=time.time() - 1).is_late()
    assert not SaveRequest(id="a", do="save", deadline_s=time.time() + 1000).is_late()


def test_what_cannot_be_written_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    write_json(path, {"step": 1}, durable=True)

    with pytest.raises(ValueError, match="float values"):
        write_json(path, {"step": float("nan")})

    assert read_json(path) == {"step": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["progress.json"]
