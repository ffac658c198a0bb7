"""Line and column of each key of a TOML text, which `tomllib` does not return.

The text has been parsed before; this only walks over it. What it cannot place has no place, and a
mistake is then shown with its file alone.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["KeyPath", "Place", "nearest", "places_of"]

KeyPath = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[^\s.=\[\]{}\"'#,]+")
_BARE_VALUE = re.compile(r"[^,\]}#\n]*")
_STRING = re.compile(
    r'"""(?:[^\\"]|\\.|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a key begins, and on the same line its value; both count from 1."""

    line: int
    column: int
    value_column: int


def places_of(text: str) -> dict[KeyPath, Place]:
    r"""Map each table, key and array element of a TOML text to its place.

    >>> places_of("[loop]\nevery_s = 5")[("loop", "every_s")]
    Place(line=2, column=1, value_column=11)
    """
    walk = _Walk(text)
    walk.document()
    return walk.places


def nearest(places: Mapping[KeyPath, Place], path: KeyPath) -> Place | None:
    """Return the place of a key, or of the nearest table around it."""
    for end in range(len(path), 0, -1):
        if path[:end] in places:
            return places[path[:end]]
    return None


class _Walk:
    """One pass over the text. Every step consumes input, so that any text terminates."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.places: dict[KeyPath, Place] = {}
        self._starts = [0, *(i + 1 for i, char in enumerate(text) if char == "\n")]
        self._sizes: dict[KeyPath, int] = {}  # of arrays of tables

    def document(self) -> None:
        base: KeyPath = ()
        while self._skip_blank():
            if self.text.startswith("[", self.at):
                base = self._header()
            else:
                self._pair(base)

    # -- parts of a document -------------------------------------------------------------------

    def _header(self) -> KeyPath:
        start = self.at
        repeated = self.text.startswith("[[", self.at)
        self.at += 2 if repeated else 1
        path: KeyPath = ()
        keys = self._key()
        for i, key in enumerate(keys):
            path = (*path, key)
            self._note(path, start, start, first_wins=i < len(keys) - 1)
            if repeated and i == len(keys) - 1:
                self._sizes[path] = self._sizes.get(path, 0) + 1
            if path in self._sizes:  # a table inside an array belongs to its newest element
                path = (*path, self._sizes[path] - 1)
                self._note(path, start, start, first_wins=True)
        self._skip_to_line_end()
        return path

    def _pair(self, base: KeyPath) -> None:
        start = self.at
        keys = self._key()
        self._skip_blank()
        if not keys or not self.text.startswith("=", self.at):
            self.at = max(self.at, start + 1)
            return
        self.at += 1
        self._skip_blank()
        for end in range(1, len(keys) + 1):
            self._note((*base, *keys[:end]), start, self.at, first_wins=end < len(keys))
        self._value((*base, *keys))

    def _key(self) -> tuple[str, ...]:
        keys: list[str] = []
        while self._skip_blank():
            string = _STRING.match(self.text, self.at)
            bare = string or _BARE_KEY.match(self.text, self.at)
            if bare is None:
                break
            keys.append(_plain(bare.group()) if string else bare.group())
            self.at = bare.end()
            self._skip_blank()
            if not self.text.startswith(".", self.at):
                break
            self.at += 1
        return tuple(keys)

    def _value(self, path: KeyPath) -> None:
        string = _STRING.match(self.text, self.at)
        if string is not None:
            self.at = string.end()
        elif self.text.startswith("[", self.at):
            self._array(path)
        elif self.text.startswith("{", self.at):
            self._inline_table(path)
        else:
            bare = _BARE_VALUE.match(self.text, self.at)
            self.at = bare.end() if bare else self.at

    def _array(self, path: KeyPath) -> None:
        self.at += 1
        index = 0
        while self._skip_blank() and not self.text.startswith("]", self.at):
            if self.text.startswith(",", self.at):
                self.at += 1
                continue
            start = self.at
            self._note((*path, index), start, start)
            self._value((*path, index))
            self.at = max(self.at, start + 1)
            index += 1
        self.at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self.at += 1
        while self._skip_blank() and not self.text.startswith("}", self.at):
            if self.text.startswith(",", self.at):
                self.at += 1
            else:
                self._pair(path)
        self.at += 1

    # -- small steps ---------------------------------------------------------------------------

    def _skip_blank(self) -> bool:
        blank = _BLANK.match(self.text, self.at)
        self.at = blank.end() if blank else self.at
        return self.at < len(self.text)

    def _skip_to_line_end(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _note(self, path: KeyPath, key_at: int, value_at: int, *, first_wins: bool = False) -> None:
        if first_wins and path in self.places:
            return
        line = bisect_right(self._starts, key_at)
        start = self._starts[line - 1]
        self.places[path] = Place(
            line=line, column=key_at - start + 1, value_column=value_at - start + 1
        )


def _plain(quoted: str) -> str:
    try:
        return str(tomllib.loads(f"v = {quoted}")["v"])
    except tomllib.TOMLDecodeError:
        return quoted
