"""`steward observe agent`, as people start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from patience import LONG_S, until
from steward.cli.app import app

MAIN = "from steward.cli import main; main()"
HEAVY = ("fastapi", "nicegui", "duckdb", "sklearn", "numba", "scipy", "sqlalchemy", "uvicorn")
NOBODY = "http://127.0.0.1:9"  # the port of "discard", where nobody listens


def start(*args: str, code: str = MAIN) -> subprocess.Popen[str]:
    # Polars, which tests have loaded already, would tell the agent how to keep memory.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("_RJEM_")}
    return subprocess.Popen(
        [sys.executable, "-c", code, "observe", "agent", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean,
    )


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "no server configured"),
        (["--server", "steward"], "no address of a server"),
        (["--server", NOBODY, "--every", "soon"], "not a length of time"),
        (["--server", NOBODY, "--every", "0"], "out of range"),
        (["--server", NOBODY, "--node", "a/b"], "cannot be the name of a node"),
        (["--server", NOBODY, "--collectors", "hots"], "did you mean 'host'?"),
        (["--server", NOBODY, "--token-file", "/nowhere/token"], "token cannot be read"),
        (["--server", NOBODY, "--ca", "/nowhere/ca.pem"], "certificates cannot be used"),
        (["--server", "http://far.example", "--token-file", "TOKEN"], "plain HTTP to another"),
    ],
)
def test_wrong_use_ends_with_words_and_2(tmp_path: Path, args: list[str], says: str) -> None:
    (tmp_path / "token").write_text("stw_x")
    args = [str(tmp_path / "token") if each == "TOKEN" else each for each in args]

    result = CliRunner().invoke(app, ["observe", "agent", "--spool", str(tmp_path / "s"), *args])

    assert result.exit_code == 2
    assert says in result.output
    assert "Traceback" not in result.output


def test_the_configuration_can_say_everything(tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text(f'[agent]\nserver = "http://far.example"\ntoken_file = "{tmp_path}/t"\n')
    (tmp_path / "t").write_text("stw_x")

    result = CliRunner().invoke(app, ["observe", "agent", "--config", str(config)])

    assert result.exit_code == 2
    assert "far.example: plain HTTP to another machine" in result.output


def test_the_status_of_an_agent_that_never_ran_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["observe", "agent", "--spool", str(tmp_path), "--status"])

    assert result.exit_code == 2
    assert "no agent has written its status here" in result.output


def test_the_status_of_an_agent_that_stopped_is_told(tmp_path: Path) -> None:
    status = {
        "t_s": time.time() - 3600,
        "pid": 1,
        "node": "n1",
        "collectors": ["host"],
        "last_sent_s": None,
        "clock_offset_s": -0.0123,
        "disk_problem": "no space left on device",
        "damage": [],
    }
    (tmp_path / "status.json").write_text(json.dumps(status))

    shown = CliRunner().invoke(app, ["observe", "agent", "--spool", str(tmp_path), "--status"])
    as_json = CliRunner().invoke(
        app, ["observe", "agent", "--spool", str(tmp_path), "--status", "--json"]
    )

    assert shown.exit_code == as_json.exit_code == 1
    assert "the agent of n1 has stopped, or hangs" in shown.output
    assert "12.3 ms behind" in shown.output
    assert "no space left" in shown.output
    assert json.loads(as_json.stdout)["silent"] is True


def test_it_keeps_what_it_cannot_send_stays_small_and_ends_when_told(tmp_path: Path) -> None:
    """One process for several claims, since starting one takes a second."""
    loaded = tmp_path / "loaded"
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: open({str(loaded)!r}, 'w').write(' '.join(sys.modules)))\n" + MAIN
    )
    folder = tmp_path / "spool"
    program = start(
        *("--server", NOBODY, "--spool", str(folder), "--collectors", "host", "--every", "100ms"),
        code=code,
    )
    until(lambda: (folder / "status.json").exists() or program.poll() is not None)
    assert program.poll() is None, program.stderr
    second = start("--server", NOBODY, "--spool", str(folder), "--once")
    _, refused = second.communicate(timeout=LONG_S)
    rss_kib = int(Path(f"/proc/{program.pid}/status").read_text().partition("VmRSS:")[2].split()[0])
    program.send_signal(signal.SIGTERM)
    _, said = program.communicate(timeout=LONG_S)

    assert (second.returncode, program.returncode) == (2, 0)
    assert "another process writes to this spool" in refused
    assert "no answer" in said
    assert "parcels wait in" in said.splitlines()[-1]
    assert rss_kib < 150 * 1024
    assert [name for name in HEAVY if name in loaded.read_text().split()] == []
    assert json.loads((folder / "status.json").read_text())["waiting_parcels"] >= 1
