"""`steward serve status` shows a gateway, and says by its exit status whether all is well."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from beds.serving_gateway import GatewayDouble, gateway_double, progress
from patience import free_port
from steward.cli.app import app
from steward.config import draft_settings
from steward.config.doctor import examine


@pytest.fixture
def double() -> Iterator[GatewayDouble]:
    with gateway_double() as running:
        yield running


def run(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["serve", "status", *words])
    return found.exit_code, found.output


def test_classes_instances_and_the_last_changes_are_shown(double: GatewayDouble) -> None:
    double.add("chat-1", running=2, waiting=1, tokens_per_s=120.0)
    double.classes = [progress(queued=3, attainment=0.975, expected_wait_s=1.25)]
    double.events = [{"t_s": 1000.0, "what": "upstream added", "instance": "chat-1", "why": "load"}]

    code, text = run("--url", double.url)

    assert code == 0
    assert "97.5%" in text
    assert "1.2 s" in text
    assert "chat-1" in text
    assert "upstream added: load" in text
    assert "waits are 4% off" in text


def test_json_is_the_status_itself(double: GatewayDouble) -> None:
    code, text = run("--url", double.url, "--json")

    assert code == 0
    assert json.loads(text)["policy"] == "edf"


def test_an_instance_that_is_down_is_exit_status_one(double: GatewayDouble) -> None:
    double.add("chat-1", state="down", breaker="open")

    code, text = run("--url", double.url)

    assert code == 1
    assert "down, breaker open" in text


def test_a_gateway_that_does_not_answer_is_exit_status_one() -> None:
    code, text = run("--url", f"http://127.0.0.1:{free_port()}")

    assert code == 1
    assert "does not answer" in text


def test_a_key_file_that_cannot_be_read_is_wrong_use(double: GatewayDouble, tmp_path: Path) -> None:
    found = CliRunner().invoke(
        app, ["serve", "status", "--url", double.url, "--key-file", str(tmp_path / "no")]
    )

    assert found.exit_code != 0


def test_doctor_says_what_may_be_scaled(double: GatewayDouble, tmp_path: Path) -> None:
    file = tmp_path / "steward.toml"
    file.write_text(
        f'[store]\nfolder = "{tmp_path}/data"\n[serving]\ngateway = "{double.url}"\n'
        '[instances.chat]\nmodel = "m"\ncommand = "sh {port}"\nmost = 3\n'
        '[instances.hook]\nmodel = "m"\nfleet = "webhook"\n'
    )

    found = {each.name: each for each in examine(draft_settings(file, {}))}

    assert "scaled by slack, dry run" in found["gateway"].reason
    assert found["chat"].status == "ok"
    assert "0 to 3 of 1 GPU" in found["chat"].reason
    assert found["hook"].status == "missing"
