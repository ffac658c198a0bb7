"""`steward rules new`: a folder with a rule that passes its own test, to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note

__all__ = ["new"]

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The folder to make, such as rules/mine/disk-full.")
]
FromLog = Annotated[
    Path | None,
    typer.Option("--from-log", metavar="FILE", help="A log that has what the rule should find."),
]
Line = Annotated[
    int | None, typer.Option("--line", metavar="N", min=1, help="The line of that log, from 1.")
]
Id = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="The rule's id; made from NAME without it.")
]


def new(
    name: Name,
    *,
    from_log: FromLog = None,
    line: Line = None,
    rule_id: Id = None,
    as_json: Json = False,
) -> None:
    """Make a folder with a rule and examples that pass its test.

    These are rule.yaml, test.log and test-fp.log; `steward rules test` is the test. With --from-log
    and --line, the pattern is that line with its numbers and names left open.
    """
    from steward.inspection.draft import ExampleLog, draft

    sample = ExampleLog(log=from_log, line=line)
    made = draft(Path(name), sample, rule_id=rule_id)
    if as_json:
        print_json(made)
        return
    print_lines([f"{made.folder}: rule {made.rule}", *(f"  {file}" for file in made.files)])
    print_note(
        f"next: edit rule.yaml, then `steward rules test {made.folder}`; "
        f"`steward rules explain {made.folder} --on LOG` says why it does not fire"
    )
