"""Folders of rules with their examples: firing and silent ones."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steward.decide.rules.rule_check import check
from steward.errors import StewardError
from steward.inspection.feeds import LogFeed, TelemetryFeed
from steward.model.rules import Rule, RuleNode, Stream
from steward.store.rules import RuleFault, examine_rules

__all__ = ["Collection", "Example", "RuleFolder", "examples_in", "rule_folders", "sources_of"]

RULE_FILE = "rule.yaml"
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
        """Return the feeds of an example; with `sources`, logs have those that the rule names."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """All rules below a folder, and those that cannot be tested: their names, and why."""

    folders: tuple[RuleFolder, ...]
    broken: tuple[tuple[str, str], ...] = ()


def rule_folders(folder: Path, *, lenient: bool) -> Collection:
    """Read all folders below that hold a rule.

    The rule is in `rule.yaml`, or in the only file of rules there. A fault in one does not keep the
    others from being tested.
    """
    places, unreadable = _places(folder)
    files = [file for files in places.values() for file in files]
    parsed = examine_rules(files, lenient=lenient)
    read = {str(file): _Read(file=file) for file in files}
    for fault in parsed.faults:
        read[fault.place.file].faults.append(fault)
    for rule in parsed.rules:
        one = read[rule.place.file]
        one.rules.append(rule)
        one.faults += [
            RuleFault(place=each.place, problem=each.problem, hint=each.hint, rule=rule.id)
            for each in check(rule)
        ]
    tried = [_tried(place, [read[str(file)] for file in files]) for place, files in places.items()]
    found = Collection(
        folders=tuple(each for each in tried if isinstance(each, RuleFolder)),
        broken=(*unreadable, *(each for each in tried if isinstance(each, tuple))),
    )
    if not found.folders and not found.broken:
        raise StewardError(
            "there is no rule in it",
            where=str(folder),
            hint="give a folder that has one folder per rule, with rule.yaml and test.log in it; "
            "`steward rules new NAME` makes one",
        )
    return found


@dataclass(slots=True, kw_only=True)
class _Read:
    """Rules and faults of one file."""

    file: Path
    rules: list[Rule] = field(default_factory=list)
    faults: list[RuleFault] = field(default_factory=list)


def _places(folder: Path) -> tuple[dict[Path, list[Path]], list[tuple[str, str]]]:
    """Return the files of each folder that may hold its rule, and folders that cannot be read."""
    if not folder.is_dir():
        problem = "this is no folder" if folder.exists() else "no such folder"
        hint = "give the folder that has one folder per rule"
        raise StewardError(problem, where=str(folder), hint=hint)
    places: dict[Path, list[Path]] = {}
    unreadable: list[tuple[str, str]] = []
    seen: set[str] = set()  # links may form cycles

    def refused(fault: OSError) -> None:
        unreadable.append((Path(fault.filename).name, f"it cannot be read: {fault.strerror}"))

    for where, folders, names in os.walk(folder, onerror=refused, followlinks=True):
        real = os.path.realpath(where)
        folders[:] = sorted(each for each in folders if real not in seen and each[0] != ".")
        if real not in seen:
            places[Path(where)] = _candidates(Path(where), names)
        seen.add(real)
    return places, unreadable


def _candidates(place: Path, names: Sequence[str]) -> list[Path]:
    if RULE_FILE in names:
        return [place / RULE_FILE]
    return [place / each for each in sorted(names) if each.endswith((".yaml", ".yml"))]


def _tried(place: Path, read: Sequence[_Read]) -> RuleFolder | tuple[str, str] | None:
    """Return the rule of a folder, the reason why there is none, or None where none is expected."""
    firing, silent = examples_in(place)
    expected = [
        each
        for each in read
        if each.rules or each.file.name == RULE_FILE or (each.faults and (firing or silent))
    ]
    if not expected:
        return None
    if len(expected) > 1:
        names = ", ".join(each.file.name for each in expected)
        return place.name, f"it has {len(expected)} files of rules ({names}); a folder has one rule"
    rules, faults = expected[0].rules, expected[0].faults
    if faults:
        name = next((each.rule for each in faults if each.rule), place.name)
        return name, "; ".join(map(str, faults))
    if len(rules) != 1:
        ids = f": {', '.join(each.id for each in rules)}" if rules else ""
        return place.name, f"{expected[0].file} has {len(rules)} rules{ids}; a folder has one rule"
    return RuleFolder(rule=rules[0], folder=place, firing=firing, silent=silent)


def sources_of(node: RuleNode) -> tuple[str, ...]:
    """Return the sources of logs that a rule names, each once."""
    below = [sources_of(each.what) for each in node.clauses if isinstance(each.what, RuleNode)]
    named = [node.source, *(name for names in below for name in names)]
    return tuple(dict.fromkeys(name for name in named if name))


def examples_in(folder: Path) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Return the firing and the silent examples in a folder."""
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
