"""Folders of rules with their examples: what must fire and what must stay silent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from steward.errors import StewardError
from steward.inspection.feeding import LogFeed, TelemetryFeed
from steward.model.rules import Node, Rule, Stream
from steward.store.rules import read_rules

__all__ = ["Example", "RuleFolder", "examples_beside", "rule_folders", "sources_of"]

_EXAMPLE = re.compile(
    r"(?P<name>test(?P<silent>-fp)?(?:-[\w-]+)?)(?:\.(?P<source>[\w.-]+?))?"
    r"\.(?P<kind>log|csv|parquet)(?:\.gz|\.zst)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Files that are read together: the logs and series of one case."""

    name: str  # such as `test-fp`
    logs: tuple[tuple[Path, str], ...]  # with the source that the file's name gives, or ''
    series: tuple[Path, ...]

    def feeds(self, rule: Rule, *, sources: bool) -> tuple[LogFeed | TelemetryFeed, ...]:
        """Return what the engine is given; with `sources`, logs are of those the rule names."""
        named = sources_of(rule.root)
        alone = named[0] if sources and len(named) == 1 else ""
        logs = [
            LogFeed(
                stream=Stream(name=file.name, source=(source or alone) if sources else ""),
                sources=(file,),
            )
            for file, source in self.logs
        ]
        return (*logs, *(TelemetryFeed(path=path) for path in self.series))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFolder:
    """One rule and its examples.

    Files that are called the same up to the first dot belong together: `test.log` and `test.csv`,
    or `test.cre.log.kernel.log` and `test.cre.log.nccl.log`, which say what their sources are.
    """

    rule: Rule
    folder: Path
    firing: tuple[Example, ...]
    silent: tuple[Example, ...]


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


def sources_of(node: Node) -> tuple[str, ...]:
    """Return the sources of logs that a rule names, each once."""
    below = [sources_of(each.what) for each in node.clauses if isinstance(each.what, Node)]
    named = [node.source, *(name for names in below for name in names)]
    return tuple(dict.fromkeys(name for name in named if name))


def _with_examples(rule: Rule, folder: Path) -> RuleFolder:
    firing, silent = examples_beside(folder)
    return RuleFolder(rule=rule, folder=folder, firing=firing, silent=silent)


def examples_beside(folder: Path) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Return the examples in a folder on which its rule must fire, and must stay silent."""
    found: dict[tuple[bool, str], list[tuple[Path, re.Match[str]]]] = {}
    for file in sorted(folder.iterdir()):
        match = _EXAMPLE.fullmatch(file.name)
        if match is not None:
            key = (match["silent"] is not None, match["name"])
            found.setdefault(key, []).append((file, match))
    examples = {key: _example(key[1], files) for key, files in found.items()}
    return (
        tuple(each for (silent, _), each in examples.items() if not silent),
        tuple(each for (silent, _), each in examples.items() if silent),
    )


def _example(name: str, files: list[tuple[Path, re.Match[str]]]) -> Example:
    logs = [(file, match["source"] or "") for file, match in files if match["kind"] == "log"]
    series = [file for file, match in files if match["kind"] != "log"]
    return Example(name=name, logs=tuple(logs), series=tuple(series))
