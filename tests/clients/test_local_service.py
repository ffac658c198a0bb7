"""Speaking to a steward on this machine through its socket."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_socket import listening
from steward.clients.local_service import LocalService
from steward.errors import StewardError


def test_what_is_posted_arrives_and_the_answer_comes_back(tmp_path: Path) -> None:
    with listening(tmp_path / "s", 202, {"user": "ann"}) as came:
        answer = LocalService(tmp_path / "s").post("decisions", "d/1", "approve", body={"note": ""})

    assert answer == {"user": "ann"}
    assert came == [("/api/v1/decisions/d%2F1/approve", {"note": ""})]


def test_a_refusal_keeps_its_message(tmp_path: Path) -> None:
    error = {"problem": "the account 'bob' has no role here", "where": "socket", "hint": "ask ann"}

    with listening(tmp_path / "s", 403, {"error": error}), pytest.raises(StewardError) as caught:
        LocalService(tmp_path / "s").post("decisions", "d-1", "approve", body={})

    assert (caught.value.problem, caught.value.hint) == (error["problem"], "ask ann")


def test_where_no_steward_listens_there_is_no_answer(tmp_path: Path) -> None:
    with listening(tmp_path / "left-behind", 200, {}):
        pass

    assert LocalService(tmp_path / "left-behind").post("x", body={}) is None
    assert LocalService(tmp_path / "none").post("x", body={}) is None
