"""Folders of rules with their examples: what must fire and what must stay silent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from steward.errors import StewardError
from steward.model.rules import Rule
from steward.store.rules import read_rules

__all__ = ["RuleFolder", "rule_folders"]

_EXAMPLE = re.compile(r"test(?P<silent>-fp)?(?:-[\w.-]+?)?\.(?P<kind>log|csv)(?:\.gz|\.zst)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFolder:
    """One rule and its examples. Each example is one or more files that are read together.

    Files that share what stands between `test` (or `test-fp`) and the ending belong together: a log
    and a series of the same time.
    """

    rule: Rule
    folder: Path
    firing: tuple[tuple[Path, ...], ...]
    silent: tuple[tuple[Path, ...], ...]


def rule_folders(folder: Path, *, lenient: bool) -> tuple[RuleFolder, ...]:
    """Find all folders below that hold a rule, and read them; all faults at once."""
    files = sorted(_rule_files(folder))
    if not files:
        raise StewardError(
            "there is no rule in it",
            where=str(folder),
            hint="give a folder that has one folder per rule, with rule.yaml and test.log in it; "
            "`steward rules new NAME` makes one",
        )
    rules = read_rules(files, lenient=lenient)
    by_file: dict[str, Rule] = {rule.place.file: rule for rule in rules}
    return tuple(_with_examples(by_file[str(file)], file.parent) for file in files)


def _rule_files(folder: Path) -> list[Path]:
    if not folder.exists():
        raise StewardError("no such folder", where=str(folder), hint="check the name")
    found = [*folder.glob("rule.yaml"), *folder.glob("*/rule.yaml"), *folder.glob("*/*/rule.yaml")]
    return list(dict.fromkeys(found))


def _with_examples(rule: Rule, folder: Path) -> RuleFolder:
    examples: dict[bool, dict[str, list[Path]]] = {False: {}, True: {}}
    for file in sorted(folder.iterdir()):
        match = _EXAMPLE.fullmatch(file.name)
        if match is not None:
            group = file.name.partition(".")[0]
            examples[match["silent"] is not None].setdefault(group, []).append(file)
    return RuleFolder(
        rule=rule,
        folder=folder,
        firing=tuple(tuple(files) for files in examples[False].values()),
        silent=tuple(tuple(files) for files in examples[True].values()),
    )
