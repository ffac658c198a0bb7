"""`steward rules list`: list rules."""

from __future__ import annotations

from typing import Annotated

import typer

from steward.cli.options import Config, Data, Json
from steward.cli.output import print_json, print_note, print_table
from steward.cli.rules.options import RulePaths, Severity, choose, severity_of, store_folder

__all__ = ["list_rules"]

Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Only rules with this tag; may be repeated."),
]


def list_rules(
    *,
    tags: Tags = None,
    severity: Severity = None,
    rules: RulePaths = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List our rules and what was installed, or those of --rules."""
    worst = severity_of(severity)
    chosen = choose(rules, store_folder(config, data))
    found = [
        rule
        for rule in sorted(chosen.rules, key=lambda each: (chosen.packs[each.id], each.id))
        if rule.severity <= worst and all(tag in rule.tags for tag in tags or ())
    ]
    if as_json:
        print_json(
            [
                {
                    "rule": rule.id,
                    "severity": rule.severity.word,
                    "title": rule.title,
                    "category": rule.category,
                    "tags": rule.tags,
                    "pack": chosen.packs[rule.id],
                    "action": rule.treatment.action if rule.treatment else "",
                    "file": rule.place.file,
                }
                for rule in found
            ]
        )
        return
    rows = [(chosen.packs[r.id], r.id, r.severity.word, r.title, ", ".join(r.tags)) for r in found]
    print_table(["pack", "rule", "severity", "title", "tags"], rows, empty="no rule is like that")
    print_note(f"{len(found)} of {len(chosen.rules)} rules")
