"""Files and folders of rules, read together: names are shared, and must not clash."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from steward.model.rules import Rule, SourceLocation
from steward.store.rules.document import read_rule
from steward.store.rules.faults import Complaints, RuleFault, RuleFaults
from steward.store.rules.identity import repeated
from steward.store.rules.mapping_reader import MappingReader, described, items_of, shown
from steward.store.rules.nodes import NodeReader
from steward.store.rules.terms import Named, TooMuchError
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
LISTS = ("tags", "categories")  # files of the public corpus that lie beside its rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What came of reading: the rules without faults, what is wrong, and what is worth knowing.

    `unsound` are rules with faults, as far as they could be read: more may be wrong with them.
    """

    rules: tuple[Rule, ...]
    unsound: tuple[Rule, ...] = ()
    faults: tuple[RuleFault, ...] = ()
    notes: tuple[RuleFault, ...] = ()

    def sound(self) -> tuple[Rule, ...]:
        """Return the rules, or raise all faults."""
        if self.faults:
            raise RuleFaults(self.faults)
        return self.rules


def read_rules(
    paths: Sequence[Path], *, lenient: bool = False, user: bool = True
) -> tuple[Rule, ...]:
    """Return the rules of files and folders, or raise `RuleFaults` with all that is wrong."""
    return examine_rules(paths, lenient=lenient, user=user).sound()


def parse_rules(
    text: str, *, file: str = "", lenient: bool = False, user: bool = True
) -> tuple[Rule, ...]:
    """Return the rules of one text, or raise `RuleFaults` with all that is wrong."""
    return examine_text(text, file=file, lenient=lenient, user=user).sound()


def examine_text(text: str, *, file: str = "", lenient: bool = False, user: bool = True) -> Parsed:
    """Read the rules of one text, and say what is wrong instead of raising it."""
    one = _Read(file=file, complaints=Complaints(lenient=lenient))
    one.take(text)
    return _joined([one], user=user)


def examine_rules(paths: Sequence[Path], *, lenient: bool = False, user: bool = True) -> Parsed:
    """Read the rules of files and folders, and say what is wrong instead of raising it.

    A folder stands for all files in it, however deep, that end in `.yaml` or `.yml`.
    """
    files = []
    for path in _files(paths):
        one = _Read(file=str(path), complaints=Complaints(lenient=lenient))
        one.take_file(path)
        files.append(one)
    return _joined(files, user=user)


@dataclass(slots=True, kw_only=True)
class _Read:
    """One file between the two passes: its names are needed before anybody's rules are read."""

    file: str
    complaints: Complaints
    terms: dict[str, MappingEntry] = field(default_factory=dict)
    rules: list[Tree] = field(default_factory=list)
    unsound: list[Rule] = field(default_factory=list)

    def take_file(self, path: Path) -> None:
        start = SourceLocation(file=self.file)
        if path.is_dir():
            problem = f"a folder with no rule files: none ends in {' or '.join(SUFFIXES)}"
            self.complaints.fault(start, problem)
            return
        try:
            with path.open("rb") as opened:
                data = opened.read(MAX_BYTES + 1)  # pipes and devices have no size
            self.take(data.decode("utf-8-sig"))
        except OSError as error:
            self.complaints.fault(start, f"cannot be read: {error.strerror or error}")
        except UnicodeDecodeError as error:
            problem = f"this is no UTF-8 text: byte {error.start} is {error.object[error.start]:#x}"
            self.complaints.fault(start, problem, "is it a rule file? if so, save it as UTF-8")

    def take(self, text: str) -> None:
        try:
            documents = list(read_documents(text, file=self.file))
        except TreeError as error:
            self.complaints.fault(error.place, error.problem, error.hint)
            return
        if all(isinstance(each, Scalar) and each.is_null for each in documents):
            place = SourceLocation(file=self.file, line=1, column=1)
            self.complaints.fault(place, "this file is empty", "a rule file begins with `rules:`")
            return
        for each in documents:
            self._document(each)

    def _document(self, tree: Tree) -> None:
        if isinstance(tree, Scalar) and tree.is_null:
            return
        if self._is_skipped(tree):
            return
        fields = MappingReader(tree, "document", self.complaints)
        self.rules += items_of(fields.tree("rules"), "rules", self.complaints)
        self._terms(fields.tree("terms"))

    def _is_skipped(self, tree: Tree) -> bool:
        keys = (
            {each.key.text: each for each in tree.entries} if isinstance(tree, MappingTree) else {}
        )
        section = keys["section"].value if "section" in keys else None
        if isinstance(section, Scalar) and section.text not in SECTIONS:
            problem = f"there is no section '{shown(section.text)}'; known: {', '.join(SECTIONS)}"
            self.complaints.stray(
                section.place, problem, self.complaints.near(section.text, SECTIONS)
            )
            return True
        lists = [name for name in LISTS if name in keys and "rules" not in keys]
        if lists:
            self.complaints.note(tree.place, f"a list of {lists[0]}, no rules: it is not read")
        return bool(lists) or (isinstance(section, Scalar) and section.text == "version")

    def read(self, named: Named, *, user: bool) -> Iterator[Rule]:
        """Give the rules without faults, until there are more faults than anybody reads."""
        for tree in self.rules:
            rule, is_sound = read_rule(tree, named, self.complaints, user=user)
            if is_sound:
                yield rule
                continue
            self.unsound.append(rule)
            if self.complaints.is_full:
                return

    def check_unused(self, read: Set[SourceLocation]) -> None:
        """Complain about terms that no rule has led to."""
        named = Named(own=self.terms, others={})
        for name in (name for name, each in self.terms.items() if each.key.place not in read):
            with suppress(TooMuchError):
                reader = NodeReader(named=named, complaints=self.complaints, names=[name])
                reader.check(self.terms[name].value)

    def _terms(self, tree: Tree | None) -> None:
        if tree is None or (isinstance(tree, Scalar) and tree.is_null):
            return
        if not isinstance(tree, MappingTree):
            problem = (
                f"`terms` has to be a mapping of names to terms, and this is {described(tree)}"
            )
            self.complaints.fault(tree.place, problem)
            return
        for entry in tree.entries:
            name, first = entry.key.text, self.terms.get(entry.key.text)
            if first is not None:
                problem = f"a second term '{shown(name)}'; the first is in {first.key.place}"
                self.complaints.fault(entry.key.place, problem, "rename one of them")
            else:
                self.terms[name] = entry


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """Give each file once. A folder without any stands for itself, to be complained about."""
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
        named = Named(own=one.terms, others=everybody)
        rules += one.read(named, user=user)
        read |= named.read
    for one in files:
        one.check_unused(read)
    clashes = tuple(repeated(rules))
    return Parsed(
        rules=tuple(rules),
        unsound=tuple(rule for one in files for rule in one.unsound),
        faults=(*(each for one in files for each in _in_order(one.complaints.faults)), *clashes),
        notes=tuple(each for one in files for each in _in_order(one.complaints.notes)),
    )


def _in_order(said: Iterable[RuleFault]) -> list[RuleFault]:
    """Return complaints as they follow in the file, not as the reader came by them."""
    return sorted(said, key=lambda each: (each.place.line or math.inf, each.place.column))
