"""Escapes in label values of Prometheus' text format: backslash, quote and line end."""

from __future__ import annotations

import re

__all__ = ["escape_label", "unescape_label"]

_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}


def escape_label(text: str) -> str:
    """Return a value as it stands between quotes."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def unescape_label(text: str) -> str:
    """Return what a value between quotes means; other escapes are left as they are."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[0]), text)
