"""The edge of the command line: mistakes become sentences, and exit codes mean something."""

from __future__ import annotations

import errno
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from steward import __version__
from steward.cli.app import Edge
from steward.cli.output import print_json
from steward.errors import StewardError
from told import steward, told

COMMAND = [sys.executable, "-m", "steward"]
HEAVY = ("polars", "nicegui", "sqlalchemy", "numpy", "fastapi", "pydantic", "pynvml", "torch")


def run(
    *args: object, stdout: Any = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, args)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, "HOME": "/nonexistent", **environment},
        text=True,
        timeout=120,
        check=False,
    )


# -- help --------------------------------------------------------------------------------------


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nsys.argv = ['steward', '--help']\nfrom steward.cli import main\n"
        f"try:\n    main()\nfinally:\n    print([m for m in {HEAVY} if m in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )

    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "command",
    [
        "up",
        "doctor",
        "decisions list",
        "decisions explain",
        "decisions approve",
        "decisions reject",
        "decisions undo",
        "findings list",
        "report",
        "lab replay",
        "lab compare",
        "lab sweep",
        "lab explain",
        "lab generate",
        "lab policies",
        "serve simulate",
        "serve policies",
        "config check",
        "config show",
        "token new",
        "token list",
        "token revoke",
        "version",
    ],
)
def test_every_command_has_help_and_speaks_json(command: str) -> None:
    answer = steward(*command.split(), "--help")

    assert answer.code == 0
    assert "--json" in answer.out
    assert len(answer.out.splitlines()[2]) > 10


@pytest.mark.parametrize(
    "group", ["", "decisions", "findings", "observe", "rules", "lab", "serve", "config", "token"]
)
def test_no_help_text_in_a_list_of_commands_is_cut_short(group: str) -> None:
    answer = steward(*group.split(), "--help")

    assert answer.code == 0
    assert "..." not in answer.out.partition("Commands")[2]


def test_without_a_command_there_is_help() -> None:
    answer = steward()

    assert answer.code == 0
    assert "Commands:" in answer.out


def test_the_version_is_printed() -> None:
    assert steward("version").out.startswith(f"steward {__version__} ")
    assert steward("--version").out == f"steward {__version__}\n"
    assert steward("version", "--json").json["version"] == __version__


# -- wrong use ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "says", "hint"),
    [
        (("doctr",), "no such command 'doctr'. Did you mean 'doctor'?", "`steward --help`"),
        (("doctor", "--jsn"), "--jsn", "`steward doctor --help`"),
        (("decisions",), "missing command", "`steward decisions --help`"),
        (("decisions", "explain"), "missing argument 'ID'", "`steward decisions explain --help`"),
        (("decisions", "list", "--limit", "x"), "'--limit' should be a valid integer", "--help"),
        (
            ("decisions", "list", "--limit", "0"),
            "'--limit' should be greater than or equal to 1",
            "--help",
        ),
        (("up", "--port", "70000"), "'--port' should be less than or equal to 65535", "--help"),
        (("up", "--for", "-1"), "'--for' should be greater than or equal to 0", "--help"),
    ],
)
def test_wrong_use_is_a_sentence_a_hint_and_exit_code_2(
    args: Sequence[str], says: str, hint: str
) -> None:
    answer = steward(*args)

    assert (answer.code, answer.out) == (2, "")
    error, help_ = answer.err.splitlines()
    assert error.startswith("error: ")
    assert says in error
    assert help_.startswith("hint:  ")
    assert hint in help_


def test_wrong_use_is_json_for_programs() -> None:
    answer = steward("doctor", "--nope", "--json")

    assert answer.code == 2
    assert "--nope" in answer.json["error"]["problem"]


# -- the edge ----------------------------------------------------------------------------------

tiny = typer.Typer(cls=Edge)


