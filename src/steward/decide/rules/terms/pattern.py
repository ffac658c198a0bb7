"""Regular expressions as Go reads them, by RE2: linear in the length of the text, whatever it is.

An entry is one text, also when it was folded from several lines: `.` matches a line end, `^` and
`$` are its ends. A byte that is no UTF-8 counts as one U+FFFD, as in Go.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

import re2

from steward.errors import StewardError

__all__ = ["capture_of", "search_of"]

# Where a match and its groups begin and end: (anchor, text, first byte, last byte) -> spans
_Spans = Callable[[object, bytes, int, int], Sequence[tuple[int, int]]]
_UNANCHORED = re2._re2.RE2.Anchor.UNANCHORED  # noqa: SLF001 - what `search` uses
_NOWHERE = (-1, -1)
_BAD_BYTE = "steward.bad-byte"
codecs.register_error(_BAD_BYTE, lambda error: ("\ufffd", error.start + 1))  # type: ignore[attr-defined]


def search_of(pattern: str) -> Callable[[bytes], bool]:
    """Return a test for whether a text has a match of the pattern anywhere."""
    spans = _spans_of(_compiled(_without_edges(pattern), capture=False))

    def test(text: bytes) -> bool:
        text = text if text.isascii() else _as_utf8(text)
        return spans(_UNANCHORED, text, 0, len(text))[0] != _NOWHERE

    return test


def capture_of(pattern: str, name: str) -> Callable[[bytes], str | None]:
    """Return an extractor of the group called `name`, else group 1, else the whole match."""
    compiled = _compiled(pattern)
    group = compiled.groupindex.get(name, min(compiled.groups, 1))
    spans = _spans_of(compiled)

    def capture(text: bytes) -> str | None:
        text = _as_utf8(text)
        found = spans(_UNANCHORED, text, 0, len(text))
        if found[0] == _NOWHERE or found[group] == _NOWHERE:
            return None
        begin, end = found[group]
        return text[begin:end].decode()

    return capture


def _spans_of(compiled: re2._Regexp) -> _Spans:
    """Return what the package's own `search` calls, which takes three times as long."""
    spans: _Spans = compiled._regexp.Match  # noqa: SLF001
    return spans


def _compiled(pattern: str, *, capture: bool = True) -> re2._Regexp:
    options = re2.Options()
    options.dot_nl = True
    options.log_errors = False
    options.never_capture = not capture  # group positions take ten times as long
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0] if error.args else error
        reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        problem = f"the regular expression does not compile: {reason}"
        hint = _REPEATED if "repetition size" in reason else _hint(pattern)
        raise StewardError(problem, hint=hint) from None
    except UnicodeEncodeError:
        problem = "the regular expression has half of a surrogate pair, which no text can hold"
        raise StewardError(problem, hint="write the character itself, or \\x{…}") from None


_REPEATED = "RE2 repeats at most 1000 times, counts inside one another multiplied: ask for fewer"


def _hint(pattern: str) -> str:
    if any(sign in pattern for sign in ("(?=", "(?!", "(?<=", "(?<!")):
        return "RE2 has no look-ahead and no look-behind: use a second term, or a `negate`"
    if any(f"\\{digit}" in pattern for digit in range(1, 10)):
        return "RE2 has no references back to a group: use an `extract` and `correlations`"
    return "the syntax is RE2's: https://github.com/google/re2/wiki/Syntax"


def _without_edges(pattern: str) -> str:
    """Strip `.*` at both ends: a search finds the same without it, and faster."""
    if "\\Q" in pattern:
        return pattern
    while pattern.startswith(".*") and pattern[2:3] not in ("", "|", "?", "*", "+", "{"):
        pattern = pattern[2:]
    while pattern.endswith(".*") and pattern[-3:-2] not in ("", "\\", "|", "("):
        pattern = pattern[:-2]
    return pattern


def _as_utf8(text: bytes) -> bytes:
    if text.isascii():
        return text
    try:
        text.decode()
    except UnicodeDecodeError:
        return text.decode("utf-8", _BAD_BYTE).encode()
    return text
