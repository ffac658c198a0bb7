"""What README and tutorial tell people to type works, word for word."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
ANY_FENCE = re.compile(r"^\s*```[a-z]*\n(.*?)^\s*```", re.MULTILINE | re.DOTALL)
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


PROSE = sorted(
    str(each.relative_to(ROOT))
    for each in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
    if "reference" not in each.parts
)


@pytest.mark.parametrize("file", PROSE)
def test_every_command_and_option_in_code_of_the_docs_exists(file: str) -> None:
    from typer.main import get_command

    from steward.cli.app import app

    for line in code_lines(file):
        command = get_command(app)
        for word in shlex.split(line, comments=True)[1:]:
            if word == "--":  # what comes then is for another program
                break
            inner = getattr(command, "commands", {})
            if inner and not word.startswith("-"):
                assert word in inner, f"{line}: {word}"
                command = inner[word]
            elif word.startswith("--"):
                options = {name for each in command.params for name in each.opts}
                assert word.partition("=")[0] in {*options, "--help"}, f"{line}: {word}"


def test_every_request_in_the_docs_carries_a_token() -> None:
    for file in PROSE:
        for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
            if line.startswith("curl ") and "//127.0.0.1:8788/" not in line:  # wants no key
                assert "$TOKEN" in line or "/healthz" in line, f"{file}: {line}"


def code_lines(file: str) -> list[str]:
    text = (ROOT / file).read_text(encoding="utf-8")
    blocks_ = ANY_FENCE.findall(text)
    lines = [line.strip() for block in blocks_ for line in block.splitlines()]
    lines = [re.sub(r"^\w+=\$\((.*)\)$", r"\1", line) for line in lines]
    lines += [found.replace("\n", " ") for found in re.findall(r"`(steward [^`]+)`", text)]
    return [
        re.split(r"[|\[…]|  {2,}", line)[0]
        for line in lines
        if re.match(r"steward (?!can|is|knows|runs)[a-z]", line)
    ]


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


def test_every_line_of_a_batch_script_is_in_the_page_about_jobs() -> None:
    from steward.clients.job_directives import FLAGS, IGNORED, NAMES

    text = (ROOT / "docs/jobs/README.md").read_text(encoding="utf-8")
    told = {*re.findall(r"`([a-z-]+)`", text)}

    assert {name for name in (*NAMES, *FLAGS, *IGNORED) if len(name) > 1} <= told


@pytest.mark.real
def test_the_first_job_of_the_page_about_jobs_runs(tmp_path: Path) -> None:
    up, rest = blocks("docs/jobs/README.md")[:2]
    script = f"{up.strip()} --no-browser --port 0 >up.log 2>&1 & up=$!\n"
    script += "until steward jobs list 2>/dev/null; do kill -0 $up || exit 9; sleep 0.5; done\n"

    done = run(f"{script}set -e\ntrap 'kill $up' EXIT\n{rest}", tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "up.log").read_text()
    assert "job 1 (hello)" in done.stdout
    assert (tmp_path / "hello-1.log").read_text() == "job 1, attempt 1\n"
