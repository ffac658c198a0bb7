"""`steward up`: what has to be right before anything starts, and one start of each kind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from steward.store.journal import open_journal
from told import steward

COMMAND = [sys.executable, "-c", "from steward.cli import main; main()", "up"]

AT = ("--plain-http", "--host")


def written(folder: Path, text: str) -> Path:
    file = folder / "steward.toml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("args", "says", "hint"),
    [
        (("--speed", "10"), "--speed: only a simulated cluster can run faster", "add --demo"),
        (("--seed", "3"), "--seed: only a simulated cluster has another history", "add --demo"),
        (("--demo", "--seed", "-3"), "--seed: the seed is -3", "0 or more"),
        (("--demo", "--speed", "0"), "--speed: the speed is 0", "above 0"),
        (("--demo", "--speed", "nan"), "--speed: the speed is nan", "above 0"),
        (("--autonomy", "atuo"), "there is no autonomy level called 'atuo'", "'auto'?"),
        (
            ("--host", "no.such.host.invalid", "--plain-http"),
            "no.such.host.invalid:8787: cannot listen",
            "--port",
        ),
        (
            ("--host", "203.0.113.7", "--port", "0", "--plain-http"),
            "203.0.113.7:0: cannot listen",
            "--port",
        ),
    ],
)
def test_a_wrong_option_stops_before_anything_is_made(
    tmp_path: Path, args: Sequence[str], says: str, hint: str
) -> None:
    answer = steward("up", "--data", tmp_path / "data", *args)

    assert answer.code == 2
    assert says in answer.err
    assert hint in answer.err
    assert not (tmp_path / "data").exists()


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        answer = steward("up", "--data", tmp_path / "data", "--port", port)

    assert answer.code == 2
    assert f"error: 127.0.0.1:{port}: cannot listen there: address already in use" in answer.err
    assert "--port" in answer.err


def test_all_mistakes_in_the_configuration_are_said_at_once(tmp_path: Path) -> None:
    file = written(tmp_path, '[observe]\ncollectors = ["hots"]\n[loop]\nautonomy = 3\n')

    answer = steward("up", "--config", file, "--data", tmp_path / "data")

    assert answer.code == 2
    assert "did you mean 'host'?" in answer.err
    assert f"{file}:4:12: loop.autonomy is 3, not one of" in answer.err


def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    answer = steward("up", "--data", tmp_path / "file" / "data", "--port", 0)

    assert answer.code == 2
    assert "the store folder cannot be used: not a directory" in answer.err
    assert "--data" in answer.err


def test_an_open_address_needs_a_certificate_or_an_explicit_word(tmp_path: Path) -> None:
    answer = steward("up", "--data", tmp_path / "data", "--host", "0.0.0.0", "--port", 0)  # noqa: S104

    assert answer.code == 2
    assert "tokens and cookies would cross the network in the clear" in answer.err
    assert "--plain-http" in answer.err
    assert not (tmp_path / "data").exists()


def start(*args: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "--port", "0", "--no-browser", "--json", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "HOME": "/nonexistent", **environment},
        text=True,
    )


def test_it_watches_this_machine_until_it_is_told_to_stop(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite3").write_bytes(b"a damaged journal " * 300)
    (tmp_path / "tokens.json").write_text('[{"name": "ada", "ro')
    running = start("--data", tmp_path, STEWARD_LOOP__EVERY_S="0.2")
    assert running.stdout is not None
    said = json.loads(running.stdout.readline())

    second = steward("up", "--data", tmp_path, "--port", 0)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=120)

    assert said["url"].startswith("http://127.0.0.1:")
    assert (said["data"], said["autonomy"], said["demo"]) == (str(tmp_path), "advise", False)
    assert second.code == 2
    assert f"steward runs on this folder already (process {said['pid']})" in second.err
    assert running.returncode == 0
    assert "warning: " in err
    assert "damaged" in err
    assert f"warning: {tmp_path}/tokens.json: " in err
    assert "every token is refused until it is mended" in err
    assert f"the data is in {tmp_path}" in err


def test_a_demo_runs_faster_than_life_and_stops_by_itself(tmp_path: Path) -> None:
    journal_of_the_site = "postgresql://nobody@127.0.0.1:1/real"
    running = start(
        *("--demo", "--speed", 300, "--for", 1),
        HOME=str(tmp_path),
        STEWARD_STORE__JOURNAL=journal_of_the_site,
    )
    out, err = running.communicate(timeout=120)

    said = json.loads(out)
    assert running.returncode == 0, err
    assert (said["autonomy"], said["demo"], said["speed"]) == ("auto", True, 300.0)
    assert "stopped after " in err
    assert Path(said["data"]).parent == tmp_path / ".local" / "share" / "steward" / "demo"
    journal = open_journal(f"sqlite:///{said['data']}/journal.sqlite3")
    assert journal.damage() == ()
    journal.close()


@pytest.mark.parametrize("simulated", [True, False])
def test_a_simulated_history_and_a_real_one_are_kept_apart(tmp_path: Path, simulated: bool) -> None:  # noqa: FBT001
    open_journal(f"sqlite:///{tmp_path / 'journal.sqlite3'}").close()
    if simulated:
        (tmp_path / "simulated").touch()

    said = steward("up", *(() if simulated else ("--demo",)), "--port", "0", "--data", tmp_path)

    assert said.code == 2
    assert (
        f"the data here is of {'a simulated cluster' if simulated else 'a real site'}" in said.err
    )
    assert "name another folder with --data" in said.err
