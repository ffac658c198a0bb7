"""Formats that people configure for a source: a pattern, and a name or a Go layout."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import re2

from steward.errors import StewardError, did_you_mean
from steward.observe.logs.formats.template import Template

__all__ = ["NAMED", "Stamp", "stamp"]

_CLOCK = "%H:%M:%S"
NAMED = {
    "rfc3339": f"%Y-%m-%dT{_CLOCK}%F%z",
    "rfc3339nano": f"%Y-%m-%dT{_CLOCK}%F%z",
    "unix": f"%a %b %e {_CLOCK} %x %Y",
    "epochany": "%A",
    "epochseconds": "%s",
    "epochmillis": "%L",
    "epochmicros": "%U",
    "epochnanos": "%N",
    "dotnotation": "%s",
}
# What Go's layouts have, longer ones before shorter ones that they begin with.
_GO = (
    ("January", "%b%l"), ("Monday", "%a"), ("2006", "%Y"), ("Jan", "%b"), ("Mon", "%a"),
    ("MST", "%x"), ("Z07:00", "%z"), ("-07:00", "%z"), ("Z0700", "%Z"), ("-0700", "%o"),
    ("-07", "%Z"), ("PM", "%p"), ("pm", "%p"), ("_2", "%e"), ("01", "%m"), ("02", "%d"),
    ("15", "%H"), ("03", "%I"), ("04", "%M"), ("05", "%S"), ("06", "%y"), ("1", "%k"), ("2", "%e"),
    ("3", "%I"),
)  # fmt: skip
_FRACTION = re.compile(r"[.,](0+|9+)(?!\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """How the times of one source are found and read: only this is tried."""

    search: Callable[[bytes], tuple[int, int] | None]  # where the time stands in a line
    template: Template
    name: str


def stamp(pattern: str, layout: str, *, where: str = "") -> Stamp:
    """Build a stamp from a pattern, whose first group is the time, and a name or a Go layout."""
    try:
        found = re2.compile(pattern.strip().encode())
    except re2.error as fault:
        reason = fault.args[0].decode() if isinstance(fault.args[0], bytes) else str(fault)
        problem = f"the pattern of times '{pattern.strip()}' cannot be read: {reason}"
        raise StewardError(problem, where=where, hint="RE2 has no lookaround") from fault
    if found.groups == 0:
        problem = f"the pattern of times '{pattern.strip()}' has no group"
        raise StewardError(problem, where=where, hint="put parentheses around the time")

    def search(line: bytes) -> tuple[int, int] | None:
        match = found.search(line)
        return None if match is None or match.start(1) < 0 else match.span(1)

    return Stamp(search=search, template=_template(layout.strip(), where), name=layout.strip())


def _template(layout: str, where: str) -> Template:
    if layout in NAMED:
        return Template(text=NAMED[layout])
    text = _from_go(layout)
    if not re.search("%[mbk]", text) or not re.search("%[de]", text):
        problem = f"'{layout}' is no format of times; known: {', '.join(NAMED)}, or a Go layout"
        hint = (
            did_you_mean(layout, NAMED) or "a Go layout has a month and a day: 2006-01-02 15:04:05"
        )
        raise StewardError(problem, where=where, hint=hint)
    return Template(text=text)


def _from_go(layout: str) -> str:
    """Translate a Go layout.

    >>> _from_go("2006-01-02 15:04:05.000 -0700")
    '%Y-%m-%d %H:%M:%S.%3 %o'
    """
    text, at = "", 0
    while at < len(layout):
        fraction = _FRACTION.match(layout, at)
        if fraction and text.endswith("%S"):
            digits = len(fraction[1])
            text += f"{layout[at]}%{min(digits, 9)}" if fraction[1][0] == "0" else "%F"
            at = fraction.end()
            continue
        token, code = next(
            ((token, code) for token, code in _GO if layout.startswith(token, at)), (layout[at], "")
        )
        text += code or token.replace("%", "%%")
        at += len(token)
    return text
