"""What a jq program may not use, with the reason and what to write in its place."""

from __future__ import annotations

from typing import NoReturn

from steward.errors import StewardError

__all__ = ["refuse", "refuse_name"]


def _each(names: str, words: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), words)


_LISTED = "docs/rules/terms.md lists what a program can use"
_REASONS = (
    _each("def recurse until while repeat combinations", "may never end")
    | _each("reduce foreach setpath", "may grow without end")
    | _each("as label break", "makes the cost of the rest unknown")
    | _each("match scan sub gsub splits", "may take very long")
    | _each("= |= += -= *= /= %= //=", "changes the entry")
    | _each(
        "import include module modulemeta get_search_list get_jq_origin get_prog_origin env $ENV "
        "input inputs input_filename input_line_number debug stderr now localtime strflocaltime "
        "halt_error $__loc__ $__prog_args",
        "looks outside the entry",
    )
)
_HINTS = {
    "recurse": "`..` goes through all values of the entry, and ends",
    "as": "write the path twice, or make two terms",
    **_each(
        "match scan sub gsub splits",
        "use `test` or `capture`, or a term or extract of the kind `regex`",
    ),
    **_each("= |= += -= *= /= %= //=", "compare with `==`; a test changes nothing"),
}


def refuse(what: str, *, hint: str = _LISTED) -> NoReturn:
    """Say what a program uses that it may not."""
    raise StewardError(f"the jq program uses {what}", hint=hint)


def refuse_name(name: str) -> NoReturn:
    """Say why a program may not use a name or sign."""
    reason = _REASONS.get(name, "is not known here")
    hint = _LISTED
    if name in _REASONS:
        quoted = f'write "{name}" in quotes where it is a key; otherwise say it without'
        hint = _HINTS.get(name, quoted)
    refuse(f"`{name}`, which {reason}", hint=hint)
