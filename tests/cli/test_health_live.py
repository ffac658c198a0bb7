"""`steward health watch` and `diagnose`, as people type them."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steward.cli.app import app

LOST = "{stamp} gpu-1 kernel: NVRM: Xid (PCI:0000:06:00): {code}, pid=7, x\n"


def run(*arguments: str, code: int = 0, said: str = "") -> str:
    found = CliRunner().invoke(app, ["health", *arguments])
    assert found.exit_code == code, found.output
    assert said in found.output
    return found.stdout


def stamp(ago_s: float = 0.0) -> str:
    return datetime.fromtimestamp(time.time() - ago_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "mine.log"
    now, old = stamp(), stamp(3 * 86_400.0)
    lines = [LOST.format(stamp=now, code=code) for code in (79, 45, 79)]
    file.write_text("".join([*lines, LOST.format(stamp=old, code=48)]))
    return file


def test_watch_prints_what_happens_once_with_its_remedy(log: Path) -> None:
    out = run("watch", str(log), "--from-start", "--for", "0.2", code=1)

    (line,) = out.splitlines()
    assert "FATAL  gpu-1 0000:06:00: Xid 79" in line
    assert "-> reboot-node" in line


def test_watch_gives_json_lines_also_of_what_follows(log: Path) -> None:
    out = run("watch", str(log), "--from-start", "--for", "0.2", "--all", "--json", code=1)

    records = [json.loads(each) for each in out.splitlines()]
    assert [(each["code"], each["primary"]) for each in records] == [(79, True), (45, False)]


def test_watch_begins_at_the_end_and_exits_0_where_nothing_happens(log: Path) -> None:
    assert run("watch", str(log), "--for", "0.1") == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("watch", "/no/such.log"), "there is no such file"),
        (("watch", "/tmp"), "a folder cannot be followed"),
        (("watch", "x.log", "--journal"), "choose one of them"),
        (("diagnose", "--host", "--record"), "proves nothing about its GPUs"),
        (("diagnose", "--node", "n[1-9]"), "is no name of a node"),
    ],
)
def test_wrong_use_is_said(arguments: tuple[str, ...], said: str) -> None:
    run(*arguments, code=2, said=said)
