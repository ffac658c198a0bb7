"""YAML tree with raw scalars, the place of every node, and limits on size and depth.

Scalars are not converted: `502`, `yes`, `1e3` and dates stay text. Anchors are supported; their
expanded size is counted first, so that a small file cannot become a large tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import yaml

from steward.errors import StewardError
from steward.model.rules import SourceLocation

__all__ = [
    "ListTree",
    "MappingEntry",
    "MappingTree",
    "Scalar",
    "Tree",
    "TreeError",
    "read_documents",
]

MAX_BYTES = 16 << 20  # the whole public corpus is about 1 MB
MAX_DEPTH = 64
MAX_NODES = 200_000  # with aliases expanded: some 3000 rules, and some seconds
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
TAG = "tag:yaml.org,2002:"
KNOWN_TAGS = frozenset({TAG + kind for kind in ("str", "int", "float", "bool", "null")})
LOADER: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast where it exists


class TreeError(StewardError):
    """A text that is not YAML, or too large; nothing after it can be read."""

    def __init__(self, problem: str, *, place: SourceLocation, hint: str = "") -> None:
        super().__init__(problem, where=str(place), hint=hint)
        self.place = place


class Scalar(NamedTuple):
    """A scalar. `quoted` is also true of block texts: a number in quotes is text.

    Nodes are named tuples, the fastest to make: a library of 20,000 rules has two million.
    """

    text: str
    quoted: bool
    file: str
    line: int
    column: int

    @property
    def place(self) -> SourceLocation:
        """Where it begins."""
        return SourceLocation(file=self.file, line=self.line, column=self.column)

    @property
    def size(self) -> int:
        """How many values it is."""
        return 1

    @property
    def is_null(self) -> bool:
        """Whether the scalar is null."""
        return not self.quoted and self.text in NULLS


class ListTree(NamedTuple):
    """Several nodes, in order."""

    items: tuple[Tree, ...]
    place: SourceLocation
    size: int


class MappingEntry(NamedTuple):
    """A key with its value."""

    key: Scalar
    value: Tree


class MappingTree(NamedTuple):
    """Keys with values, in order; a key may be there twice, for the reader to report."""

    entries: tuple[MappingEntry, ...]
    place: SourceLocation
    size: int


Tree = Scalar | ListTree | MappingTree


def read_documents(text: str, *, file: str, most_nodes: int = MAX_NODES) -> Iterator[Tree]:
    """Yield every document of a text, or raise `TreeError` at the first syntax error."""
    _refuse_if_large(text, file)
    try:
        yield from _documents(text, file, most_nodes)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = _place(mark, file) if mark else SourceLocation(file=file, line=1, column=1)
        text = ", ".join(part for part in (error.problem, error.context) if part)
        hint = "indent with spaces, and put quotes around text that holds ': ', '#' or brackets"
        raise TreeError(f"this is no YAML: {text}", place=place, hint=hint) from error
    except yaml.YAMLError as error:  # characters that YAML does not allow: it has no mark
        text = " ".join(str(error).split())
        raise TreeError(
            f"this is no YAML: {text}", place=SourceLocation(file=file, line=1, column=1)
        ) from error


def _refuse_if_large(text: str, file: str) -> None:
    start = SourceLocation(file=file, line=1, column=1)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        problem = f"this is no text: character {error.start} cannot be written as UTF-8"
        raise TreeError(problem, place=start) from error
    if size > MAX_BYTES:
        problem = f"a file of more than {MAX_BYTES >> 20} MiB, which is the most that is read"
        raise TreeError(problem, place=start, hint="is it the right file? if so, split it")


def _documents(text: str, file: str, most_nodes: int) -> Iterator[Tree]:
    composer: _Composer | None = None
    before = 0  # one limit for the whole file: documents are cheap to write
    for event in yaml.parse(text, Loader=LOADER):
        if type(event) is yaml.DocumentStartEvent:
            composer = _Composer(file=file, before=before, most_nodes=most_nodes)
        elif composer is not None:
            composer.add_event(event)
            if composer.root is not None:
                before += composer.root.size
                yield composer.root
                composer = None


@dataclass(slots=True, kw_only=True)
class _Open:
    """A list or mapping whose end has not been seen."""

    place: SourceLocation
    anchor: str | None
    is_mapping: bool
    inside: list[Tree] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Composer:
    """Build the tree of one document; not recursive, so that depth does not use our stack."""

    file: str
    before: int  # values in earlier documents
    most_nodes: int
    root: Tree | None = None
    open: list[_Open] = field(default_factory=list)
    anchors: dict[str, Tree] = field(default_factory=dict)
    count: int = 0

    def add_event(self, event: yaml.Event) -> None:
        kind = type(event)  # events have no subclasses; most are scalars
        if kind is yaml.ScalarEvent:
            self._add(self._scalar(event), event.anchor)
        elif kind in (yaml.MappingEndEvent, yaml.SequenceEndEvent):
            self._end()
        elif kind in (yaml.MappingStartEvent, yaml.SequenceStartEvent):
            self._begin(event, _place(event.start_mark, self.file))
        elif kind is yaml.AliasEvent:
            place = _place(event.start_mark, self.file)
            self._add(self._aliased(event.anchor, place), None)

    def _aliased(self, name: str, place: SourceLocation) -> Tree:
        if any(each.anchor == name for each in self.open):
            raise TreeError(f"*{name} stands inside &{name} itself", place=place)
        if name not in self.anchors:
            known = ", ".join(f"&{each}" for each in list(self.anchors)[:20]) or "none"
            raise TreeError(
                f"there is no anchor &{name} before *{name}; known: {known}", place=place
            )
        return self.anchors[name]

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        tag, mark = event.tag, event.start_mark
        quoted = not event.implicit[0]
        if tag is not None:
            if tag not in KNOWN_TAGS and tag != "!":
                problem = f"tags are not allowed, and this is {tag}"
                raise TreeError(problem, place=_place(mark, self.file))
            quoted = quoted and tag in ("!", TAG + "str")
        return Scalar(event.value, quoted, self.file, mark.line + 1, mark.column + 1)

    def _begin(self, event: yaml.CollectionStartEvent, place: SourceLocation) -> None:
        if event.tag is not None:
            raise TreeError(f"tags are not allowed, and this is {event.tag}", place=place)
        if len(self.open) >= MAX_DEPTH:
            raise TreeError(f"more than {MAX_DEPTH} levels inside one another", place=place)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        self.open.append(_Open(place=place, anchor=event.anchor, is_mapping=is_mapping))

    def _end(self) -> None:
        done = self.open.pop()
        size = 1 + sum(each.size for each in done.inside)
        if not done.is_mapping:
            items = tuple(done.inside)
            self._add(ListTree(items=items, place=done.place, size=size), done.anchor)
            return
        entries = tuple(_entries(done.inside))
        self._add(MappingTree(entries=entries, place=done.place, size=size), done.anchor)

    def _add(self, tree: Tree, anchor: str | None) -> None:
        self.count += 1
        if self.before + max(self.count, tree.size) > self.most_nodes:
            problem = f"more than {self.most_nodes} values, with anchors unfolded"
            hint = "an anchor that holds aliases grows with every level"
            raise TreeError(problem, place=tree.place, hint=hint)
        if anchor is not None:
            self.anchors[anchor] = tree
        if self.open:
            self.open[-1].inside.append(tree)
        else:
            self.root = tree


def _entries(inside: list[Tree]) -> Iterator[MappingEntry]:
    """Pair keys with values, and merge `<<` after the mapping's own keys."""
    own: set[str] = set()
    merged: list[MappingEntry] = []
    for key, value in zip(inside[::2], inside[1::2], strict=True):
        if not isinstance(key, Scalar):
            raise TreeError("a key has to be a word", place=key.place)
        if key.text == "<<" and not key.quoted:
            merged += _merged(value)
            continue
        own.add(key.text)
        yield MappingEntry(key, value)
    for entry in merged:
        if entry.key.text not in own:
            own.add(entry.key.text)
            yield entry


def _merged(value: Tree) -> list[MappingEntry]:
    found: list[MappingEntry] = []
    for each in value.items if isinstance(value, ListTree) else (value,):
        if not isinstance(each, MappingTree):
            raise TreeError("`<<` takes a mapping, or a list of mappings", place=each.place)
        found += each.entries
    return found


def _place(mark: yaml.Mark, file: str) -> SourceLocation:
    return SourceLocation(file=file, line=mark.line + 1, column=mark.column + 1)
