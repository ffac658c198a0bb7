"""`steward observe record`, as people start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from patience import LONG_S, until
from steward.cli.app import app
from steward.store.query import Query

Start = Callable[..., subprocess.Popen[str]]
MAIN = "from steward.cli import main; main()"
HASTY = (  # the same, with looks and flushes that a test can wait for
    "import steward.observe.record as a, steward.cli.observe.record; import sys\n"
    "a.LOOK_S = sys.modules['steward.cli.observe.record'].FLUSH_S = 0.2\n" + MAIN
)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start recordings that do not outlive the test, whatever happens in it."""
    running: list[subprocess.Popen[str]] = []

    def begin(out: Path, *args: str, code: str = MAIN) -> subprocess.Popen[str]:
        made = subprocess.Popen(
            [sys.executable, "-c", code, "observe", "record", "--out", str(out), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "POLARS_MAX_THREADS": "1"},
        )
        running.append(made)
        return made

    yield begin
    for each in running:
        each.kill()
        each.communicate()


def rows(folder: Path) -> int:
    with Query(folder) as query:
        return int(query.run("SELECT count(*) FROM telemetry").rows[0][0])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--for", "0"], "nothing can be recorded in no time"),
        (["--for", "soon"], "not a length of time"),
        (["--every", "1ms"], "less than 10 ms"),
        (["--collectors", "hots"], "did you mean 'host'?"),
        (["--collectors", "prometheus"], "prometheus is left out: no exporter"),
    ],
)
def test_wrong_use_ends_with_words_and_2(tmp_path: Path, args: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["observe", "record", "--out", str(tmp_path / "r"), *args])

    assert result.exit_code == 2
    assert says in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "r").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep me")

    result = CliRunner().invoke(app, ["observe", "record", "--out", str(tmp_path)])

    assert result.exit_code == 2
    assert "there is something there already" in result.output
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_recording_can_be_asked_and_says_what_it_is(tmp_path: Path) -> None:
    args = ["--for", "1s", "--every", "100ms", "--collectors", "host,prometheus", "--json"]

    result = CliRunner().invoke(app, ["observe", "record", "--out", str(tmp_path / "r"), *args])

    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert said["pace"]["host"]["ticks"] >= 1
    assert said["faults"] == []
    assert rows(tmp_path / "r") == said["rows"] > 0
    about = json.loads((tmp_path / "r" / "recording.json").read_text())
    assert (about["every_s"], list(about["collectors"])) == (0.1, ["host"])


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_who_is_told_to_stop_keeps_what_was_recorded(
    tmp_path: Path, start: Start, told: signal.Signals
) -> None:
    args = ["--for", "1h", "--every", "50ms", "--collectors", "host"]
    running = start(tmp_path / "r", *args, code=HASTY)
    until(lambda: any((tmp_path / "r").rglob("*.parquet")))

    running.send_signal(told)
    out, errors = running.communicate(timeout=LONG_S)

    assert running.returncode == 0
    assert "recorded" in out
    assert "Traceback" not in errors
    assert rows(tmp_path / "r") > 0


def test_a_disk_that_is_full_until_the_end_is_told_as_a_loss(tmp_path: Path, start: Start) -> None:
    full = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))\n" + HASTY
    )
    args = ["--for", "600ms", "--every", "50ms", "--collectors", "host"]

    running = start(tmp_path / "r", *args, code=full)
    _, errors = running.communicate(timeout=LONG_S)

    assert running.returncode == 2
    assert "could not be written and is lost" in errors
    assert "nothing is lost" not in errors
    assert "Traceback" not in errors


def test_a_kill_leaves_what_was_written_by_then(tmp_path: Path, start: Start) -> None:
    args = ["--for", "1h", "--every", "50ms", "--collectors", "host"]
    running = start(tmp_path / "r", *args, code=HASTY)
    until(lambda: any((tmp_path / "r").rglob("*.parquet")))

    running.kill()
    running.communicate(timeout=LONG_S)

    assert rows(tmp_path / "r") > 0
    assert json.loads((tmp_path / "r" / "recording.json").read_text())["every_s"] == 0.05
