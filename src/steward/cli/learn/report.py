"""`steward learn report`: patterns of recorded telemetry as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steward.cli.learn.sources import Paths, Window, read_source
from steward.cli.options import Json
from steward.cli.output import print_json, print_note, waiting

__all__ = ["report"]

Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The page that is written.")]
Labels = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="CSV with run and label: kinds are compared."),
]


def report(
    paths: Paths,
    *,
    out: Out = Path("patterns.html"),
    window: Window = 5.0,
    labels: Labels = None,
    as_json: Json = False,
) -> None:
    """Write one page: runs over time, levels, co-occurrence, rules, flow, sequences, contrasts."""
    from steward.cli.learn.contrast import labelled
    from steward.mining import summarise, write_page

    source = read_source(paths, window)
    baskets, notes = labelled(source.baskets, labels)
    with waiting("mining"):
        found = summarise(baskets, [Path(each) for each in paths])
    title = f"Patterns of {', '.join(Path(each).name for each in paths)[:120]}"
    write_page(found, out, title=title)
    for note in notes:
        print_note(f"note: {note}")
    if as_json:
        print_json(
            {
                "file": str(out),
                "windows": len(baskets),
                "runs": len(baskets.runs),
                "groups": list(baskets.groups),
                "rules": len(found.rules),
                "rules_tested": found.rules_tested,
                "sequences": len(found.sequences),
                "contrasts": sum(each.significant for each in found.contrasts),
                "notes": [*found.notes, *notes],
            }
        )
    else:
        print_note(f"written: {out}")
