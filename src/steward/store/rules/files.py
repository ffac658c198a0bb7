"""Reader of files and folders of rules: names are shared, and must not clash."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from steward.model.rules import Rule, SourceLocation
from steward.store.rules.document import read_rule
from steward.store.rules.faults import Diagnostics, RuleFault, RuleFaults
from steward.store.rules.identity import repeated
from steward.store.rules.mapping_reader import MappingReader, described, items_of, shown
from steward.store.rules.nodes import NodeReader
from steward.store.rules.terms import ExpansionLimitError, NamedTerms
from steward.store.rules.tree import (
    MAX_BYTES,
    MappingEntry,
    MappingTree,
    Scalar,
    Tree,
    TreeError,
    read_documents,
)

__all__ = ["Parsed", "examine_rules", "examine_text", "parse_rules", "read_rules"]

SUFFIXES = (".yaml", ".yml")
SECTIONS = ("rules", "version")
LISTS = ("tags", "categories")  # other files of the public corpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Result of reading: rules without faults, faults, and notes.

    `invalid` are rules with faults, as far as they could be read: they may have more faults.
    """

    rules: tuple[Rule, ...]
    invalid: tuple[Rule, ...] = ()
    faults: tuple[RuleFault, ...] = ()
    notes: tuple[RuleFault, ...] = ()

    def valid(self) -> tuple[Rule, ...]:
        """Return the rules, or raise all faults."""
        if self.faults:
            raise RuleFaults(self.faults)
        return self.rules


def read_rules(
    paths: Sequence[Path], *, lenient: bool = False, user: bool = True
) -> tuple[Rule, ...]:
    """Return the rules of files and folders, or raise `RuleFaults` with all faults."""
    return examine_rules(paths, lenient=lenient, user=user).valid()


def parse_rules(
    text: str, *, file: str = "", lenient: bool = False, user: bool = True
) -> tuple[Rule, ...]:
    """Return the rules of one text, or raise `RuleFaults` with all faults."""
    return examine_text(text, file=file, lenient=lenient, user=user).valid()


def examine_text(text: str, *, file: str = "", lenient: bool = False, user: bool = True) -> Parsed:
    """Read the rules of one text; return faults instead of raising them."""
    one = _Read(file=file, diagnostics=Diagnostics(lenient=lenient))
    one.read_text(text)
    return _joined([one], user=user)


def examine_rules(paths: Sequence[Path], *, lenient: bool = False, user: bool = True) -> Parsed:
    """Read the rules of files and folders; return faults instead of raising them.

    A folder stands for all files in it, however deep, that end in `.yaml` or `.yml`.
    """
    files = []
    for path in _files(paths):
        one = _Read(file=str(path), diagnostics=Diagnostics(lenient=lenient))
        one.read_file(path)
        files.append(one)
    return _joined(files, user=user)


