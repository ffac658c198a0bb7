"""Markdown of rules as HTML and text, sanitised."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.inspection.markdown import as_html, as_markdown, as_plain

ALLOWED = re.compile(
    r"</?(?:p|ul|ol|li|em|strong|blockquote|pre)>|</?code(?: class=\"language-[^\"<>]*\")?>"
    r"|<br />|<ol start=\"\d+\">|<a href=\"(?:https?://[^\"<>]*)?\"(?: title=\"[^\"<>]*\")?>|</a>"
)
SIGNS = (
    "<",
    ">",
    "`",
    "[",
    "](",
    ")",
    "!",
    "*",
    "_",
    "#",
    "\n",
    "- ",
    "&",
    '"',
    "'",
    "\\",
    "script",
    "javascript:",
    "https://",
    "onerror=",
    "&#106;",
    "x",
    " ",
    "    ",
    "~~~",
    "data:",
    "1. ",
)


def test_lists_code_and_emphasis_are_shown_as_such() -> None:
    html = as_html("- run `nvidia-smi -q`\n- **then** wait,\n  and look")

    assert html.count("<li>") == 2
    assert "<code>nvidia-smi -q</code>" in html
    assert "<strong>then</strong> wait,\nand look" in html


@pytest.mark.parametrize(
    "evil",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](&#106;avascript:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "<javascript:alert(1)>",
        "![x](https://example.org/who-looks.png)",
        '[x](https://example.org "><script>alert(1)</script>")',
        '```"><script>\nalert(1)\n```',
        "[x]: javascript:alert(1)\n\n[x]",
    ],
)
def test_hostile_text_stays_text(evil: str) -> None:
    html = as_html(evil)

    assert "<" not in ALLOWED.sub("", html)
    assert "<img" not in html
    assert 'href="javascript' not in html


@given(st.lists(st.sampled_from(SIGNS), max_size=40).map("".join))
def test_whatever_is_written_only_harmless_elements_come_of_it(text: str) -> None:
    assert "<" not in ALLOWED.sub("", as_html(text))


def test_plain_text_has_no_marks_and_shows_where_links_go() -> None:
    text = "**Run** `a_b`, see [the page](https://example.org); 2 * 3 * 4"

    assert as_plain(text) == "Run a_b, see the page (https://example.org); 2 * 3 * 4"


def test_markdown_for_others_keeps_code_and_escapes_what_would_break() -> None:
    made = as_markdown("# 1 is <b>, `x < y` and a lone ` sign")

    assert made == "\\# 1 is \\<b\\>, `x < y` and a lone \\` sign"
    assert "&lt;b&gt;" in as_html(made)
    assert "<code>x &lt; y</code>" in as_html(made)
