"""Writes share/: manual pages and shell completion, from the command line itself.

    python scripts/make_manual.py            write the files
    python scripts/make_manual.py --check    exit 1 and name the files that are out of date

The wheel installs them below its prefix: `man steward-jobs` and completion work in an environment
that is active, and for everybody where steward was installed for the system.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from typer._completion_shared import get_completion_script

from steward.cli.app import app

FOLDER = Path(__file__).parent.parent / "share"
COMPLETIONS = {
    "completions/steward": "bash",
    "completions/_steward": "zsh",
    "completions/steward.fish": "fish",
}
FILES = (
    ("./steward.toml, $STEWARD_CONFIG, ~/.config/steward/steward.toml", "the configuration"),
    ("~/.local/share/steward", "the store: journal, telemetry, tokens"),
)
EXITS = (("0", "fine"), ("1", "something was found, or failed"), ("2", "wrong use"))

Click = Any  # typer has no public type for what it makes


def main(args: Sequence[str]) -> int:
    """Write the files, or say which are stale."""
    parser = argparse.ArgumentParser(description="Write share/ from the command line.")
    parser.add_argument("--check", action="store_true", help="only say which files are stale")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files are")
    given = parser.parse_args(args)
    stale = []
    for name, text in files().items():
        file = given.folder / name
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not given.check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    said = "out of date, run `make docs`" if given.check else "written"
    print("\n".join(f"{name}: {said}" for name in stale) or "share is up to date")
    return 1 if stale and given.check else 0


def files() -> dict[str, str]:
    """Return every file by its name: a page for steward, one for each of its commands."""
    root = typer.main.get_command(app)
    commands: Mapping[str, Click] = root.commands  # type: ignore[attr-defined]  # it is a group
    made = {"man/man1/steward.1": _page("steward", root, inside=False)}
    for name, command in commands.items():
        made[f"man/man1/steward-{name}.1"] = _page(f"steward {name}", command, inside=True)
    for name, shell in COMPLETIONS.items():
        made[name] = (
            get_completion_script(
                prog_name="steward", complete_var="_STEWARD_COMPLETE", shell=shell
            ).rstrip()
            + "\n"
        )
    return made


def _page(path: str, command: Click, *, inside: bool) -> str:
    title = path.replace(" ", "-")
    first, _, rest = inspect.cleandoc(command.help or "").partition("\n")
    lines = [f'.TH {title.upper()} 1 "" "steward" "User Commands"', ".SH NAME"]
    lines += [f"{title} \\- {_text(first.rstrip('.'))}", ".SH SYNOPSIS", *_usage(path, command)]
    if rest.strip():
        lines += [".SH DESCRIPTION", *_paragraphs(rest)]
    lines += list(_options(command))
    commands: Mapping[str, Click] = getattr(command, "commands", {})
    if commands:
        lines.append(".SH COMMANDS")
    for name, each in commands.items():
        lines += list(_inside(f"{path} {name}", each) if inside else _named(name, each))
    lines += [".SH EXIT STATUS", *_table(EXITS), ".SH FILES", *_table(FILES)]
    lines += [".SH SEE ALSO", "The pages under docs/, and `steward COMMAND --help`."]
    return "\n".join(lines) + "\n"


def _named(name: str, command: Click) -> Iterator[str]:
    first = inspect.cleandoc(command.help or "").partition("\n")[0]
    yield from _table(((f"steward-{name}(1)", first),))


def _inside(path: str, command: Click) -> Iterator[str]:
    """Describe a command of a group, and those below it."""
    yield f".SS {_text(path)}"
    yield from _usage(path, command)
    yield from _paragraphs(inspect.cleandoc(command.help or ""))
    yield from _options(command, heading="")
    commands: Mapping[str, Click] = getattr(command, "commands", {})
    for name, each in commands.items():
        yield from _inside(f"{path} {name}", each)


def _usage(path: str, command: Click) -> Iterator[str]:
    arguments = [
        each.metavar or each.name.upper()
        for each in command.params
        if each.param_type_name == "argument"
    ]
    more = ["COMMAND"] if getattr(command, "commands", {}) else []
    yield f".B {_text(path)}"
    yield _text(" ".join([*arguments, "[OPTIONS]", *more]))


def _options(command: Click, heading: str = ".SH OPTIONS") -> Iterator[str]:
    options = [each for each in command.params if each.param_type_name == "option"]
    if options and heading:
        yield heading
    for each in options:
        value = "" if each.is_flag else f" {each.metavar or each.name.upper()}"
        yield from _table(((f"{', '.join(each.opts)}{value}", each.help or ""),))


def _table(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    for name, meaning in rows:
        yield from (".TP", f".B {_text(name)}", _text(" ".join(meaning.split())))


def _paragraphs(text: str) -> Iterator[str]:
    for part in text.strip().split("\n\n"):
        yield from (".PP", _text(" ".join(part.split())))


def _text(text: str) -> str:
    """Escape what roff would take for its own."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