@dataclass(slots=True, kw_only=True)
class _Read:
    """One file between the two passes: names of all files are needed before rules are read."""

    file: str
    diagnostics: Diagnostics
    terms: dict[str, MappingEntry] = field(default_factory=dict)
    rules: list[Tree] = field(default_factory=list)
    invalid: list[Rule] = field(default_factory=list)

    def read_file(self, path: Path) -> None:
        start = SourceLocation(file=self.file)
        if path.is_dir():
            problem = f"a folder with no rule files: none ends in {' or '.join(SUFFIXES)}"
            self.diagnostics.fault(start, problem)
            return
        try:
            with path.open("rb") as opened:
                data = opened.read(MAX_BYTES + 1)  # pipes and devices have no size
            self.read_text(data.decode("utf-8-sig"))
        except OSError as error:
            self.diagnostics.fault(start, f"cannot be read: {error.strerror or error}")
        except UnicodeDecodeError as error:
            problem = f"this is no UTF-8 text: byte {error.start} is {error.object[error.start]:#x}"
            self.diagnostics.fault(start, problem, "is it a rule file? if so, save it as UTF-8")

    def read_text(self, text: str) -> None:
        try:
            documents = list(read_documents(text, file=self.file))
        except TreeError as error:
            self.diagnostics.fault(error.place, error.problem, error.hint)
            return
        if all(isinstance(each, Scalar) and each.is_null for each in documents):
            place = SourceLocation(file=self.file, line=1, column=1)
            self.diagnostics.fault(place, "this file is empty", "a rule file begins with `rules:`")
            return
        for each in documents:
            self._document(each)

    def _document(self, tree: Tree) -> None:
        if isinstance(tree, Scalar) and tree.is_null:
            return
        if self._is_skipped(tree):
            return
        fields = MappingReader(tree, "document", self.diagnostics)
        self.rules += items_of(fields.tree("rules"), "rules", self.diagnostics)
        self._terms(fields.tree("terms"))

    def _is_skipped(self, tree: Tree) -> bool:
        keys = (
            {each.key.text: each for each in tree.entries} if isinstance(tree, MappingTree) else {}
        )
        section = keys["section"].value if "section" in keys else None
        if isinstance(section, Scalar) and section.text not in SECTIONS:
            problem = f"there is no section '{shown(section.text)}'; known: {', '.join(SECTIONS)}"
            self.diagnostics.ignored(
                section.place, problem, self.diagnostics.near(section.text, SECTIONS)
            )
            return True
        lists = [name for name in LISTS if name in keys and "rules" not in keys]
        if lists:
            self.diagnostics.note(tree.place, f"a list of {lists[0]}, no rules: it is not read")
        return bool(lists) or (isinstance(section, Scalar) and section.text == "version")

    def read(self, named: NamedTerms, *, user: bool) -> Iterator[Rule]:
        """Yield the rules without faults, until the limit of faults is reached."""
        for tree in self.rules:
            rule, is_valid = read_rule(tree, named, self.diagnostics, user=user)
            if is_valid:
                yield rule
                continue
            self.invalid.append(rule)
            if self.diagnostics.is_full:
                return

    def check_unused(self, read: Set[SourceLocation]) -> None:
        """Report terms that no rule uses."""
        named = NamedTerms(own=self.terms, others={})
        for name in (name for name, each in self.terms.items() if each.key.place not in read):
            with suppress(ExpansionLimitError):
                reader = NodeReader(named=named, diagnostics=self.diagnostics, names=[name])
                reader.check(self.terms[name].value)

    def _terms(self, tree: Tree | None) -> None:
        if tree is None or (isinstance(tree, Scalar) and tree.is_null):
            return
        if not isinstance(tree, MappingTree):
            problem = (
                f"`terms` has to be a mapping of names to terms, and this is {described(tree)}"
            )
            self.diagnostics.fault(tree.place, problem)
            return
        for entry in tree.entries:
            name, first = entry.key.text, self.terms.get(entry.key.text)
            if first is not None:
                problem = f"a second term '{shown(name)}'; the first is in {first.key.place}"
                self.diagnostics.fault(entry.key.place, problem, "rename one of them")
            else:
                self.terms[name] = entry


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield each file once. A folder without any is yielded itself, to be reported."""
    seen: set[Path] = set()
    for path in paths:
        inside = [each for each in path.rglob("*") if each.suffix in SUFFIXES and each.is_file()]
        for each in sorted(inside) or [path]:
            if (real := each.resolve()) not in seen:
                seen.add(real)
                yield each


def _joined(files: Sequence[_Read], *, user: bool) -> Parsed:
    everybody: dict[str, list[MappingEntry]] = defaultdict(list)
    for one in files:
        for name, entry in one.terms.items():
            everybody[name].append(entry)
    rules: list[Rule] = []
    read: set[SourceLocation] = set()
    for one in files:
        named = NamedTerms(own=one.terms, others=everybody)
        rules += one.read(named, user=user)
        read |= named.read
    for one in files:
        one.check_unused(read)
    clashes = tuple(repeated(rules))
    return Parsed(
        rules=tuple(rules),
        invalid=tuple(rule for one in files for rule in one.invalid),
        faults=(*(each for one in files for each in _in_order(one.diagnostics.faults)), *clashes),
        notes=tuple(each for one in files for each in _in_order(one.diagnostics.notes)),
    )


def _in_order(listed: Iterable[RuleFault]) -> list[RuleFault]:
    """Return diagnostics in the order of the file."""
    return sorted(listed, key=lambda each: (each.place.line or math.inf, each.place.column))
