"""Manual pages and completion say what the command line says, and are valid."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from steward.cli.app import app

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "make_manual.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("share")
    command = [sys.executable, str(SCRIPT), "--folder", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    return made


def test_each_command_has_a_page_and_each_option_its_line(folder: Path) -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]

    pages = {file.stem for file in (folder / "man/man1").glob("*.1")}

    assert pages == {"steward", *(f"steward-{name}" for name in commands)}
    jobs = (folder / "man/man1/steward-jobs.1").read_text(encoding="utf-8")
    assert ".SS steward jobs submit" in jobs
    assert ".B \\-\\-gpus" in jobs


def test_pages_that_are_out_of_date_are_named(folder: Path) -> None:
    page = folder / "man/man1/steward-up.1"
    whole = page.read_text(encoding="utf-8")
    page.write_text("old", encoding="utf-8")
    command = [sys.executable, str(SCRIPT), "--check", "--folder", str(folder)]

    done = subprocess.run(command, check=False, capture_output=True, text=True)
    page.write_text(whole, encoding="utf-8")

    assert done.returncode == 1
    assert done.stdout == "man/man1/steward-up.1: out of date, run `make docs`\n"


def test_bash_completes_commands(folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "steward"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m steward "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = (
        f'source "{folder}/completions/steward"; COMP_WORDS=(steward no); COMP_CWORD=1; '
        f'_steward_completion "{program}"; echo "${{COMPREPLY[@]}}"'
    )

    done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True)

    assert done.stdout.split() == ["notify"]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_complain_about(folder: Path) -> None:
    pages = sorted((folder / "man/man1").glob("*.1"))
    command = ["groff", "-man", "-Tutf8", "-z", "-wmac", *map(str, pages)]

    done = subprocess.run(command, check=True, capture_output=True, text=True)

    assert done.stderr == ""
