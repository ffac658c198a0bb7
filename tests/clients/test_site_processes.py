"""One process per site: kept running while we are, and ended with us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from local_socket import listening
from patience import until
from steward.clients.site_processes import SiteProcesses, command_of
from steward.model.site import SiteState

LIVES = "import os, sys; open(sys.argv[1], 'a').write(f'{os.getpid()}\\n'); sys.stdin.read()"
FAILS = (
    "import sys; open(sys.argv[1], 'a').write('0\\n'); "
    "print('error: no engine', file=sys.stderr); print('hint: x', file=sys.stderr); sys.exit(2)"
)
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {LIVES}"


def python(program: str, *args: object) -> Sequence[str]:
    return [sys.executable, "-c", program, *map(str, args)]


def pids(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def lives(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_a_site_that_is_killed_is_started_again_and_another_is_left_alone(tmp_path: Path) -> None:
    sockets = {name: tmp_path / f"{name}.sock" for name in ("a", "b")}
    lines: list[str] = []

    with SiteProcesses(
        lambda name: python(LIVES, tmp_path / name),
        sockets,
        report=lines.append,
        first_pause_s=0.01,
    ):
        until(lambda: pids(tmp_path / "a") and pids(tmp_path / "b"))
        os.kill(pids(tmp_path / "a")[0], signal.SIGKILL)
        until(lambda: len(pids(tmp_path / "a")) == 2)

    assert len(pids(tmp_path / "b")) == 1
    assert "site a: it has ended with status -9; it is started again in 0.01 s" in lines
    assert not any(lives(pid) for name in sockets for pid in pids(tmp_path / name))


def test_a_site_that_cannot_run_says_why_and_is_tried_more_and_more_seldom(tmp_path: Path) -> None:
    lines: list[str] = []

    with SiteProcesses(
        lambda _: python(FAILS, tmp_path / "runs"),
        {"a": tmp_path / "s"},
        report=lines.append,
        first_pause_s=0.01,
    ) as sites:
        until(lambda: len(pids(tmp_path / "runs")) >= 3)
        until(lambda: sites.healths()[0].state is SiteState.STOPPED)
        (found,) = sites.healths()

    assert found.text == "it has ended with status 2: error: no engine"
    assert "site a: error: no engine" in lines
    pauses = [line.rpartition(" in ")[2] for line in lines if "started again" in line]
    assert pauses[:3] == ["0.01 s", "0.02 s", "0.04 s"]


def test_a_command_that_is_not_there_is_a_reason_too(tmp_path: Path) -> None:
    with SiteProcesses(lambda _: ["/nowhere/steward"], {"a": tmp_path / "s"}) as sites:
        until(lambda: "cannot be started" in sites.healths()[0].text)


def test_a_site_that_somebody_else_runs_is_not_started(tmp_path: Path) -> None:
    known = {"unready": [], "unreachable": [], "turns": 1, "t_s": 1.0, "url": "", "faults": 0}

    with (
        listening(tmp_path / "s", 200, known),
        SiteProcesses(lambda _: python(LIVES, tmp_path / "runs"), {"a": tmp_path / "s"}) as sites,
    ):
        until(lambda: sites.healths()[0].is_fine)

        assert pids(tmp_path / "runs") == []


def test_sites_end_when_whoever_started_them_is_killed(tmp_path: Path) -> None:
    keeps = f"""
import sys, time
from pathlib import Path
from steward.clients.site_processes import SiteProcesses
command = [sys.executable, "-c", {STUBBORN!r}, {str(tmp_path / "runs")!r}]
with SiteProcesses(lambda _: command, {{"a": Path({str(tmp_path / "s")!r})}}):
    time.sleep(1000)
"""
    keeper = subprocess.Popen(python(keeps))
    until(lambda: pids(tmp_path / "runs"))

    keeper.kill()
    keeper.wait()

    until(lambda: not lives(pids(tmp_path / "runs")[0]))


def test_the_command_of_a_site_names_its_file_and_the_main_folder() -> None:
    command = command_of("a", config=Path("c.toml"), folder=Path("data"))

    assert command[1:] == (
        *("-m", "steward", "up", "--site", "a", "--config", "c.toml"),
        *("--data", "data", "--no-browser", "--until-eof"),
    )
    assert "--config" not in command_of("a", config=None, folder=Path("data"))
