"""What README and tutorial tell people to type works, word for word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(file: str) -> list[str]:
    return BLOCK.findall((ROOT / file).read_text(encoding="utf-8"))


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    bin_ = folder / "bin"
    bin_.mkdir(exist_ok=True)
    steward = bin_ / "steward"
    steward.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m steward "$@"\n')
    steward.chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "HOME": str(folder)}
    command = ["bash", "-c", script]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_every_command_of_readme_and_tutorial_exists() -> None:
    texts = [*blocks("docs/tutorial.md"), *FENCE.findall((ROOT / "README.md").read_text())]
    commands = {
        tuple(line.split()[1:3])
        for text in texts
        for line in text.splitlines()
        if line.startswith("steward ")
    }

    assert len(commands) >= 8
    from typer.main import get_command

    from steward.cli.app import app

    known = get_command(app)
    for first, *second in commands:
        group = getattr(known, "commands", {})
        assert first in group, first
        inner = getattr(group[first], "commands", None)
        assert inner is None or second[0] in inner, (first, second)


@pytest.mark.real
@pytest.mark.timeout(1200)
def test_the_commands_of_the_tutorial_run_in_their_order(tmp_path: Path) -> None:
    """A finding makes a command exit with 1: that is an answer. 2 is wrong use."""
    for script in blocks("docs/tutorial.md"):
        for part in re.split(r"\n(?=steward )", script):
            done = run(part, tmp_path)

            assert done.returncode in (0, 1), (
                f"{part}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            )
            assert "Traceback" not in done.stderr, part
    assert (tmp_path / "comparison").is_dir()


@pytest.mark.real
@pytest.mark.timeout(600)
def test_the_fault_of_the_tutorial_is_blamed_on_its_own_host(tmp_path: Path) -> None:
    import json

    script = blocks("docs/tutorial.md")[1]
    found = json.loads(run(script, tmp_path).stdout)
    findings = found["findings"] if isinstance(found, dict) else found

    assert {each["node"] for each in findings} == {"gpu02"}
