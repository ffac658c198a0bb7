"""What rules say about themselves: a little Markdown, as HTML, as plain text, or made safe.

Rules come from others. HTML in them is text, links go to the web only, and pictures are not shown:
they would tell somebody who looks.
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
    """Return the words without marks, as they would be read aloud; lists keep theirs."""
    text = _CODE.sub(lambda code: code[2].strip(), text)
    return _STRONG.sub(r"\2", _LINK.sub(_with_address, text))


def as_markdown(text: str) -> str:
    """Return Markdown in which nothing is HTML or a heading, wherever it is put."""
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
    """Links lead to the web; any other is a link to where one is."""

    def validateLink(self, url: str) -> bool:  # noqa: N802 - theirs
        return url.lower().startswith(("https://", "http://"))


@cache
def _reader() -> MarkdownIt:
    reader = _Reader("commonmark", {"html": False, "maxNesting": 10})
    return reader.disable(
        ["heading", "lheading", "hr", "image", "html_block", "html_inline", "reference"]
    )
