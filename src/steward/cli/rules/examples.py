"""`steward rules test`: run rules over their examples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_table, waiting
from steward.cli.rules.options import Preq, Strict, mode_of

if TYPE_CHECKING:
    from steward.inspection.example_tests import TestReport

__all__ = ["examine"]

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="A folder with one folder per rule: rule.yaml, test.log, test-fp.log."
    ),
]
Proof = Annotated[
    bool, typer.Option("--proof", help="Also fail rules that have no silent example.")
]


AllSources = Annotated[
    bool,
    typer.Option(
        "--all-sources",
        help="Give every rule every line, as `rules run /var/log` does: rules that fire on the "
        "lines of other programs show.",
    ),
]


def examine(
    folder: Folder,
    *,
    preq: Preq = False,
    strict: Strict = False,
    proof: Proof = False,
    all_sources: AllSources = False,
    as_json: Json = False,
) -> None:
    """Run each rule over its own examples and those of all others.

    A rule must fire on each test.log (or test.csv) and stay silent on each test-fp.log. Rules that
    fire on the examples of others are counted. Exits 1 when a rule fails its examples.
    """
    from steward.inspection.example_tests import run_examples
    from steward.inspection.folders import rule_folders

    mode = mode_of(preq=preq, strict=strict)
    with waiting("testing rules"):
        found = rule_folders(folder, lenient=True)
        report = run_examples(found, mode=mode, proof_needed=proof, all_sources=all_sources)
    if as_json:
        print_json(
            {
                "mode": mode.value,
                "rules": report.rules,
                "fired": report.fired,
                "silent_ok": report.silent_ok,
                "failed": report.failed,
                "cross_rule_false_hits": report.cross_rule_false_hits,
                "cross_rule": [
                    {"rule": rule, "on": on, "hits": hits} for rule, on, hits in report.cross_rule
                ],
                "hits": report.hits,
            }
        )
    else:
        _show(report, mode.value)
    raise typer.Exit(0 if report.passed else 1)


def _show(report: TestReport, mode: str) -> None:
    if report.failed:
        print_table(
            ["rule", "what is wrong"], [(each.rule, each.why) for each in report.failed], empty=""
        )
    if report.cross_rule:
        rows = [(rule, on, str(hits)) for rule, on, hits in report.cross_rule]
        print_table(["rule", "also fires on the examples of", "hits"], rows, empty="")
    summary = (
        f"{report.rules} rules ({mode}): {report.fired} fire on their examples, "
        f"{report.silent_ok} stay silent where they must, {len(report.failed)} faults, "
        f"{report.cross_rule_false_hits} false hits across rules"
    )
    print_lines([summary])
