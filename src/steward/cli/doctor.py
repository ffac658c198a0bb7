"""`steward doctor`: what works here, and what is missing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from steward.cli.options import Config, Data, Json, read_draft, with_folder
from steward.cli.output import print_json, print_lines, print_note, waiting
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.config import Draft
    from steward.config.doctor import Check

__all__ = ["doctor"]

SHOWN = ("name", "kind", "status", "reason", "hint")
WIDTH = 96
INDENT = " " * 9


def doctor(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """Say what can be observed and acted on here, and what is missing.

    Exits 1 when something is missing without which steward cannot run.
    """
    from steward.config.doctor import examine

    with waiting("looking at this machine"):
        checks = examine(_draft(config, data))
    rows = [[getattr(check, name) for name in SHOWN] for check in checks]
    if as_json:
        print_json([dict(zip(SHOWN, row, strict=True)) for row in rows])
    else:
        print_lines(line for check in checks for line in _lines(check))
    blocking = [check.name for check in checks if check.blocks]
    if blocking and not as_json:
        print_note(f"steward cannot run yet: {', '.join(blocking)}")
    raise typer.Exit(1 if blocking else 0)


def _lines(check: Check) -> Iterator[str]:
    """Return one check as lines of at most a terminal's width."""
    yield f"{check.status:8} {check.name} ({check.kind})"
    for label, text in (("", check.reason), ("hint: ", check.hint)):
        if text:
            yield from textwrap.wrap(
                label + text, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT
            )


def _draft(config: Path | None, data: Path | None) -> Draft:
    """Read the settings; a file that cannot be read at all is one more thing that is missing."""
    from steward.config import Draft, Mistake, Settings

    try:
        return read_draft(config, data)
    except StewardError as fault:
        mistake = Mistake(key="", where=fault.where, problem=fault.problem, hint=fault.hint)
        draft = Draft(settings=Settings(), file=config, mistakes=(mistake,))
        return with_folder(draft, data)
