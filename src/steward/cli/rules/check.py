"""`steward rules check`: report faults of rule files, and advice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, waiting

if TYPE_CHECKING:
    from steward.inspection.checks import Checked
    from steward.store.rules import RuleFault

__all__ = ["as_record", "check"]

SHOWN = 200  # of one kind; --json has all

Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Rule files, or folders that have some.")
]
Lenient = Annotated[
    bool,
    typer.Option("--lenient", help="Take what other engines pass over in silence as a note."),
]


def check(paths: Paths, *, lenient: Lenient = False, as_json: Json = False) -> None:
    """Report all faults of rule files, with advice.

    Every fault has file, line and column. Exits 1 when a rule cannot be used. Advice never changes
    the exit status.
    """
    from steward.inspection.checks import check_rules

    with waiting("checking rules"):
        checked = check_rules(paths, lenient=lenient)
    if as_json:
        print_json(
            {
                "rules": len(checked.rules),
                "faults": [as_record(each) for each in checked.faults],
                "notes": [as_record(each) for each in checked.notes],
                "advice": [as_record(each) for each in checked.advice],
            }
        )
    else:
        print_lines(_lines(checked))
    raise typer.Exit(1 if checked.faults else 0)


def as_record(fault: RuleFault) -> dict[str, object]:
    """Return a fault as JSON has it."""
    place = fault.place
    return {
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "rule": fault.rule,
        "problem": fault.problem,
        "hint": fault.hint,
    }


def _lines(checked: Checked) -> list[str]:
    lines = _listed("fault", checked.faults)
    lines += _listed("note", checked.notes) + _listed("advice", checked.advice)
    good = len(checked.rules)
    summary = f"{good} {'rule' if good == 1 else 'rules'} can be used"
    return [
        *lines,
        f"{summary}; {len(checked.faults)} faults, {len(checked.advice)} pieces of advice",
    ]


def _listed(kind: str, faults: Sequence[RuleFault]) -> list[str]:
    lines = []
    for each in faults[:SHOWN]:
        rule = f" {each.rule}:" if each.rule else ""
        lines.append(f"{each.place}: {kind}:{rule} {each.problem}")
        if each.hint:
            lines.append(f"    {each.hint}")
    if len(faults) > SHOWN:
        lines.append(f"and {len(faults) - SHOWN} more of kind {kind}: --json has all of them")
    return lines
