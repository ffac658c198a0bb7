"""Options shared by several commands about rules, and their parsing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import read_settings
from steward.cli.output import print_warnings
from steward.errors import StewardError, unknown_name

if TYPE_CHECKING:
    from steward.inspection.selection import RuleSelection
    from steward.model.rules import Mode, RuleSeverity

__all__ = [
    "Preq",
    "RulePaths",
    "Severity",
    "Sources",
    "Strict",
    "choose",
    "mode_of",
    "severity_of",
    "source_patterns",
    "store_folder",
]

Preq = Annotated[bool, typer.Option("--preq", help="Match as preq does, with what it leaves out.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Match as the language says (this is the default).")
]
RulePaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--rules",
        metavar="PATH",
        help="Rule files or folders, instead of our packs and what was installed; may be repeated.",
    ),
]
Severity = Annotated[
    str | None,
    typer.Option(
        "--severity",
        metavar="S",
        help="critical, high, medium, low, info, or 0 to 4.",
        autocompletion=lambda: ["critical", "high", "medium", "low", "info"],
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="NAME=PATTERN",
        help="What rules call a log, as cre.log.kernel='kern.log*', or - for a pipe; may be "
        "repeated. A log without a name is looked at by every rule.",
    ),
]


def mode_of(*, preq: bool, strict: bool) -> Mode:
    """Return the mode of the options."""
    from steward.model.rules import Mode

    if preq and strict:
        raise StewardError("--preq and --strict exclude each other", hint="give one of them")
    return Mode.PREQ if preq else Mode.STRICT


def severity_of(given: str | None) -> RuleSeverity:
    """Return the minimum severity; without an option, any."""
    from steward.model.rules import RuleSeverity

    if given is None:
        return RuleSeverity.INFO
    known = {each.word: each for each in RuleSeverity} | {str(int(e)): e for e in RuleSeverity}
    if given.lower() not in known:
        words = [each.word for each in RuleSeverity]
        raise unknown_name("severity", given, words, where="--severity")
    return known[given.lower()]


def source_patterns(given: Sequence[str] | None) -> dict[str, str]:
    """Return patterns of paths with the names of their sources; `kern.log` fits in any folder."""
    patterns: dict[str, str] = {}
    for each in given or ():
        name, mark, pattern = each.partition("=")
        if not mark or not name.strip() or not pattern.strip():
            problem = f"'{each}' does not name a source and a pattern"
            hint = "write NAME=PATTERN, such as cre.log.kernel='*/kern.log*'"
            raise StewardError(problem, where="--source", hint=hint)
        patterns[pattern] = name
        if "/" not in pattern:
            patterns[f"*/{pattern}"] = name
    return patterns


def store_folder(config: Path | None, data: Path | None) -> Path:
    """Return the store folder, where packages are installed."""
    return read_settings(config, data).store.path


def choose(rules: Sequence[Path] | None, store: Path) -> RuleSelection:
    """Return the rules to run, and print a warning for those left out."""
    from steward.inspection.selection import chosen_rules

    chosen = chosen_rules(rules or (), store=store)
    print_warnings(chosen.notes)
    return chosen
