"""Receivers are read with all that is wrong with them, and their secrets come from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from observe.forwarding.receivers import receiver
from steward.config import draft_settings
from steward.config.doctor import Check, examine
from steward.config.forward import targets_of
from steward.errors import StewardError

WRONG = """
[forward.a]
format = "otlp"
url = "prometheus:9090"
[forward.b]
lines = true
metrics = ["gpu.*", "gpu.buzy_share"]
token_file = "t"
user = "me"
[forward.c]
format = "otlp-http"
url = "http://me:geheim@c:4318"
tokenfile = "x"
lines = "yes"
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "steward.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_all_mistakes_of_all_receivers_come_at_once(tmp_path: Path) -> None:
    draft = draft_settings(written(tmp_path, WRONG), {})

    message = [(each.line, each.problem) for each in draft.mistakes]
    assert message == [
        (3, "forward.a.format is 'otlp', not one of remote-write, otlp-http, otlp-grpc"),
        (4, "forward.a.url is 'prometheus:9090', not an address"),
        (5, "forward.b.password_file is not set"),
        (5, "forward.b.url is not set"),
        (6, "forward.b.lines is true, but remote write carries no lines"),
        (7, "forward.b.metrics has 'gpu.buzy_share', which no metric is called"),
        (9, "forward.b.user is set together with token_file"),
        (12, "forward.c.url has a user in it"),
        (13, draft.mistakes[8].problem),
        (14, "forward.c.lines is 'yes', not true or false"),
    ]
    assert "[forward.c] has no key 'tokenfile'" in draft.mistakes[8].problem
    assert "geheim" not in str(draft.mistakes)


def test_a_receiver_becomes_a_target_with_its_secrets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheim\n", encoding="utf-8")
    text = f"""
        [forward."Site A"]
        format = "otlp-grpc"
        url = "https://x:1"
        token_file = "{tmp_path / "token"}"
        lines = true
    """
    environment = {"STEWARD_FORWARD__SITE_A__METRICS": "gpu.*, host.*"}

    settings = draft_settings(written(tmp_path, text), environment).settled()

    (target,) = targets_of(settings)
    assert (target.name, target.format, target.lines) == ("Site A", "otlp-grpc", True)
    assert target.metrics == ("gpu.*", "host.*")
    assert target.endpoint.token == "geheim"  # noqa: S105 - a made-up one


def test_all_files_that_cannot_be_read_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    text = f"""
        [forward.a]
        url = "https://x:1"
        token_file = "{tmp_path / "none"}"
        ca_file = "{tmp_path / "ca"}"
        [forward.b]
        url = "https://x:1"
        user = "me"
        password_file = "{tmp_path / "empty"}"
    """
    settings = draft_settings(written(tmp_path, text), {}).settled()

    with pytest.raises(StewardError) as fault:
        targets_of(settings)

    assert "forward.a.token_file" in fault.value.problem
    assert "forward.a.ca_file" in fault.value.problem
    assert "forward.b.password_file" in fault.value.problem


def receivers(folder: Path, text: str) -> dict[str, Check]:
    draft = draft_settings(
        written(folder, text), {"STEWARD_STORE__FOLDER": str(folder), "STEWARD_SERVICE__PORT": "0"}
    )
    return {each.name: each for each in examine(draft) if each.kind == "forward"}


def test_the_doctor_reports_which_receivers_answer(tmp_path: Path) -> None:
    with receiver() as good, receiver() as locked:
        locked.status = 401
        text = f"""
            [forward.good]
            url = "{good.url}/api/v1/write"
            [forward.open]
            format = "otlp-http"
            url = "{good.url}"
            [forward.locked]
            url = "{locked.url}/api/v1/write"
            [forward.away]
            format = "otlp-grpc"
            url = "http://127.0.0.1:9"
        """
        found = receivers(tmp_path, text)

    assert {name: each.status for name, each in found.items()} == {
        "good": "ok",
        "open": "ok",
        "locked": "missing",
        "away": "missing",
    }
    assert "401" in found["locked"].reason
    assert "token" in found["locked"].hint
    assert "unavailable" in found["away"].reason
    assert not any(each.blocks for each in found.values())
    assert good.requests == 2
    assert good.points() == []  # it was asked, but sent nothing


def test_the_doctor_names_a_secret_that_is_not_there(tmp_path: Path) -> None:
    found = receivers(tmp_path, '[forward.a]\nurl = "https://x:1"\ntoken_file = "/none"\n')

    assert "forward.a.token_file: /none cannot be read" in found["forward"].reason
