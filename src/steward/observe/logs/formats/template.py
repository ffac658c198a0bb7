"""The small language in which formats are written, and its translation for the compiled reader.

Most of it is what `strftime` has; what is not there is marked with a star.

| code | reads |
| --- | --- |
| `%Y %y %m %d %H %M %S` | digits: four for `%Y`, two for the others |
| `%e` `%b` `%a` `%p` | day of one or two digits, month's name, weekday's name, AM or PM |
| `%I` | hour of one or two digits |
| `%3` … `%9` * | that many digits of a fraction |
| `%F` * | a fraction after `.` or `,`, if there is one |
| `%z` `%o` * | `Z` or `+hh:mm`; `+hhmm` |
| `%Z` * | any of these, or a name for UTC, if there is one |
| `%s` `%r` * | seconds since 1970, perhaps with a fraction; seconds that must have one |
| `%E` * | as `%s`, of ten digits at least: later than 2001, so that few other numbers fit |
| `%A` `%Q` `%L` `%U` `%N` * | digits since 1970: of any unit; 16 to 19 of them; ms; µs; ns |
| `%k` `%l` * | month of one or two digits; letters, if there are any |
| `%n` `%x` `%uC` * | digits, a word, or all up to and with character C: left out |
| `%w` `%W` * | blanks: any number, at least one |
| `%[abc]` * | one of these characters |
| `%D` * | nothing: but no digit may follow |
| `%>` * | nothing: the text begins here, and the time is not part of it |
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from steward.errors import StewardError
from steward.observe.logs.formats import codes
from steward.observe.logs.formats.codes import Ints, Octets

__all__ = ["Template", "TemplateProgram", "compiled"]

Step = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """How a time is written. With `find` it may stand anywhere, right after these characters."""

    text: str
    find: str = ""
    prefixed: bool = False  # a rank may stand before it, as torchrun and srun write it
    relative: bool = False  # counts from when the machine started


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TemplateProgram:
    """Templates in the form of the compiled reader: tried in this order on every line."""

    heads: Ints  # per template: where `find` is in the pool, its length, flags, first step
    steps: Ints
    pool: Octets


_PLAIN: dict[str, Step] = {
    "Y": (codes.DIGITS, codes.YEAR, 4),
    "m": (codes.DIGITS, codes.MONTH, 2),
    "d": (codes.DIGITS, codes.DAY, 2),
    "H": (codes.DIGITS, codes.HOUR, 2),
    "M": (codes.DIGITS, codes.MINUTE, 2),
    "S": (codes.DIGITS, codes.SECOND, 2),
    "y": (codes.SHORT_YEAR, 0, 0),
    "e": (codes.PADDED, codes.DAY, 0),
    "I": (codes.PADDED, codes.HOUR, 0),
    "k": (codes.PADDED, codes.MONTH, 0),
    "b": (codes.MONTH_NAME, 0, 0),
    "a": (codes.LETTERS, 3, 0),
    "l": (codes.LETTERS, 0, 0),
    "p": (codes.HALF, 0, 0),
    "F": (codes.MAYBE_FRACTION, 0, 0),
    "z": (codes.ZONE, codes.ZONE_Z | codes.ZONE_COLON, 0),
    "o": (codes.ZONE, codes.ZONE_PLAIN, 0),
    "Z": (codes.ZONE, codes.ZONE_ANY, 0),
    "s": (codes.SECONDS, 0, 1),
    "r": (codes.SECONDS, 1, 1),
    "E": (codes.SECONDS, 0, 10),
    "A": (codes.EPOCH, codes.ANY_UNIT, 1),
    "Q": (codes.EPOCH, codes.ANY_UNIT, 16),
    "L": (codes.EPOCH, 1_000_000, 1),
    "U": (codes.EPOCH, 1_000, 1),
    "N": (codes.EPOCH, 1, 1),
    "n": (codes.SOME_DIGITS, 0, 0),
    "x": (codes.WORD, 0, 0),
    "w": (codes.BLANKS, 0, 0),
    "W": (codes.BLANKS, 1, 0),
    "D": (codes.NO_DIGIT, 0, 0),
    ">": (codes.TEXT, 0, 0),
    "%": (codes.LITERAL, ord("%"), 0),
}


def compiled(templates: tuple[Template, ...]) -> TemplateProgram:
    """Translate templates, all into one program."""
    heads: list[tuple[int, int, int, int]] = []
    steps: list[Step] = []
    pool = bytearray()

    def kept(text: str) -> tuple[int, int]:
        pool.extend(text.encode())
        return len(pool) - len(text.encode()), len(text.encode())

    for each in templates:
        flags = codes.PREFIXED * each.prefixed | codes.RELATIVE * each.relative
        heads.append((*kept(each.find), flags, len(steps)))
        steps += _steps(each.text, kept)
        steps.append((codes.END, 0, 0))
    return TemplateProgram(
        heads=np.array(heads, np.int64).reshape(-1, 4),
        steps=np.array(steps, np.int64).reshape(-1, 3),
        pool=np.frombuffer(bytes(pool) or b"\0", np.uint8),
    )


def _steps(text: str, kept: Callable[[str], tuple[int, int]]) -> list[Step]:
    steps: list[Step] = []
    at = 0
    while at < len(text):
        fused = _fused(text, at)  # what nearly all formats have is read in one step each
        if fused is not None:
            steps.append(fused)
            at += 8
        elif text[at] != "%":
            steps += [(codes.LITERAL, octet, 0) for octet in text[at].encode()]
            at += 1
        else:
            step, length = _coded(text, at + 1, kept)
            steps.append(step)
            at += 1 + length
    return steps


def _fused(text: str, at: int) -> Step | None:
    if text.startswith("%H:%M:%S", at):
        return (codes.CLOCK, 0, 0)
    if re.match("%Y([-/])%m\\1%d", text[at : at + 8]):
        return (codes.DATE, ord(text[at + 2]), 0)
    return None


def _coded(text: str, at: int, kept: Callable[[str], tuple[int, int]]) -> tuple[Step, int]:
    code = text[at : at + 1]
    if code.isdecimal():
        return (codes.FRACTION, int(code), 0), 1
    if code == "u":
        return (codes.UNTIL, ord(text[at + 1]), 0), 2
    if code == "[":
        end = text.index("]", at)
        return (codes.ONE_OF, *kept(text[at + 1 : end])), end - at + 1
    if code not in _PLAIN:
        raise StewardError(f"there is no code '%{code}' in templates of times", where=text)
    return _PLAIN[code], 1
