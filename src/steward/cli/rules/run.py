"""`steward rules run`: what rules find in logs and telemetry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_table, waiting
from steward.cli.rules.options import Compat, Strict, mode_of

__all__ = ["run"]


def run(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH")] = None,
    *,
    rules: Annotated[Path, typer.Option("--rules", metavar="DIR")] = Path("rules"),
    telemetry: Annotated[list[Path] | None, typer.Option("--telemetry")] = None,
    compat: Compat = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Run rules over logs and telemetry."""
    from steward.inspection.feeding import LogFeed, TelemetryFeed
    from steward.inspection.running import run_rules
    from steward.model.rules import Stream
    from steward.store.rules import read_rules

    mode = mode_of(compat=compat, strict=strict)
    with waiting("reading"):
        loaded = read_rules(sorted(rules.rglob("rule.yaml")), lenient=True)
        logs = [LogFeed(stream=Stream(name=str(p)), sources=(p,)) for p in paths or ()]
        series = [TelemetryFeed(path=p) for p in telemetry or ()]
        report = run_rules(loaded, [*logs, *series], mode=mode)
    if as_json:
        print_json(
            {
                "lines": report.lines,
                "bytes": report.bytes,
                "unparsed": report.unparsed,
                "seconds": report.seconds,
                "findings": [
                    {
                        "rule": each.rule.id,
                        "severity": each.severity.word,
                        "title": each.rule.title,
                        "first_t": each.first_t,
                        "last_t": each.last_t,
                        "hits": each.hits,
                        "entity": each.entity,
                        "evidence": each.evidence,
                    }
                    for each in report.findings
                ],
            }
        )
    else:
        rows = [
            (each.severity.word, each.rule.id, each.rule.title, each.entity, str(each.hits))
            for each in report.findings
        ]
        print_table(["severity", "rule", "title", "entity", "hits"], rows, empty="nothing found")
    raise typer.Exit(1 if report.findings else 0)
