"""`steward health`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steward.cli.app import app

XID = (
    "2026-01-01T00:00:{second:02d}Z gpu-1 kernel: NVRM: Xid (PCI:0000:06:00): {code}, pid=7, "
    "name=a, x\n"
)


def run(*arguments: str, code: int = 0) -> str:
    found = CliRunner().invoke(app, ["health", *arguments])
    assert found.exit_code == code, found.output
    return found.stdout


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "kern.log"
    lines = [XID.format(second=s, code=code) for s, code in ((1, 79), (2, 45), (40, 13))]
    file.write_text("".join(lines))
    return file


def test_a_scan_lists_incidents_with_their_causes_and_exits_1(log: Path) -> None:
    answer = json.loads(run("scan", str(log), "--json", code=1))

    found = {each["code"]: each for each in answer["incidents"]}
    assert (found[79]["primary"], found[79]["action"]) == (True, "reboot-node")
    assert (found[45]["primary"], found[45]["cause"]) == (False, found[79]["id"])
    assert (found[13]["node"], found[13]["gpu"]) == ("gpu-1", "0000:06:00")
    assert answer["summary"]["fatal"] == 1


def test_a_scan_for_people_leaves_out_what_follows_unless_asked(log: Path) -> None:
    short, whole = run("scan", str(log), code=1), run("scan", str(log), "--all", code=1)

    assert "Xid 45" not in short
    assert "Xid 45" in whole


def test_a_folder_without_faults_is_fine(tmp_path: Path) -> None:
    (tmp_path / "quiet.log").write_text("all is well\n")

    assert json.loads(run("scan", str(tmp_path), "--json"))["incidents"] == []


def test_wrong_use_is_said(tmp_path: Path) -> None:
    for arguments, said in (
        (("scan", str(tmp_path / "no.log")), "no such file"),
        (("scan", str(tmp_path)), "no file in this folder"),
        (("scan", str(tmp_path), "--gap", "-1"), "not possible"),
        (("explain", "9999"), "nothing known"),
        (("forecast", "--events", str(tmp_path / "no.csv")), "cannot be read"),
        (("forecast", "--events", str(tmp_path), "--horizon", "0"), "not possible"),
    ):
        found = CliRunner().invoke(app, ["health", *arguments])
        assert said in str(found.exception) + found.output, arguments


def test_a_code_is_explained_with_what_other_tools_make_of_it() -> None:
    assert json.loads(run("explain", "63", "--json"))["other_tools"]["gpud"] == "fatal, reboot"
    assert "Azure NHC: fail" in run("explain", "63")
    assert json.loads(run("explain", "23001", "--json"))["remedy"] == "reboot-node"


@pytest.fixture
def failures(tmp_path: Path) -> Path:
    file = tmp_path / "disks.csv"
    rows = ["Timestamp,rack,slot"]
    for i in range(300):
        rack = 0 if i % 3 else i % 10
        day, month = 1 + i % 28, 1 + i // 28 % 12
        rows.append(f"{2020 + i // 150}-{month:02d}-{day:02d}T00:00:00Z,{rack},{i * 7 % 12}")
    file.write_text("\n".join(rows))
    return file


def test_failures_are_forecast_and_scored(failures: Path) -> None:
    scored = json.loads(run("forecast", "--events", str(failures), "--score", "--json"))
    listed = json.loads(run("forecast", "--events", str(failures), "--most", "3", "--json"))

    assert {"auc", "brier", "baseline_auc", "baseline_brier"} <= set(scored)
    assert len(listed["units"]) == 3
    assert listed["units"][0]["unit"].startswith("0/")
    assert "AUC" in run("forecast", "--events", str(failures), "--score")
    assert "chance in 30 days" in run("forecast", "--events", str(failures))
