"""How a site does, as its steward says, or does not."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from local_socket import listening
from steward.clients.site_health import ask_health, ask_healths
from steward.model.site import SiteState

SLURM = {"where": "collector slurm", "problem": "no answer", "t_s": 40.0, "hint": ""}


def answer(**more: Any) -> dict[str, Any]:
    known = {"turns": 3, "t_s": 70.0, "url": "http://h:1", "faults": 2}
    return {"unready": [], "unreachable": [], **known, **more}


@pytest.mark.parametrize(
    ("more", "state", "text"),
    [
        ({}, SiteState.FINE, ""),
        ({"turns": 0, "unready": ["x"]}, SiteState.STARTING, "it has not made its first turn yet"),
        ({"unready": ["no turn", "no disk"]}, SiteState.FAILING, "no turn; no disk"),
        ({"unreachable": [SLURM]}, SiteState.UNREACHABLE, "collector slurm: no answer"),
    ],
)
def test_the_state_of_a_site_is_the_worst_that_it_reports(
    tmp_path: Path, more: dict[str, Any], state: SiteState, text: str
) -> None:
    with listening(tmp_path / "s", 200, answer(**more)) as came:
        found = ask_health("a", tmp_path / "s")

    assert came == [("/api/v1/status", None)]
    assert (found.name, found.state, found.text, found.url) == ("a", state, text, "http://h:1")
    assert found.is_fine == (state is SiteState.FINE)
    assert found.since_s == (40.0 if more.get("unreachable") else None)
    assert found.last_turn_t_s == (70.0 if found.turns else None)


def test_a_steward_that_does_not_run_is_stopped(tmp_path: Path) -> None:
    assert ask_health("a", tmp_path / "none").state is SiteState.STOPPED


@pytest.mark.parametrize("said", [{"turns": 3}, [], {"turns": "many", "unready": 1}])
def test_an_answer_of_another_version_is_no_crash(tmp_path: Path, said: object) -> None:
    with listening(tmp_path / "s", 200, said):
        found = ask_health("a", tmp_path / "s")

    assert found.state is SiteState.FAILING
    assert "another version" in found.text


def test_a_refusal_is_the_reason(tmp_path: Path) -> None:
    with listening(tmp_path / "s", 403, {"error": {"problem": "no role here"}}):
        found = ask_health("a", tmp_path / "s")

    assert (found.state, found.text) == (SiteState.FAILING, "no role here")


def test_a_site_that_never_answers_is_failing_and_delays_no_other(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "hung"))
        silent.listen()
        hung = ask_health("a", tmp_path / "hung", timeout_s=0.1)

    with listening(tmp_path / "s", 200, answer()):
        found = ask_healths({"none": tmp_path / "none", "b": tmp_path / "s"})

    assert (hung.state, hung.text.partition(":")[0]) == (SiteState.FAILING, "no answer")
    assert [each.state for each in found] == [SiteState.STOPPED, SiteState.FINE]
    assert ask_healths({}) == []
