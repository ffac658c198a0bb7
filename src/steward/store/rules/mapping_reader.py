"""Reader of a mapping by its table of fields; reports all that does not fit."""

from __future__ import annotations

from collections.abc import Mapping

from steward.errors import StewardError
from steward.model.rules import SourceLocation
from steward.store.rules.faults import Diagnostics
from steward.store.rules.language.fields import MAPPINGS, FieldKind, FieldSpec, MappingSpec
from steward.store.rules.language.scalars import duration_ns, finite, flag, whole
from steward.store.rules.tree import ListTree, MappingEntry, MappingTree, Scalar, Tree

__all__ = ["MappingReader", "described", "items_of", "shown"]


class MappingReader:
    """Read the keys of one mapping; missing or wrong ones give a default and a diagnostic.

    `shapes` is the table of the language: that of rule files unless another one is given.
    """

    def __init__(
        self,
        tree: Tree | None,
        shape: str,
        diagnostics: Diagnostics,
        *,
        shapes: Mapping[str, MappingSpec] = MAPPINGS,
    ) -> None:
        self.shapes = shapes
        self.shape = shapes[shape]
        self.diagnostics = diagnostics
        self.place = tree.place if tree is not None else SourceLocation()
        self.found: dict[str, MappingEntry] = {}
        if tree is None or (isinstance(tree, Scalar) and tree.is_null):
            entries: tuple[MappingEntry, ...] = ()
        elif isinstance(tree, MappingTree):
            entries = tree.entries
        else:
            what = "a rule file" if shape == "document" else f"`{shape}`"
            problem = f"{what} has to be a mapping, and this is {described(tree)}"
            diagnostics.fault(tree.place, problem, f"its keys: {self._keys()}")
            return
        for entry in entries:
            self._take(entry)
        for name in (each.name for each in self.shape.fields.values() if each.required):
            if tree is not None and name not in self.found:
                self._missing(name)

    def _take(self, entry: MappingEntry) -> None:
        name = entry.key.text
        known = self.shape.fields.get(name)
        if known is None:
            self._unknown(entry)
        elif known.only_lenient:
            problem = f"`{name}` means nothing in `{self.shape.name}`"
            self.diagnostics.ignored(
                entry.key.place, problem, "some public rules have it; take it out"
            )
        elif name in self.found:
            problem = f"`{name}` is written twice; first in line {self.found[name].key.line}"
            self.diagnostics.fault(entry.key.place, problem, "keep one of them")
        else:
            self.found[name] = entry

    def _unknown(self, entry: MappingEntry) -> None:
        name = shown(entry.key.text)
        meant = (each.name for each in self.shape.fields.values() if name in each.instead)
        near = self.diagnostics.near(next(meant, entry.key.text), self.shape.fields)
        problem = f"there is no key `{name}` in `{self.shape.name}`"
        hint = near or f"its keys: {self._keys()}"
        self.diagnostics.ignored(entry.key.place, problem, hint)

    def _missing(self, name: str) -> None:
        problem = f"`{name}` is missing in `{self.shape.name}`"
        self.diagnostics.fault(self.place, problem, self.shape.fields[name].doc)

    def _keys(self) -> str:
        fields = self.shape.fields.values()
        return ", ".join(each.name for each in fields if not each.only_lenient)

    def __contains__(self, name: str) -> bool:
        return name in self.found

    def at(self, name: str) -> SourceLocation:
        """Return the place of a value, or of its mapping if there is none."""
        return self.found[name].value.place if name in self.found else self.place

    def key_at(self, name: str) -> SourceLocation:
        """Return the place of a key, or of its mapping if there is none."""
        return self.found[name].key.place if name in self.found else self.place

    def tree(self, name: str) -> Tree | None:
        """Return the raw tree of a value."""
        self._field(name)
        return self.found[name].value if name in self.found else None

    def text(self, name: str) -> str:
        """Return a text; '' where there is none."""
        value = self._scalar(name, FieldKind.TEXT)
        return "" if value is None or value.is_null else value.text

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        self._field(name, FieldKind.TEXTS)
        found = []
        for each in items_of(self.tree(name), name, self.diagnostics):
            if isinstance(each, Scalar):
                found.append(each.text)
            else:
                problem = f"`{name}` is a list of texts, and this is {described(each)}"
                self.diagnostics.fault(each.place, problem)
        return tuple(found)

    def whole(self, name: str, *, default: int = 0, at_most: int = 1 << 31) -> int:
        """Return a whole number, not below zero where the table says so."""
        value = self._scalar(name, FieldKind.WHOLE, FieldKind.COUNT)
        if value is None or value.is_null:
            return default
        least = 0 if self._field(name).kind is FieldKind.WHOLE else -at_most
        number = None if value.quoted else self._whole(value, name)
        if number is not None and least <= number <= at_most:
            return number
        bounds = f" from {least} to {at_most}" if number is not None else ""
        hint = "take the quotes off" if value.quoted and whole(value.text) is not None else ""
        problem = f"`{name}` is a whole number{bounds}, not {described(value)}"
        self.diagnostics.fault(value.place, problem, hint)
        return default

    def _whole(self, value: Scalar, name: str) -> int | None:
        """Read a whole number; when lenient, cut one with a fraction as other tools do."""
        number, near = whole(value.text), finite(value.text)
        if number is not None or near is None or not self.diagnostics.lenient:
            return number
        self.diagnostics.note(value.place, f"`{name}` counts as {int(near)}, not {value.text}")
        return int(near)

    def number(self, name: str) -> float:
        """Return a finite number."""
        value = self._scalar(name, FieldKind.NUMBER)
        if value is None:
            return 0.0
        number = None if value.quoted else finite(value.text)
        if number is not None:
            return number
        self.diagnostics.fault(value.place, f"`{name}` is a number, not {described(value)}")
        return 0.0

    def flag(self, name: str) -> bool:
        """Return a boolean; False where there is none."""
        value = self._scalar(name, FieldKind.FLAG)
        if value is None or value.is_null:
            return False
        meant = None if value.quoted else flag(value.text)
        if meant is None:
            problem = f"`{name}` is true or false, not {described(value)}"
            self.diagnostics.fault(value.place, problem)
        return bool(meant)

    def duration(self, name: str, *, default: int = 0) -> int:
        """Return a duration in nanoseconds."""
        value = self._scalar(name, FieldKind.DURATION)
        if value is None or value.is_null:
            return default
        try:
            return duration_ns(value.text)
        except StewardError as error:
            self.diagnostics.fault(value.place, f"`{name}`: {error.problem}", error.hint)
            return default

    def choice(self, name: str) -> str:
        """Return one of the words that the table allows; '' where there is none."""
        value = self._scalar(name, FieldKind.CHOICE)
        possible = self._field(name).choices
        if value is None or value.text in possible:
            return "" if value is None else value.text
        problem = f"there is no {name} '{shown(value.text)}'; known: {', '.join(possible)}"
        self.diagnostics.fault(value.place, problem, self.diagnostics.near(value.text, possible))
        return ""

    def one(self, name: str) -> MappingReader:
        """Return the mapping inside; an empty one where there is none."""
        shape = self._field(name, FieldKind.ONE).shape
        return MappingReader(self.tree(name), shape, self.diagnostics, shapes=self.shapes)

    def many(self, name: str) -> tuple[MappingReader, ...]:
        """Return the mappings of a list."""
        shape = self._field(name, FieldKind.MANY).shape
        items = items_of(self.tree(name), name, self.diagnostics)
        return tuple(
            MappingReader(each, shape, self.diagnostics, shapes=self.shapes) for each in items
        )

    def _field(self, name: str, *kinds: FieldKind) -> FieldSpec:
        known = self.shape.fields[name]
        if kinds and known.kind not in kinds:  # a bug: reader and table disagree
            raise TypeError(f"{self.shape.name}.{name} is {known.kind.value}")
        return known

    def _scalar(self, name: str, *kinds: FieldKind) -> Scalar | None:
        kind = self._field(name, *kinds).kind
        value = self.tree(name)
        if value is None or isinstance(value, Scalar):
            return value
        problem = f"`{name}` has to be {kind.value}, and this is {described(value)}"
        self.diagnostics.fault(value.place, problem)
        return None


def items_of(tree: Tree | None, name: str, diagnostics: Diagnostics) -> tuple[Tree, ...]:
    """Return the items of a list; none where it is null."""
    if tree is None or (isinstance(tree, Scalar) and tree.is_null):
        return ()
    if isinstance(tree, ListTree):
        return tree.items
    problem = f"`{name}` has to be a list, and this is {described(tree)}"
    diagnostics.fault(tree.place, problem, "begin each of its lines with '- '")
    return ()


def described(tree: Tree) -> str:
    """Return a description of a value, for diagnostics."""
    if isinstance(tree, ListTree):
        return "a list"
    if isinstance(tree, MappingTree):
        return "a mapping"
    if tree.is_null:
        return "empty"
    return f'"{shown(tree.text)}" in quotes' if tree.quoted else f"'{shown(tree.text)}'"


def shown(text: str) -> str:
    """Cut a text to what fits into a sentence."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:60] + "…"
