"""`steward rules suggest`: draft rules from patterns that were learnt, each with its proof."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_note, print_table, print_warnings, waiting
from steward.errors import StewardError

__all__ = ["suggest"]

Patterns = Annotated[
    Path,
    typer.Argument(
        metavar="PATTERNS",
        help="What `steward learn contrast --json` or `steward learn sequences --json` printed.",
    ),
]
TelemetryOption = Annotated[
    list[str] | None,
    typer.Option("--telemetry", metavar="PATH", help="Where they were learnt, if it has moved."),
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="A folder for each rule in it.")]
Most = Annotated[int, typer.Option("--most", min=1, help="Rules, the strongest patterns first.")]


def suggest(
    patterns: Patterns,
    *,
    out: Out,
    telemetry: TelemetryOption = None,
    most: Most = 5,
    as_json: Json = False,
) -> None:
    """Turn learnt patterns into draft rules, each with series that prove it.

    A draft is kept only if it fires on a recorded run with the pattern and stays silent on one
    without. Contrasts become conditions, episodes become sequences; edit what they say of causes.
    """
    from steward.inspection.suggested_rule import patterns_in, suggest_rule

    found = _read(patterns)
    source = found.get("source")
    if not isinstance(source, Mapping):
        problem = "it does not say how its levels were made"
        raise StewardError(problem, where=str(patterns), hint="keep all that --json printed")
    paths = [Path(each) for each in telemetry or source.get("inputs", ())]
    missing = [str(each) for each in paths if not each.exists()]
    if missing or not paths:
        problem = f"the telemetry is not there: {', '.join(missing) or 'none is named'}"
        hint = "name it with --telemetry PATH"
        raise StewardError(problem, where=str(patterns), hint=hint)
    made = []
    with waiting("trying rules"):
        for pattern in patterns_in(found):
            place = out / _folder_name(str(pattern))
            made.append(suggest_rule(pattern, source, paths, place))
            if sum(bool(each.folder) for each in made) == most:
                break
    kept = [each for each in made if each.folder]
    if as_json:
        print_json({"rules": kept, "refused": [each for each in made if each.why_not]})
    else:
        print_table(
            ["folder", "pattern", "fires on", "silent on"],
            [[each.folder, each.pattern, each.fires_on, each.silent_on] for each in kept],
            empty="no pattern makes a rule that passes its own test",
        )
        print_warnings(
            f"no rule of {each.pattern}: {each.why_not}" for each in made if each.why_not
        )
        if kept:
            print_note(f"next: `steward rules test {out}`; then say what each means")
    if not kept:
        raise typer.Exit(1)


def _read(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as fault:
        problem = f"this is no JSON: {fault}"
        raise StewardError(problem, where=str(file), hint="print patterns with --json") from fault
    if not isinstance(found, dict):
        hint = "give what `steward learn contrast --json` printed"
        raise StewardError("this holds no patterns", where=str(file), hint=hint)
    return found


def _folder_name(pattern: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", pattern.lower()).strip("-")[:80]
