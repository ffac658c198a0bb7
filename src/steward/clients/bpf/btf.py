"""Reads the kernel's description of its own types (BTF): where fields are, what hooks are given.

A hundred thousand types are walked once for their places only; names are looked up when asked.
What was answered is remembered, so that the types themselves, 10 MB of them, can be put away.
"""

from __future__ import annotations

import struct
import threading
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError

__all__ = ["VMLINUX", "Btf", "Field", "kernel_types"]

VMLINUX = Path("/sys/kernel/btf/vmlinux")
_MAGIC = 0xEB9F

_INT, _PTR, _ARRAY, _STRUCT, _UNION, _ENUM, _FWD, _TYPEDEF = 1, 2, 3, 4, 5, 6, 7, 8
_VOLATILE, _CONST, _RESTRICT, _FUNC, _FUNC_PROTO, _VAR, _DATASEC = 9, 10, 11, 12, 13, 14, 15
_FLOAT, _DECL_TAG, _TYPE_TAG, _ENUM64 = 16, 17, 18, 19
_TRANSPARENT = (_TYPEDEF, _VOLATILE, _CONST, _RESTRICT, _TYPE_TAG)
# how many 32-bit words follow the three of a type: always, and for each of its members
_ALWAYS = {_INT: 1, _ARRAY: 3, _VAR: 1, _DECL_TAG: 1}
_EACH = {_STRUCT: 3, _UNION: 3, _ENUM: 2, _FUNC_PROTO: 2, _DATASEC: 3, _ENUM64: 3}


