"""`steward learn itemsets`: what levels occur together, and which rules follow from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.learn.sources import (
    Limit,
    Paths,
    Source,
    Top,
    Window,
    item_record,
    joined,
    read_source,
)
from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note, print_table, waiting

if TYPE_CHECKING:
    from steward.learn.patterns.association import AssociationRules
    from steward.learn.patterns.itemsets import Itemsets

__all__ = ["itemsets"]

Support = Annotated[
    float | None,
    typer.Option(
        "--support",
        metavar="SHARE",
        help="Of the windows, at least. Without it: 0.01, and more where that finds too many.",
    ),
]
_SUPPORT = 0.01  # of the windows
KindOption = Annotated[
    str, typer.Option("--kind", metavar="K", help="Which itemsets: all, closed or maximal.")
]
Confidence = Annotated[
    float, typer.Option("--confidence", metavar="SHARE", help="Of rules, at least.")
]
Consequents = Annotated[
    int, typer.Option("--consequents", min=1, max=4, help="Items behind the arrow, at most.")
]
UnitOption = Annotated[
    str,
    typer.Option(
        "--unit",
        metavar="U",
        help="What counts as one observation: runs, or windows as if they were independent.",
    ),
]
ControlOption = Annotated[
    str,
    typer.Option(
        "--control",
        metavar="C",
        help="Of false discoveries: bh (Benjamini-Hochberg) or by (Benjamini-Yekutieli).",
    ),
]
Q = Annotated[
    float, typer.Option("--q", min=0.0, max=1.0, help="The share of false ones that is accepted.")
]
Redundant = Annotated[
    bool, typer.Option("--redundant", help="Keep rules that a shorter rule says already.")
]


def itemsets(  # noqa: PLR0913 - a command's options are its parameters
    paths: Paths,
    *,
    window: Window = 5.0,
    support: Support = None,
    kind: KindOption = "closed",
    confidence: Confidence = 0.8,
    consequents: Consequents = 1,
    unit: UnitOption = "runs",
    control: ControlOption = "bh",
    q: Q = 0.05,
    redundant: Redundant = False,
    top: Top = 20,
    limit: Limit = 1_000,
    as_json: Json = False,
) -> None:
    """Find the levels that occur together, and rules: where these are, that is, too.

    Rules come with support, confidence, lift, leverage, conviction and significance. Windows of one
    run resemble each other, so that runs are what significance counts.
    """
    from steward.cli.learn.choices import chosen
    from steward.learn.patterns.association import RuleSearch, Unit, find_associations
    from steward.learn.patterns.itemsets import Kind, frequent_bounded, frequent_itemsets, selected
    from steward.learn.patterns.significance import FEWEST_RUNS, Control

    wanted = chosen(Kind, kind, "--kind")
    search = RuleSearch(
        confidence=confidence,
        most_consequents=consequents,
        redundant=redundant,
        unit=chosen(Unit, unit, "--unit"),
        control=chosen(Control, control, "--control"),
    )
    source = read_source(paths, window)
    with waiting("mining"):
        if support is None:
            every, share = frequent_bounded(source.baskets, _SUPPORT)
        else:
            every, share = frequent_itemsets(source.baskets, support), support
        found = selected(every, wanted)
        rules = find_associations(every, source.baskets, search)
    significant = rules.taken(rules.q_values <= q)
    notes = []
    if share != (support or _SUPPORT):
        notes.append(
            f"itemsets are in at least {share:.1%} of the windows: with less there are too many to "
            "read; --support asks for more of them"
        )
    if search.unit is Unit.WINDOWS:
        notes.append("windows of one run are not independent: real p-values are larger than these")
    elif len(source.baskets.runs) < FEWEST_RUNS:
        notes.append(
            f"{len(source.baskets.runs)} runs are too few to test rules by; {FEWEST_RUNS} are "
            "needed (--unit windows takes windows as independent, which they are not)"
        )
    if as_json:
        print_json(
            {
                "source": source.as_record(),
                **_figures(source),
                "support": share,
                "frequent": len(every),
                "kind": wanted,
                "found": len(found),
                "itemsets": _itemset_records(found, limit),
                "rules_tested": rules.tested,
                "rules_significant": len(significant),
                "rules": _rule_records(significant, limit),
                "edges": _edges(significant),
                "notes": notes,
            }
        )
        return
    _show(found, significant, rules.tested, top)
    for note in notes:
        print_note(f"note: {note}")


def _figures(source: Source) -> dict[str, Any]:
    """Return what figures are drawn from."""
    from steward.learn.patterns.relations import co_occurrence, item_frequencies

    together = co_occurrence(source.baskets)
    return {
        "items": [
            {**item_record(item), "windows": windows}
            for item, windows in item_frequencies(source.baskets)
        ],
        "co_occurrence": {
            "items": [item_record(item) for item in together.items],
            "counts": together.counts.tolist(),
        },
    }


def _edges(rules: AssociationRules) -> list[Any]:
    from steward.learn.patterns.relations import pattern_edges

    return list(pattern_edges(rules))


def _itemset_records(found: Itemsets, most: int) -> list[dict[str, Any]]:
    return [
        {
            "items": [item_record(item) for item in found.items(row)],
            "windows": int(found.counts[row]),
            "support": int(found.counts[row]) / found.windows,
        }
        for row in range(min(len(found), most))
    ]


def _rule_records(rules: AssociationRules, most: int) -> list[dict[str, Any]]:
    from steward.learn.patterns.itemsets import items_of

    columns = {
        name: getattr(rules, name).tolist()
        for name in ("support", "confidence", "lift", "leverage", "conviction")
    }
    return [
        {
            "if": [
                item_record(item)
                for item in items_of(rules.antecedents[row], rules.groups, rules.level_names)
            ],
            "then": [
                item_record(item)
                for item in items_of(rules.consequents[row], rules.groups, rules.level_names)
            ],
            "windows": int(rules.both[row]),
            "runs": int(rules.runs[row]),
            **{name: column[row] for name, column in columns.items()},
            "p_value": float(rules.p_values[row]),
            "q_value": float(rules.q_values[row]),
        }
        for row in range(min(len(rules), most))
    ]


def _show(found: Itemsets, rules: AssociationRules, tested: int, top: int) -> None:
    from steward.learn.patterns.itemsets import items_of

    print_lines([f"{len(found):,} itemsets in {found.windows:,} windows"])
    lengths = found.lengths
    several = [row for row in range(len(found)) if lengths[row] > 1][:top]
    print_table(
        ["support", "windows", "items"],
        [
            [f"{found.counts[row] / found.windows:.1%}", f"{found.counts[row]:,}",
             joined(found.items(row))]
            for row in several
        ],
        empty="no two levels occur together that often",
    )  # fmt: skip
    print_lines(["", f"{len(rules):,} significant rules, of {tested:,} tested"])
    support, confidence, lift = rules.support, rules.confidence, rules.lift
    leverage, conviction = rules.leverage, rules.conviction
    print_table(
        ["support", "confidence", "lift", "leverage", "conviction", "q", "runs", "rule"],
        [
            [
                f"{support[row]:.1%}",
                f"{confidence[row]:.1%}",
                f"{lift[row]:.2f}",
                f"{leverage[row]:.3f}",
                f"{conviction[row]:.1f}",
                f"{rules.q_values[row]:.1e}",
                f"{rules.runs[row]:,}",
                " -> ".join(
                    joined(items_of(side[row], rules.groups, rules.level_names))
                    for side in (rules.antecedents, rules.consequents)
                ),
            ]
            for row in range(min(top, len(rules)))
        ],
        empty="no rule is significant",
    )
