"""`steward learn contrast`: what tells kinds of runs apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.learn.sources import Limit, Paths, Top, Window, item_record, joined, read_source
from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note, print_table, waiting
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.learn.patterns.baskets import Baskets
    from steward.learn.patterns.compared_runs import Sides
    from steward.learn.patterns.contrasts import Contrast, Contrasts, ContrastSearch

__all__ = ["contrast", "labelled"]

Labels = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="CSV with run and label, instead of their own."),
]
Target = Annotated[
    str | None,
    typer.Option("--target", metavar="LABEL", help="What is compared, such as 'train*'."),
]
Against = Annotated[
    str | None,
    typer.Option("--against", metavar="LABEL", help="With what; all other labels without it."),
]
Before = Annotated[
    float | None,
    typer.Option(
        "--before", metavar="T_S", help="Compare runs from this time on with those before it."
    ),
]
Support = Annotated[
    float, typer.Option("--support", metavar="SHARE", help="Of all windows, at least.")
]
Longest = Annotated[int, typer.Option("--longest", min=1, max=11, help="Items, at most.")]
Growth = Annotated[
    float, typer.Option("--growth", min=1.0, help="At least so many times as often or as seldom.")
]
Q = Annotated[
    float, typer.Option("--q", min=0.0, max=1.0, help="The share of false ones that is accepted.")
]
ControlOption = Annotated[
    str, typer.Option("--control", metavar="C", help="Of false discoveries: bh or by.")
]
Permutations = Annotated[
    int, typer.Option("--permutations", min=0, max=100_000, help="Of run labels.")
]
Redundant = Annotated[
    bool, typer.Option("--redundant", help="Keep patterns that follow from stronger ones.")
]


def contrast(  # noqa: PLR0913 - a command's options are its parameters
    paths: Paths,
    *,
    window: Window = 5.0,
    labels: Labels = None,
    target: Target = None,
    against: Against = None,
    before: Before = None,
    support: Support = 0.01,
    longest: Longest = 3,
    growth: Growth = 1.5,
    q: Q = 0.05,
    control: ControlOption = "bh",
    permutations: Permutations = 1_000,
    redundant: Redundant = False,
    top: Top = 15,
    limit: Limit = 1_000,
    as_json: Json = False,
) -> None:
    """Find what some runs do oftener or more seldom than others: emerging patterns.

    Runs are the unit: of each pattern, the share of a run's windows that have it is compared.
    Patterns that cross layers (GPU, CPU, memory, network, storage) are marked.
    """
    from steward.cli.learn.choices import chosen
    from steward.learn.patterns.contrasts import ContrastSearch, find_contrasts
    from steward.learn.patterns.itemsets import count_items
    from steward.learn.patterns.significance import Control

    if before is not None and (target is not None or labels is not None):
        hint = "leave out --target and --labels, or --before"
        raise StewardError("runs are compared by time or by label", where="--before", hint=hint)
    search = ContrastSearch(
        share=support,
        longest=longest,
        q=q,
        growth=growth,
        control=chosen(Control, control, "--control"),
        permutations=permutations,
        redundant=redundant,
    )
    source = read_source(paths, window)
    baskets, notes = labelled(source.baskets, labels)
    sides, more = _compared(baskets, before, (target, against), search)
    with waiting("mining"):
        counts = count_items(baskets)
        found = [find_contrasts(baskets, each, search, counts=counts) for each in sides]
    notes += more
    if as_json:
        print_json(
            {
                "source": source.as_record(),
                "unit": "runs",
                "q": q,
                "contrasts": [
                    _record(baskets, each, side, limit)
                    for each, side in zip(found, sides, strict=True)
                ],
                "notes": notes,
            }
        )  # fmt: skip
        return
    for each in found:
        _show(each, top)
    for note in notes:
        print_note(f"note: {note}")


def labelled(baskets: Baskets, labels: Path | None) -> tuple[Baskets, list[str]]:
    """Return baskets with the labels of a file, and what is to be said about it."""
    from steward.learn.patterns.compared_runs import with_labels
    from steward.learn.patterns.run_labels import read_labels

    if labels is None:
        return baskets, []
    known, without = with_labels(baskets, read_labels(labels))
    return known, [f"{without:,} runs have no label"] if without else []


def _compared(
    baskets: Baskets,
    before: float | None,
    wanted: tuple[str | None, str | None],
    search: ContrastSearch,
) -> tuple[Sequence[Sides], list[str]]:
    from steward.learn.patterns.compared_runs import before_and_after, compared_sides

    if before is not None:
        sides, across = before_and_after(baskets, before)
        said = f"{across:,} runs were under way at that time and are left out"
        return (sides,), [said] if across else []
    every, left_out = compared_sides(baskets, *wanted, fewest_runs=search.fewest_runs)
    notes = []
    if left_out:
        shown = ", ".join(left_out[:5])
        notes.append(f"{len(left_out):,} labels are not compared by themselves: {shown}")
    return every, notes


def _record(baskets: Baskets, found: Contrasts, side: Sides, most: int) -> dict[str, Any]:
    from steward.learn.patterns.evidence import example_runs

    return {
        "target": found.target,
        "against": found.against,
        "target_runs": found.target_runs,
        "other_runs": found.other_runs,
        "tested": found.tested,
        "significant": found.significant,
        "found": len(found.found),
        "patterns": [
            {
                "items": [item_record(item) for item in each.items],
                "layers": list(each.layers),
                "crosses_layers": each.crosses_layers,
                "share": each.share,
                "share_elsewhere": each.share_elsewhere,
                "growth": each.growth,
                "difference": each.difference,
                "auroc": each.auroc,
                "runs": each.runs,
                "runs_elsewhere": each.runs_elsewhere,
                "p_value": each.p_value,
                "q_value": each.q_value,
                "family_p": each.family_p,
                "covers": each.covers,
                "examples": example_runs(baskets, each.items, side),
            }
            for each in found.found[:most]
        ],
    }


def _show(found: Contrasts, top: int) -> None:
    sides = f"{found.target} ({found.target_runs} runs) against {found.against}"
    counts = f"{len(found.found)} patterns, of {found.tested:,} tested"
    print_lines([f"{sides} ({found.other_runs} runs): {counts}"])
    print_table(
        ["share", "elsewhere", "growth", "AUROC", "q", "family p", "layers", "pattern"],
        [_row(each) for each in found.found[:top]],
        empty="nothing tells them apart",
    )
    print_lines([""])


def _row(each: Contrast) -> list[str]:
    return [
        f"{each.share:.1%}",
        f"{each.share_elsewhere:.1%}",
        f"{each.growth:.1f}",
        f"{each.auroc:.2f}",
        f"{each.q_value:.1e}",
        f"{each.family_p:.3f}",
        " x ".join(each.layers),
        joined(each.items),
    ]