Asked = ParamSpec("Asked")
Told = TypeVar("Told")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Where a field is in its struct. A bit field starts `shift` bits into `size` bytes."""

    offset: int
    size: int
    shift: int = 0
    bits: int = 0  # 0: not a bit field

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1


def _remembered(
    ask: Callable[Concatenate[Btf, Asked], Told],
) -> Callable[Concatenate[Btf, Asked], Told]:
    """Answer a question from memory if it was asked before, else from the types."""

    @wraps(ask)
    def answer(self: Btf, /, *args: Asked.args, **named: Asked.kwargs) -> Told:
        question = (ask.__name__, *args, *sorted(named.items()))
        with self._lock:
            if question not in self._answers:
                self._take_out()
                self._answers[question] = ask(self, *args, **named)
            return cast("Told", self._answers[question])

    return answer


class Btf:
    """The types of one kernel. `read` gives their description, again after they were put away."""

    def __init__(self, read: Callable[[], bytes], *, where: str = "BTF") -> None:
        self._where = where
        self._read = read
        self._lock = threading.RLock()  # nobody puts away what another one is reading
        self._answers: dict[tuple[object, ...], Any] = {}
        self._is_out = False
        self._take_out()

    def put_away(self) -> None:
        """Let go of the memory that the types take; what was answered stays known."""
        with self._lock:
            self._is_out = False
            self._blob = self._strings = b""
            self._words: NDArray[np.uint32] = np.empty(0, dtype=np.uint32)
            self._starts = self._names = self._words
            self._kinds: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)

    def _take_out(self) -> None:
        if not self._is_out:
            self._understand(self._read(), self._where)
            self._is_out = True

    def _understand(self, blob: bytes, where: str) -> None:
        if len(blob) < 24 or struct.unpack_from("<H", blob)[0] != _MAGIC:
            raise StewardError("this is not BTF", where=where)
        header, types, types_size, strings, strings_size = struct.unpack_from("<IIIII", blob, 4)
        if header + strings + strings_size > len(blob) or types_size % 4:
            raise StewardError("the file is cut short", where=where)
        self._strings = blob[header + strings : header + strings + strings_size]
        start = header + types
        self._blob = blob[start : start + types_size]
        self._words = np.frombuffer(self._blob, dtype="<u4")
        self._starts = self._walk()
        self._names = self._words[self._starts]
        about = self._words[self._starts + 1]
        self._kinds = ((about >> 24) & 31).astype(np.uint8)

    # -- finding ---------------------------------------------------------------------------------

    @_remembered
    def struct_size(self, name: str) -> int:
        return int(self._words[self._at(self._find(name, _STRUCT)) + 2])

    @_remembered
    def field(self, name: str, path: str) -> Field:
        """Return where `path` (`a`, or `a.b` through structs) is inside the struct `name`."""
        of = self._find(name, _STRUCT)
        bits, last = 0, None
        for part in path.split("."):
            found = next((each for each in self._members(of) if each[0] == part), None)
            if found is None:
                raise StewardError(
                    f"struct {name} has no field '{path}'", where=self._where, hint=self._older
                )
            _, of, at, width = found
            bits, last = bits + at, width
        return self._field(of, bits, last or 0)

    @_remembered
    def has(self, name: str, path: str = "") -> bool:
        """Say whether a struct, or a field of it, is there."""
        try:
            self.field(name, path) if path else self._find(name, _STRUCT)
        except StewardError:
            return False
        return True

    @_remembered
    def arguments(self, tracepoint: str) -> tuple[str, ...]:
        """Return the types of what a tracepoint is given: `bool`, `task_struct *`, ..."""
        typedef = self._find(f"btf_trace_{tracepoint}", _TYPEDEF)
        proto = self._resolved(self._pointed(self._pointed(typedef)))
        at = self._at(proto)
        count = int(self._words[at + 1]) & 0xFFFF
        first = at + 3 + 2  # the hook's own data pointer comes first and is not for us
        return tuple(
            self._spelled(int(self._words[first + 2 * each + 1])) for each in range(count - 1)
        )

    @_remembered
    def hook(self, tracepoint: str) -> int:
        """Return the type id that a program for this tracepoint has to name."""
        return self._find(f"btf_trace_{tracepoint}", _TYPEDEF)

    @_remembered
    def function(self, name: str) -> int:
        """Return the type id of a function of the kernel."""
        return self._find(name, _FUNC)

    @_remembered
    def enumerator(self, enum: str, name: str) -> int | None:
        """Return the value of one name of an enum, None where this kernel was built without."""
        at = self._at(self._find(enum, _ENUM))
        for each in range(int(self._words[at + 1]) & 0xFFFF):
            place = at + 3 + 2 * each
            if self._text(int(self._words[place])) == name:
                return int(self._words[place + 1])
        return None

    # -- inside ----------------------------------------------------------------------------------

    _older = "this kernel is older or newer than what steward knows; its other probes go on"

    def _walk(self) -> NDArray[np.uint32]:
        words = memoryview(self._blob).cast("I")  # a list of them would be 40 MB for a moment
        starts = array("I", [0])  # type 0 is void; its place is never used
        append, at, end = starts.append, 0, len(words)
        while at + 2 < end:
            append(at)
            about = words[at + 1]
            kind = about >> 24 & 31
            if not 0 < kind <= _ENUM64:
                problem = f"type {len(starts) - 1} is of an unknown kind ({kind})"
                raise StewardError(problem, where=self._where, hint="a newer kernel than known")
            at += 3 + _ALWAYS.get(kind, 0) + _EACH.get(kind, 0) * (about & 0xFFFF)
        if at != end:
            raise StewardError("the types are cut short", where=self._where)
        return np.frombuffer(starts, dtype=np.uint32)

    def _find(self, name: str, kind: int) -> int:
        place = self._strings.find(b"\0" + name.encode() + b"\0") + 1
        same = (self._names == place) & (self._kinds == kind)
        found = [int(each) for each in np.flatnonzero(same) if each and place]
        if not found:
            raise StewardError(f"this kernel has no '{name}'", where=self._where, hint=self._older)
        return found[0]

    def _at(self, of: int) -> int:
        return int(self._starts[of])

    def _kind(self, of: int) -> int:
        return int(self._kinds[of]) if of else 0

    def _text(self, place: int) -> str:
        return self._strings[place : self._strings.index(b"\0", place)].decode()

    def _pointed(self, of: int) -> int:
        return int(self._words[self._at(of) + 2])

    def _resolved(self, of: int) -> int:
        while self._kind(of) in _TRANSPARENT:
            of = self._pointed(of)
        return of

    def _members(self, of: int) -> Iterator[tuple[str, int, int, int]]:
        """Give name, type, place in bits and width in bits (0: not a bit field), flattened."""
        of = self._resolved(of)
        if self._kind(of) not in (_STRUCT, _UNION):
            return
        at = self._at(of)
        about = int(self._words[at + 1])
        for each in range(about & 0xFFFF):
            place, kind, offset = (int(word) for word in self._words[at + 3 + 3 * each :][:3])
            width = offset >> 24 if about >> 31 else 0
            offset = offset & 0xFFFFFF if about >> 31 else offset
            if place:
                yield self._text(place), kind, offset, width
            else:
                for name, inner, start, wide in self._members(kind):
                    yield name, inner, offset + start, wide

    def _field(self, of: int, bits: int, width: int) -> Field:
        if not width:
            return Field(offset=bits // 8, size=self._size(of))
        # the fewest whole bytes that hold it, so that the load is one and inside the struct
        first, last = bits // 8, (bits + width - 1) // 8
        size = 1
        while size < last - first + 1:
            size *= 2
        return Field(offset=first, size=size, shift=bits % 8, bits=width)

    def _size(self, of: int) -> int:
        of = self._resolved(of)
        kind = self._kind(of)
        if kind == _PTR:
            return 8
        if kind == _ARRAY:
            element, _, count = (int(word) for word in self._words[self._at(of) + 3 :][:3])
            return self._size(element) * count
        return self._pointed(of)  # the same word is the size of what has one

    def _spelled(self, of: int) -> str:
        if not of:
            return "void"
        kind = self._kind(of)
        if kind == _PTR:
            return f"{self._spelled(self._pointed(of))} *"
        if kind in (_VOLATILE, _CONST, _RESTRICT, _TYPE_TAG):
            return self._spelled(self._pointed(of))
        return self._text(int(self._names[of])) or "?"


@cache
def kernel_types(path: Path = VMLINUX) -> Btf:
    """Return the types of the running kernel, read once."""
    return Btf(lambda: _described(path), where=str(path))


def _described(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as fault:
        raise StewardError(
            f"the kernel's types cannot be read: {fault.strerror}",
            where=str(path),
            hint="it needs a kernel with CONFIG_DEBUG_INFO_BTF",
        ) from fault
