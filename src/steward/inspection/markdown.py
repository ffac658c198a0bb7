"""Markdown of rule texts, rendered as HTML, as plain text, or sanitised.

Rules are untrusted. HTML in them is text, links go to the web only, and images are not loaded: they
would reveal the reader.
"""

from __future__ import annotations

import re
from functools import cache

from markdown_it import MarkdownIt

__all__ = ["as_html", "as_markdown", "as_plain"]

_LONGEST = 20_000  # characters of one text
_CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"!?\[([^\[\]]*)\]\(([^()\s]*)\)")
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", re.DOTALL)
_BREAKS = re.compile(r"[<>&`\\]")
_BLOCK = re.compile(r"(?m)^(\s*)([#=]|---|~~~)")


def as_html(text: str) -> str:
    """Return paragraphs, lists, code and links, and nothing else, as HTML."""
    return str(_reader().render(text[:_LONGEST])).strip()


def as_plain(text: str) -> str:
    """Return the text without markup; lists keep their marks."""
    text = _CODE.sub(lambda code: code[2].strip(), text)
    return _STRONG.sub(r"\2", _LINK.sub(_with_address, text))


def as_markdown(text: str) -> str:
    """Return Markdown without HTML and headings, safe in any position."""
    parts, at = [], 0
    for code in _CODE.finditer(text):
        parts += [_escaped(text[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, _escaped(text[at:])])


def _with_address(link: re.Match[str]) -> str:
    return f"{link[1]} ({link[2]})" if link[1] != link[2] else link[2]


def _escaped(text: str) -> str:
    return _BLOCK.sub(r"\1\\\2", _BREAKS.sub(lambda sign: f"\\{sign[0]}", text))


class _Reader(MarkdownIt):
    """Markdown parser that accepts http(s) links only."""

    def validateLink(self, url: str) -> bool:  # noqa: N802 - theirs
        return url.lower().startswith(("https://", "http://"))


@cache
def _reader() -> MarkdownIt:
    reader = _Reader("commonmark", {"html": False, "maxNesting": 10})
    return reader.disable(
        ["heading", "lheading", "hr", "image", "html_block", "html_inline", "reference"]
    )