@tiny.command()
def fail(kind: str, *, as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
    faults: dict[str, BaseException] = {
        "mistake": StewardError("it is wrong", where="here", hint="mend it"),
        "full": OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/x"),
        "refused": PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/data/y"),
        "odd": OSError("odd"),
        "interrupt": KeyboardInterrupt(),
        "abort": typer.Abort(),
        "found": typer.Exit(1),
        "bug": ZeroDivisionError("a bug"),
    }
    if kind in faults:
        raise faults[kind]
    print_json({"as_json": as_json})


@tiny.command()
def other() -> None:
    """Keep the first one a command of its own."""


@pytest.mark.parametrize(
    ("kind", "code", "err"),
    [
        ("mistake", 2, "error: here: it is wrong\nhint:  mend it\n"),
        ("full", 2, "error: /data/x: no space left on device\nhint:  make room on the disk, or "),
        ("refused", 2, "error: /data/y: permission denied\nhint:  check the permissions, or "),
        ("odd", 2, "error: odd\nhint:  "),
        ("interrupt", 130, ""),
        ("abort", 1, ""),
        ("found", 1, ""),
        ("nothing", 0, ""),
    ],
)
def test_faults_end_as_sentences_and_codes(kind: str, code: int, err: str) -> None:
    result = CliRunner().invoke(tiny, ["fail", kind])

    assert result.exit_code == code
    assert result.stderr.startswith(err)
    assert bool(result.stderr) is bool(err)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("mistake", {"problem": "it is wrong", "where": "here", "hint": "mend it"}),
        ("odd", {"problem": "odd", "where": "", "hint": "look at the system's log for more"}),
    ],
)
def test_faults_are_json_for_programs(kind: str, error: dict[str, str]) -> None:
    result = CliRunner().invoke(tiny, ["fail", kind, "--json"])

    assert result.exit_code == 2
    assert result.stderr == ""
    assert CliRunner().invoke(tiny, ["fail", "nothing", "--json"]).exit_code == 0
    assert result.stdout.replace("\n", "").replace("  ", "").startswith('{"error": {"problem"')
    assert all(value in result.stdout for value in error.values())


def test_a_bug_of_ours_is_not_hidden() -> None:
    result = CliRunner().invoke(tiny, ["fail", "bug"])

    assert isinstance(result.exception, ZeroDivisionError)


# -- pipes and terminals -----------------------------------------------------------------------


def test_a_full_disk_behind_stdout_is_said() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = run("version", stdout=full)

    assert done.returncode == 2
    assert "no space left on device" in done.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", encoding="utf-8") as gone:
        done = run("config", "show", stdout=gone)

    assert done.returncode == 1
    assert done.stderr == ""


def test_into_a_pipe_goes_plain_text(tmp_path: Path) -> None:
    done = run("decisions", "list", "--data", told(tmp_path), COLUMNS="40")

    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "Lend 1 GPU of job j1 to job j2" in done.stdout


def test_on_a_terminal_there_is_a_table(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    done = run("decisions", "list", "--data", told(tmp_path), stdout=theirs, TERM="xterm")
    os.close(theirs)
    text = os.read(ours, 65536).decode()
    os.close(ours)

    assert done.returncode == 0
    assert "\x1b[" in text
    assert "──" in text
    assert "d-waiting" in re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_a_terminal_without_unicode_is_no_error(tmp_path: Path) -> None:
    done = run("decisions", "explain", "d-done", "--data", told(tmp_path), PYTHONIOENCODING="ascii")

    assert done.returncode == 0
    assert "60 samples" in done.stdout


def test_completion_can_be_shown_for_a_shell() -> None:
    done = run("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")

    assert done.returncode == 0
    assert "_STEWARD_COMPLETE" in done.stdout


@pytest.mark.parametrize("group", ["", "observe", "rules", "findings", "decisions", "lab"])
def test_lists_of_commands_show_whole_sentences(group: str) -> None:
    answer = steward(*group.split(), "--help")

    commands = answer.out.partition("Commands:")[2].splitlines()
    assert commands
    assert [line for line in commands if line.endswith("...")] == []
