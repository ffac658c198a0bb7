"""Several engines at once: `up` runs a steward for each, and commands take `--site`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from factories import decision
from fake_slurm import FakeSlurm
from patience import LONG_S, until
from steward.clients.site_health import ask_health
from steward.model.site import SiteHealth, SiteState
from steward.store.journal import open_journal
from told import steward

TWO = """\
[loop]
every_s = 0.3
[observe]
collectors = ["slurm"]
timeout_s = 1.0
[learn]
miners = []
estimators = []
[jobs]
enabled = false
[plugs.slurm]
every_s = 0.3
timeout_s = 5.0
[sites.a.plugs.slurm]
folder = "{folder}/slurm-a"
[sites.b.plugs.slurm]
folder = "{folder}/slurm-b"
"""
HANGS = "exec sleep 1000"


@pytest.fixture
def slurms(tmp_path: Path) -> dict[str, FakeSlurm]:
    found = {}
    for name in ("a", "b"):
        (tmp_path / f"slurm-{name}").mkdir()
        found[name] = FakeSlurm(tmp_path / f"slurm-{name}")
    return found


@pytest.fixture
def config(tmp_path: Path, slurms: dict[str, FakeSlurm]) -> Path:
    assert set(slurms) == {"a", "b"}
    file = tmp_path / "steward.toml"
    file.write_text(TWO.format(folder=tmp_path), encoding="utf-8")
    return file


@contextmanager
def running(config: Path, data: Path) -> Iterator[subprocess.Popen[str]]:
    options = ("--data", data, "--port", "0", "--no-browser", "--json")
    program = subprocess.Popen(
        [sys.executable, "-m", "steward", "up", "--config", config, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "HOME": "/nonexistent"},
        text=True,
    )
    try:
        yield program
    finally:
        program.kill()
        program.communicate()


def site(data: Path, name: str) -> SiteHealth:
    return ask_health(name, data / "sites" / name / "steward.sock")


@pytest.mark.timeout(4 * LONG_S)
def test_a_slurm_that_hangs_is_one_sites_trouble_and_delays_no_other(
    tmp_path: Path, config: Path, slurms: dict[str, FakeSlurm]
) -> None:
    data = tmp_path / "data"
    slurms["a"].command("squeue", HANGS)
    with running(config, data) as program:
        until(lambda: site(data, "a").state is SiteState.UNREACHABLE, why="a, which hangs")
        turned = until(lambda: site(data, "b").is_fine and site(data, "b"), why="b").turns
        until(lambda: site(data, "b").turns > turned + 5, why="turns of b while a hangs")
        shown = steward("status", "--config", config, "--data", data, "--json")
        checked = steward("doctor", "--config", config, "--data", data, "--json")

        slurms["a"].squeue_prints(slurms["a"].recorded("squeue.json"))
        until(lambda: site(data, "a").is_fine, why="a, which answers again")
        program.send_signal(signal.SIGTERM)
        _, err = program.communicate(timeout=LONG_S)

    states = {each["name"]: each["state"] for each in shown.json}
    assert shown.code == 1  # the main site finds no Slurm, and a does not answer
    assert (states["a"], states["b"]) == ("unreachable", "fine")
    found = {each["name"]: each for each in checked.json if each["kind"] == "site"}
    assert (found["a"]["status"], found["b"]["status"]) == ("limited", "ok")
    assert program.returncode == 0, err
    assert [site(data, name).state for name in ("a", "b")] == [SiteState.STOPPED] * 2
    assert "site b: stopped after" in err


def test_commands_read_the_store_of_the_site_that_they_are_asked_for(
    tmp_path: Path, config: Path
) -> None:
    data = tmp_path / "data"
    for name in ("a", "b"):
        folder = data / "sites" / name
        folder.mkdir(parents=True)
        with closing(open_journal(f"sqlite:///{folder}/journal.sqlite3")) as journal:
            journal.append([decision(f"d-{name}")])
    given = ("--config", config, "--data", data, "--json")

    found = [
        [each["id"] for each in steward("decisions", "list", "--site", name, *given).json]
        for name in ("a", "b")
    ]
    by_variable = steward("decisions", "list", *given, STEWARD_SITE="b").json
    main = steward("decisions", "list", *given)

    assert found == [["d-a"], ["d-b"]]
    assert [each["id"] for each in by_variable] == ["d-b"]
    assert main.code == 2
    assert main.json["error"]["where"] == str(data)


def test_an_unknown_site_is_refused_before_anything_is_opened(config: Path) -> None:
    answer = steward("findings", "list", "--config", config, "--site", "c")

    assert answer.code == 2
    assert "--site: there is no site called 'c'; known: a, b" in answer.err


def test_the_status_of_what_does_not_run_is_stopped(tmp_path: Path, config: Path) -> None:
    shown = steward("status", "--config", config, "--data", tmp_path / "data")
    only = steward("status", "--config", config, "--data", tmp_path, "--site", "a", "--json")

    assert shown.code == 1
    assert [line.split()[:2] for line in shown.out.splitlines()[1:]] == [
        ["this-machine", "stopped"],
        ["a", "stopped"],
        ["b", "stopped"],
    ]
    assert [each["name"] for each in only.json] == ["a"]


def test_a_wrong_plug_of_a_site_stops_all_before_anything_is_made(
    tmp_path: Path, config: Path
) -> None:
    config.write_text('[sites.a.observe]\ncollectors = ["slrum"]\n', encoding="utf-8")

    up = steward("up", "--config", config, "--data", tmp_path / "data")
    whole = steward("config", "check", "--config", config)
    check = steward("doctor", "--config", config, "--data", tmp_path / "data", "--json")

    assert (up.code, whole.code) == (2, 2)
    assert "no collector called 'slrum'" in whole.err
    assert f"{config}:2:15: there is no collector called 'slrum'" in up.err
    assert not (tmp_path / "data").exists()
    (found,) = [each for each in check.json if each["kind"] == "site"]
    assert found["status"] == "missing"
    assert "slrum" in found["reason"]


def test_a_steward_that_ends_with_its_input_ends_when_that_does(
    tmp_path: Path, config: Path
) -> None:
    options = ("--data", tmp_path / "data", "--no-browser", "--until-eof", "--json")
    program = subprocess.Popen(
        [sys.executable, "-m", "steward", "up", "--site", "b", "--config", config, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "HOME": "/nonexistent"},
        text=True,
    )
    assert program.stdout is not None
    said = json.loads(program.stdout.readline())

    _, err = program.communicate(timeout=LONG_S)  # which closes its input

    assert said["data"] == str(tmp_path / "data" / "sites" / "b")
    assert program.returncode == 0, err
    assert "stopped after" in err
