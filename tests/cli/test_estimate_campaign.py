"""`steward estimate campaign` and `steward estimate app` as people type them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from campaign_engines import ComputedEngine
from generated_runs import CAMPAIGN
from steward.cli.estimate.campaign_engine import job_look
from steward.learn.estimators.applications.campaign_log import CampaignLog
from steward.learn.estimators.applications.runner import CampaignRunner
from told import Answer, steward

FILE = """
name: stencil
command: ./stencil {n} {steps} {mode}
parameters:
  n: {full: [256, 384], small: [16, 32, 64]}
  steps: {full: 1000, small: [50, 100, 200]}
  mode: [fast, slow]
work: [n**2 * steps]
budget: {runs: 12, full_runs: 2}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a campaign file and the data of one that has run."""
    made = tmp_path_factory.mktemp("campaign")
    (made / "stencil.yaml").write_text(FILE)
    log = CampaignLog(made / "data" / "campaigns" / "stencil")
    with log.locked():
        runner = CampaignRunner(CAMPAIGN, log, ComputedEngine())
        for _ in range(8):
            runner.step()
    return made


def asked(folder: Path, *words: str) -> Answer:
    return steward("estimate", *words, "--data", folder / "data")


def test_a_dry_run_prints_commands_with_reasons_and_runs_none(tmp_path: Path, folder: Path) -> None:
    file = str(folder / "stencil.yaml")
    said = steward("estimate", "campaign", file, "--dry-run", "--json", "--data", tmp_path)

    assert said.code == 0, said.err
    assert len(said.json) == 10
    assert said.json[0]["full"] is False
    assert "per cost" in said.json[0]["because"]
    assert not (tmp_path / "campaigns").exists()
    text = steward("estimate", "campaign", file, "--dry-run", "--data", tmp_path)
    assert "./stencil" in text.out
    assert "costs are relative" in text.err


def test_the_status_has_each_run_and_what_was_learnt(folder: Path) -> None:
    said = asked(folder, "campaign", str(folder / "stencil.yaml"), "--status", "--json")

    assert said.code == 0, said.err
    assert said.json["finished"] >= 4
    assert {"run", "job", "seconds", "state", "because"} <= set(said.json["runs"][0])
    assert "runs, " in said.json["basis"]
    text = asked(folder, "campaign", str(folder / "stencil.yaml"), "--status")
    assert "runs finished, 0 failed" in text.err


def test_a_configuration_is_estimated_with_limits_and_reason(folder: Path) -> None:
    words = ("app", "stencil", "--set", "n=256", "--set", "steps=1000", "--set", "mode=slow")
    said = asked(folder, *words, "--json")

    assert said.code == 0, said.err
    time = said.json[0]
    assert time["quantity"] == "run.time_s"
    assert 0.0 < time["low"] < time["mid"] < time["high"]
    assert "at full scale" in time["basis"]
    assert "run time" in asked(folder, *words).out
    path = str(folder / "data" / "campaigns" / "stencil")
    assert asked(folder, "app", path, *words[2:], "--json").json == said.json


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        (("app", "stensil"), "there is no campaign called 'stensil'", "did you mean 'stencil'?"),
        (("app", "stencil", "--set", "n"), "'n' is no setting", "write --set size=512"),
        (("app", "stencil", "--set", "n=1", "--set", "n=2"), "n is given twice", "once"),
        (("app", "stencil", "--set", "n=1"), "mode: no value", "--set mode=VALUE"),
        (
            ("app", "stencil", "--set", "n=x", "--set", "steps=1", "--set", "mode=fast"),
            "'x' is no number",
            "--set n=384",
        ),
        (("app", "/nowhere"), "nothing was saved", "after three runs"),
        (("campaign", "none.yaml"), "cannot be read", "name a campaign file"),
    ],
)
def test_wrong_input_is_told_with_its_place_and_what_to_do(
    folder: Path, words: tuple[str, ...], problem: str, hint: str
) -> None:
    said = asked(folder, *words)

    assert said.code == 2
    assert problem in said.err
    assert hint in said.err


def test_without_a_steward_the_local_engine_says_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr("steward.cli.jobs.asking.GONE_S", 0.0)
    monkeypatch.setattr("steward.cli.jobs.asking.RETRY_S", 0.0)
    file = str(folder / "stencil.yaml")
    words = ("estimate", "campaign", file, "--engine", "local", "--data", tmp_path)
    said = steward(*words)

    assert said.code == 2
    assert "no steward runs here" in said.err
    assert steward(*words[:-3], "mars", "--data", tmp_path).code == 2
    assert "is not a length of time" in steward(*words, "--budget", "soon").err


@pytest.mark.parametrize(
    ("record", "seconds", "finished"),
    [
        ({"attempts": [{"began_s": 10.0, "ended_s": 14.0}]}, 4.0, True),
        ({"attempts": [{"began_s": 10.0, "ended_s": 14.0, "ran_s": 3.5}]}, 3.5, True),
        (
            {"attempts": [{"began_s": 1, "ended_s": 3}, {"began_s": 5, "ended_s": 9}]},
            4.0,
            True,
        ),
        (
            {
                "attempts": [{"began_s": 1, "ended_s": 3}, {"began_s": 5, "ended_s": 9}],
                "can_save": True,
            },
            6.0,
            True,
        ),
        ({"attempts": [], "state": "cancelled", "exit_code": 1}, None, False),
        ({"attempts": [{"began_s": None, "ended_s": None}]}, None, True),
        (
            {"attempts": [{"began_s": 5, "ended_s": 4}], "state": "failed", "exit_code": 9},
            0.0,
            False,
        ),
    ],
)
def test_the_record_of_a_job_of_any_engine_gives_what_a_run_took(
    record: dict[str, Any], seconds: float | None, *, finished: bool
) -> None:
    look = job_look({"exit_code": 0, "state": "finished", **record})

    assert (look.over, look.seconds, look.finished) == (True, seconds, finished)
    assert bool(look.why) is not finished
    assert not job_look({"exit_code": None, "state": "running"}).over
