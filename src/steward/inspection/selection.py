"""Selection of rules: those of the given paths, or the built-in packs and installed packages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steward.inspection.checks import valid_rules, with_patterns_checked
from steward.inspection.garbage import few_collections
from steward.model.rules import Rule
from steward.store.packages import installed_packages, packages_folder, shipped
from steward.store.rules import examine_rules

__all__ = ["RuleSelection", "chosen_rules", "own_rules"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSelection:
    """Selected rules, the pack of each, and notes on rules left out."""

    rules: tuple[Rule, ...]
    packs: dict[str, str]  # rule id -> pack or package
    notes: tuple[str, ...] = ()


def chosen_rules(paths: Sequence[Path], *, store: Path) -> RuleSelection:
    """Return the rules of paths, or the built-in ones and those installed in a store folder."""
    if not paths:
        return own_rules(store)
    rules = valid_rules(paths, lenient=True)
    packs = {rule.id: Path(rule.place.file).parent.parent.name for rule in rules}
    return RuleSelection(rules=rules, packs=packs)


def own_rules(store: Path) -> RuleSelection:
    """Return the built-in packs and installed packages.

    An installed rule replaces a built-in one with the same id. A faulty rule is left out with a
    note: a fault in one package must not disable all others.
    """
    notes: list[str] = []
    found: dict[str, Rule] = {}
    packs: dict[str, str] = {}
    places = [(path.name, path) for path in sorted(shipped().glob("*")) if path.is_dir()]
    installed = installed_packages(packages_folder(store))
    places += [(f"{each.manifest.name} {each.manifest.version}", each.folder) for each in installed]
    for name, folder in places:
        with few_collections():
            read = with_patterns_checked(examine_rules([folder], lenient=True))
        notes += [f"left out: {fault}" for fault in read.faults]
        for rule in read.rules:
            if rule.id in found:
                notes.append(f"{rule.id} of {packs[rule.id]} is replaced by that of {name}")
            found[rule.id], packs[rule.id] = rule, name
    return RuleSelection(rules=tuple(found.values()), packs=packs, notes=tuple(notes))
